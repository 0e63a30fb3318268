package regex

import (
	"math"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testtier"
)

// tracer matches as PCRE does, one way after the other, and counts the steps.
type tracer struct {
	value string
	steps int
}

func (m *tracer) matches(re *syntax.Regexp) bool {
	return m.walk(re, 0, func(at int) bool { return at == len(m.value) })
}

// walk tries an expression at a place of the value, and for each way through it, what follows.
func (m *tracer) walk(re *syntax.Regexp, at int, next func(int) bool) bool {
	if re.Op == syntax.OpLiteral || isSingle(re) {
		return m.sequence(runs(re), at, next)
	}
	m.steps++
	switch re.Op {
	case syntax.OpCapture:
		return m.walk(re.Sub[0], at, next)
	case syntax.OpConcat:
		return m.concat(re.Sub, at, next)
	case syntax.OpAlternate:
		for _, branch := range re.Sub {
			if m.walk(branch, at, next) {
				return true
			}
		}
		return false
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		least, most := repeats(re)
		return m.repeat(re.Sub[0], least, most, at, next)
	case syntax.OpBeginText, syntax.OpBeginLine:
		return at == 0 && next(at)
	case syntax.OpEndText, syntax.OpEndLine:
		return at == len(m.value) && next(at)
	case syntax.OpNoMatch:
		return false
	}
	return next(at)
}

func (m *tracer) repeat(re *syntax.Regexp, least, most, at int, next func(int) bool) bool {
	again := func(after int) bool { return m.repeat(re, max(least-1, 0), most-1, after, next) }
	if most > 0 && isSingle(re) && m.sequence(runs(re), at, again) || most > 0 && !isSingle(re) && m.walk(re, at, again) {
		return true
	}
	return least == 0 && next(at)
}

func (m *tracer) concat(sequence []*syntax.Regexp, at int, next func(int) bool) bool {
	if len(sequence) == 0 {
		return next(at)
	}
	if n := isSearch(sequence); n > 0 {
		for ; at <= len(m.value); at++ {
			m.steps++
			end := -1
			if m.sequence(runs(sequence[1:1+n]...), at, func(after int) bool { end = after; return true }) {
				return m.concat(sequence[1+n:], end, next)
			}
		}
		return false
	}
	return m.walk(sequence[0], at, func(after int) bool { return m.concat(sequence[1:], after, next) })
}

func (m *tracer) sequence(items []bytesOf, at int, next func(int) bool) bool {
	for _, item := range items {
		m.steps++
		if at == len(m.value) || item[m.value[at]/64]>>(m.value[at]%64)&1 == 0 {
			return false
		}
		at++
	}
	return next(at)
}

// TestSteps: no value takes more steps than the bound, whatever the expression.
func TestSteps(t *testing.T) {
	t.Parallel()
	random := testtier.Rand(t)
	parts := []string{
		"a", "b", "c", "ab", "aab", "[ab]", "[^a]", "a*", "b*", "[ab]*", "[^c]*", ".*", "c+", "[bc]+", "a?", "[ab]{2,4}", "b{3}", "(a|b)", "(a|ab|c)", "(a*|[ab]*)",
		"(b|c|)", "(ac|b)?", "(a|bb){0,3}", "(a?b){2,3}", "(.*c)?", "(.*a.*|b.*)", "^", "$", "(|a*c)", "(ab|[bc]*|a)", "((a|b*)c){1,2}", "a*$", "(a*|b*)(c|a)", ".*?",
	}
	tight := 0.0
	for range 5000 {
		expression := ""
		for range 1 + random.IntN(6) {
			expression += parts[random.IntN(len(parts))]
		}
		parsed, err := Parse(expression)
		if err != nil {
			continue // such as a**
		}
		whole := regexp.MustCompile(`\A(?:` + expression + `)\z`)
		for range 10 {
			unit := "aababcbbca"[random.IntN(10):]
			value := strings.Repeat(unit[:1+random.IntN(min(3, len(unit)))], 1+random.IntN(6)) + "abcabbd"[:random.IntN(8)]
			m := tracer{value: value}
			if got := m.matches(parsed.parsed); got != whole.MatchString(value) {
				t.Fatalf("%s and %q: the tracer says %t", expression, value, got)
			}
			bound := parsed.Steps(len(value))
			if float64(m.steps) > bound {
				t.Fatalf("%s and %q take %d steps, more than %g", expression, value, m.steps, bound)
			}
			tight = max(tight, float64(m.steps)/bound)
		}
	}
	t.Logf("the bound is reached up to %.2f", tight)
}

// TestStepsOfOrdinaryExpressions: what people write takes few steps, and what stops HAProxy too many.
func TestStepsOfOrdinaryExpressions(t *testing.T) {
	t.Parallel()
	const linear, quadratic = 32, 3 * 1024
	for expression, most := range map[string]float64{
		`/v[0-9]+/.*`: linear, `.*\.(png|jpg|gif|svg)`: linear, `/users/[^/]+/orders/[^/]+`: linear, `/[a-z]{2}(-[a-z]{2})?/.*`: linear, `.*foo.*`: linear,
		`(?i)/admin(/.*)?`: linear, `^/api/(v1|v2)/[^/]+/[^/]+/.*\.json$`: linear, `/.*[0-9]x.*[0-9]y.*`: linear, `(.*;\s*)?canary=(yes|always)(;.*)?`: linear,
		`(.*/)?[^/]+\.php(/.*)?`: linear, `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`: linear, `(?i).*(bot|crawler|spider).*`: linear,
		`[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}`: linear, `Bearer [^.]+\.[^.]+\.[^.]+`: linear, `.*`: linear, `/(a|b|cd)(e|fg)(h|ij)`: linear,
		`/.*/(foo|bar)/.*\.json`: quadratic, `Mozilla/.*(iPhone|Android).*Mobile.*`: quadratic, `[a-z]*[a-z]*0`: quadratic,
		`.*(a|bc).*(a|bc).*b`: math.Inf(1), `(a|ab|){32}`: math.Inf(1), `[a-z]*[a-y]*[a-x]*0`: math.Inf(1),
	} {
		parsed := must.Get(Parse(expression))(t)
		got := parsed.Steps(1024) / 1024
		t.Logf("%-70s %12.1f per byte", expression, got)
		if got > most || got < 20000 && math.IsInf(most, 1) {
			t.Errorf("%s: %g steps for each byte, want %g", expression, got, most)
		}
	}
}
