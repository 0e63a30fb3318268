package regex

import (
	"math"
	"regexp/syntax"
	"slices"
)

// PCRE tries one way after the other to match a value. A value that almost matches can have so many ways that HAProxy
// stops for seconds, or that PCRE gives up, which HAProxy takes for "does not match". So the steps are bounded in
// advance: steps returns no less than PCRE takes for any value of a length. TestSteps compares it with a matcher that
// counts.
//
// A way is a place in the expression and a place in the value. What ways come to an expression is a flow, and walk
// returns what flow leaves it. Two facts keep the bound near the truth. Where what follows a repetition cannot begin
// with a character of it ("[^/]+/"), each way into it has only one way out. Where what comes before cannot end with one
// ("/[^/]+"), the ways in it at one place of the value all came in at one place.

// bytesOf is a set of bytes.
type bytesOf [4]uint64

var (
	anything = bytesOf{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}
	// lineEnd is what comes before a value and after it. No character of an expression matches it.
	lineEnd = bytesOf{1 << '\n'}
)

func (s bytesOf) or(other bytesOf) bytesOf {
	for i := range s {
		s[i] |= other[i]
	}
	return s
}

func (s bytesOf) meets(other bytesOf) bool {
	for i := range s {
		if s[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

func (s *bytesOf) add(first, last rune) {
	for r := first; r <= min(last, 0xff); r++ {
		s[r/64] |= 1 << (r % 64)
	}
}

// flow bounds the ways that come to a place in the expression.
type flow struct {
	// total is how many there are, paths is how many of them are at the same place of the value.
	total, paths float64
	// doomed are ways more, which the next byte of the value ends.
	doomed float64
	// last are the bytes that they may come after.
	last bytesOf
}

// boundless is more steps than anybody can count.
const boundless = 1e60

// and returns what comes from two places.
func (f flow) and(other flow) flow {
	return flow{f.total + other.total, f.paths + other.paths, f.doomed + other.doomed, f.last.or(other.last)}
}

// bounded returns what comes out of an expression, which is no more than the ways out for each way in.
func (in flow) bounded(out flow, ways float64) (flow, float64) {
	ways = min(ways, boundless)
	out.total = min(out.total, in.total*ways, boundless)
	out.paths = min(out.paths, out.total)
	return out, ways
}

// meter counts steps.
type meter struct {
	// length is the value's length.
	length float64
	steps  float64
	// keepsTexts reports whether the expression was written with groups whose texts are kept.
	keepsTexts bool
}

func (m *meter) measure(re *syntax.Regexp) float64 {
	m.walk(re, flow{total: 1, paths: 1, last: lineEnd}, lineEnd)
	return m.steps
}

// walk returns the flow out of an expression, and the ways out for each way in. The part after the expression begins
// with one of the bytes.
func (m *meter) walk(re *syntax.Regexp, in flow, follow bytesOf) (out flow, ways float64) {
	m.steps += in.total + in.doomed
	switch re.Op {
	case syntax.OpLiteral:
		m.steps += m.sequence(runs(re), in) - in.total
		return flow{total: in.total, paths: in.paths, last: single(re, len(re.Rune)-1)}, 1
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return flow{total: in.total, paths: in.paths, last: single(re, 0)}, 1
	case syntax.OpCapture:
		return m.walk(re.Sub[0], in, follow)
	case syntax.OpConcat:
		return m.concat(re.Sub, in, follow)
	case syntax.OpAlternate:
		return m.alternate(re.Sub, in, follow)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		least, most := repeats(re)
		if isSingle(re.Sub[0]) {
			return m.loop(single(re.Sub[0], 0), float64(least), float64(most), in, follow)
		}
		return m.repeat(re.Sub[0], least, most, in, follow)
	}
	return in, 1
}

// repeats returns how often an expression is repeated.
func repeats(re *syntax.Regexp) (least, most int) {
	switch re.Op {
	case syntax.OpStar:
		return 0, math.MaxInt32
	case syntax.OpPlus:
		return 1, math.MaxInt32
	case syntax.OpQuest:
		return 0, 1
	}
	if re.Max < 0 {
		return re.Min, math.MaxInt32
	}
	return re.Min, re.Max
}

// concat is for a sequence. What writeOperator makes a search of has one way out.
func (m *meter) concat(sequence []*syntax.Regexp, in flow, follow bytesOf) (flow, float64) {
	follows := make([]bytesOf, len(sequence))
	for i, next := len(sequence)-1, follow; i >= 0; i-- {
		follows[i] = next
		next = first(sequence[i], next)
	}
	out, ways := in, 1.0
	for i := 0; i < len(sequence); i++ {
		if n := isSearch(sequence[i:]); n > 0 && !m.keepsTexts {
			items := runs(sequence[i+1 : i+1+n]...)
			m.steps += m.along(out) + m.sequence(items, flow{total: m.along(out), paths: out.total})
			out = flow{total: out.total, paths: out.total, last: items[len(items)-1]}
			i += n
			continue
		}
		var each float64
		out, each = m.walk(sequence[i], out, follows[i])
		out, ways = in.bounded(out, ways*each)
	}
	return out, ways
}

// alternate is for branches, of which a way may take only one if no two begin with the same byte.
func (m *meter) alternate(branches []*syntax.Regexp, in flow, follow bytesOf) (flow, float64) {
	var out flow
	var sum, most float64
	var begun bytesOf
	apart := true
	for _, branch := range branches {
		begin := first(branch, follow)
		apart = apart && !begun.meets(begin)
		begun = begun.or(begin)
		some, ways := m.walk(branch, in, follow)
		out = out.and(some)
		sum, most = sum+ways, max(most, ways)
		if first(branch, lineEnd).meets(lineEnd) {
			out.doomed += in.total // It may be empty, and what follows fail.
		}
	}
	if apart {
		sum = most
	}
	return in.bounded(out, sum)
}

// repeat is for a group that is repeated a few times.
func (m *meter) repeat(group *syntax.Regexp, least, most int, in flow, follow bytesOf) (flow, float64) {
	again := first(group, follow)
	apart := !again.meets(follow)
	var out flow
	sum, highest, ways, inside := 0.0, 0.0, 1.0, in
	for i := 0; ; i++ {
		if i >= least {
			out = out.and(inside)
			sum, highest = sum+ways, max(highest, ways)
		}
		if i == most {
			break
		}
		after := follow
		if i+1 < most {
			after = after.or(again)
		}
		var each float64
		inside, each = m.walk(group, inside, after)
		inside, ways = in.bounded(inside, ways*each)
	}
	if apart {
		sum = highest
		out.doomed += out.total // What follows is looked at after each time.
	}
	return in.bounded(out, sum)
}

// loop is for a single character that is repeated.
func (m *meter) loop(class bytesOf, least, most float64, in flow, follow bytesOf) (flow, float64) {
	m.steps += in.total*(min(least, m.length)+1) + in.doomed
	if follow == lineEnd && most >= m.length && class.or(lineEnd) == anything {
		// It comes to the end of the value, which is all that is left to match.
		m.steps += m.length
		return flow{total: in.total, paths: in.total, doomed: in.doomed, last: anything}, 1
	}
	more := min(most-least, m.length)
	inside := in.total * more
	if more == m.length {
		inside = m.along(in)
	}
	out := flow{paths: min(in.total, in.paths*(more+1)), last: class}
	if !in.last.meets(class) {
		out.paths = in.paths
	}
	if least == 0 {
		out.doomed, out.last = in.doomed, class.or(in.last)
	}
	inside = min(inside, (m.length+1)*out.paths)
	m.steps += inside
	if !follow.meets(class) {
		out.total, out.doomed = in.total, out.doomed+inside
		return in.bounded(out, 1)
	}
	out.total = in.total + inside
	return in.bounded(out, more+1)
}

// along bounds the steps to the end of the value for every way of a flow. There are the most if all are as near to the
// beginning as they can be.
func (m *meter) along(in flow) float64 {
	if in.total == 0 {
		return 0
	}
	return in.total * (m.length - min(max(in.total/in.paths-1, 0), m.length)/2)
}

// sequence bounds the steps in a sequence of single characters. A place of the value is looked at by one way, and by
// those that began before at a byte that the sequence begins with.
func (m *meter) sequence(items []bytesOf, in flow) float64 {
	n := 1.0
	for _, item := range items[1:] {
		if item.meets(items[0]) {
			n++
		}
	}
	return min(in.total*float64(len(items)), in.total+in.paths*(m.length+1)*n)
}

// single returns the bytes that a single character matches. That of a literal is given by its index.
func single(re *syntax.Regexp, i int) bytesOf {
	var s bytesOf
	switch re.Op {
	case syntax.OpCapture:
		return single(re.Sub[0], i)
	case syntax.OpLiteral:
		for all := cases(re, i); len(all) > 0; all = all[2:] {
			s.add(all[0], all[1])
		}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			s.add(re.Rune[i], re.Rune[i+1])
		}
	default:
		s = anything
	}
	s[0] &^= lineEnd[0]
	return s
}

// runs returns what each character of a sequence matches.
func runs(sequence ...*syntax.Regexp) []bytesOf {
	var items []bytesOf
	for _, re := range sequence {
		for i := range max(1, len(re.Rune)) {
			if i == 0 || re.Op == syntax.OpLiteral {
				items = append(items, single(re, i))
			}
		}
	}
	return items
}

// first returns the bytes that the texts of an expression and its continuation can begin with. Assertions look at more
// than that: they may fail whatever follows.
func first(re *syntax.Regexp, follow bytesOf) bytesOf {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return single(re, 0)
	case syntax.OpCapture, syntax.OpPlus:
		return first(re.Sub[0], follow)
	case syntax.OpStar, syntax.OpQuest:
		return follow.or(first(re.Sub[0], follow))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return first(re.Sub[0], follow)
		}
		return follow.or(first(re.Sub[0], follow))
	case syntax.OpConcat:
		for _, sub := range slices.Backward(re.Sub) {
			follow = first(sub, follow)
		}
		return follow
	case syntax.OpAlternate:
		var all bytesOf
		for _, branch := range re.Sub {
			all = all.or(first(branch, follow))
		}
		return all
	case syntax.OpNoMatch:
		return bytesOf{}
	case syntax.OpEmptyMatch:
		return follow
	case syntax.OpEndLine, syntax.OpEndText:
		if follow == lineEnd {
			return lineEnd
		}
	}
	return anything
}
