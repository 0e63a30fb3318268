package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// Entries with further conditions than a host and a path are tested one by one, in the order of precedence, but only
// those of the request's own host and path. They are lists of regular expressions, in files of maps. What they are compared
// with are lines of text:
//
//	?FILE:LIST|HITS  which list, and which file it is in; HITS is not looked at
//	METHOD
//	PATH
//	(two empty lines)
//	h:NAME           for each header that some condition is on, and that the request has
//	VALUE
//	(two empty lines)
//	q:NAME           and for each query parameter
//	VALUE
//
// Each line is compared as a whole, and never again in another way. So a list takes the sum of what its expressions take,
// which internal/routing bounds. Where a value is longer than that allows for, the first expressions of a list match,
// whose hit is an error.
//
// A NAME is looked for after an empty line: there is no VALUE, for it has no line breaks, and is after a NAME.
//
// A list is named by what is in it, with "q" at the end if there are conditions on the query. So a request that was told of one finds it or
// nothing, but never another, and places with the same conditions share one. What is found is the number of an expression in its list.
//
// HAProxy compares one expression of a file after the other. So those of the same number in many lists are alternatives of one
// expression, which a request that was told of none of these lists is done with after the beginning of their names. What costs
// most with many hosts is to fetch all this from memory, so expressions are short, and alternatives are a tree.

// conditionFiles is how many files the lists are in: with more of them, fewer expressions of other lists are in the way.
const conditionFiles = 4

// maxGroup bounds the sizes of the alternatives of lists together: PCRE takes 64 KiB, and a line of a map is 12 KiB at most.
const maxGroup = 48 << 10

// conditionFile returns the name of a file of lists.
func conditionFile(i int) string { return "conditions-" + strconv.Itoa(i) + ".map" }

// conditionLists collects the lists, by name.
type conditionLists map[string]conditionList

// conditionList is a list of expressions for the lines after the first.
type conditionList struct {
	// name is "?FILE:LIST".
	name string
	// sum is LIST, as a number, without what follows that.
	sum         uint64
	expressions []string
	// size is that of the longest alternative, for maxGroup.
	size int
}

// asksQuery is at the end of the name of a list that has conditions on the query.
const asksQuery = "q"

// add adds a list and returns its name, with this at the end.
func (c conditionLists) add(expressions []string, end string) string {
	sum := sum(strings.Join(expressions, "\n"))
	name := fmt.Sprintf("?%d:%016x%s", sum%conditionFiles, sum, end)
	size := 0
	for _, expression := range expressions {
		size = max(size, alternativeSize(name+expression))
	}
	c[name] = conditionList{name: name, sum: sum, expressions: expressions, size: size}
	return name
}

// alternativeSize returns what PCRE needs for an alternative at most: four bytes for each, and 33 for a class. Repeated
// groups are written out, so there is no telling.
func alternativeSize(expression string) int {
	if strings.Contains(expression, "){") {
		return maxGroup
	}
	return 4*len(expression) + 33*(strings.Count(expression, "[")-strings.Count(expression, anyByte))
}

// files returns the entries of every file.
func (c conditionLists) files() map[string][]MapEntry {
	var lists [conditionFiles][]conditionList
	for _, list := range c {
		file := list.sum % conditionFiles
		lists[file] = append(lists[file], list)
	}
	files := map[string][]MapEntry{}
	for i := range lists {
		slices.SortFunc(lists[i], func(a, b conditionList) int { return cmp.Compare(a.sum, b.sum) })
		files[conditionFile(i)] = groups(lists[i], 1<<63)
	}
	return files
}

// groups returns the entries of lists, which are sorted by their sums and differ in this bit or lower ones. Where the groups
// end depends on the sums, so an edit changes few of them.
func groups(lists []conditionList, bit uint64) []MapEntry {
	size := 0
	for i := range lists {
		size += lists[i].size
	}
	if len(lists) <= 1 || size <= maxGroup {
		return group(lists)
	}
	half := slices.IndexFunc(lists, func(l conditionList) bool { return l.sum&bit != 0 })
	if half < 0 {
		return groups(lists, bit>>1)
	}
	return append(groups(lists[:half], bit>>1), groups(lists[half:], bit>>1)...)
}

// group returns an entry for the first expressions of all lists, one for the second, and so on.
func group(lists []conditionList) []MapEntry {
	var entries []MapEntry
	for i := 0; ; i++ {
		lists = slices.DeleteFunc(slices.Clone(lists), func(l conditionList) bool { return len(l.expressions) <= i })
		if len(lists) == 0 {
			return entries
		}
		key := "^" + alternatives(lists, i, 0)
		entries = append(entries, MapEntry{Key: key, Value: strconv.Itoa(i)})
	}
}

// alternatives returns the expressions of a number in lists, each after the name of its list. All names have their first bytes in
// common, which are left out. Names that go on with the same byte are one alternative.
func alternatives(lists []conditionList, number, bytes int) string {
	if len(lists) == 1 {
		return routing.QuoteRegex(lists[0].name[bytes:]) + lists[0].expressions[number]
	}
	prefix := commonPrefix(lists)
	var branches []string
	for len(lists) > 0 {
		next := lists[0].name[len(prefix)]
		n := slices.IndexFunc(lists, func(l conditionList) bool { return l.name[len(prefix)] != next })
		if n < 0 {
			n = len(lists)
		}
		branches = append(branches, alternatives(lists[:n], number, len(prefix)))
		lists = lists[n:]
	}
	return routing.QuoteRegex(prefix[bytes:]) + "(?:" + strings.Join(branches, "|") + ")"
}

// commonPrefix returns what the names of lists, which are sorted, begin with.
func commonPrefix(lists []conditionList) string {
	first, last := lists[0].name, lists[len(lists)-1].name
	n := 0
	for n < len(first) && first[n] == last[n] {
		n++
	}
	return first[:n]
}

// Any byte of a line, any line or the rest of one, and all up to an empty line.
const (
	anyByte  = `[^\n]`
	anyLine  = anyByte + `*\n`
	anyLines = `(?:[^\n]*+\n)*?\n`
)

// conditionExpression returns what follows the name of a list where a request meets an entry of its host and path.
func conditionExpression(entry *routing.Entry) string {
	var b strings.Builder
	if entry.Method != "" || entry.PathType == routing.Regex {
		b.WriteString(anyLine + line(entry.Method, false))
	}
	if entry.PathType == routing.Regex {
		b.WriteString(line(entry.Path, true))
	}
	for _, condition := range headerConditions(entry) {
		b.WriteString(valueOf("h:" + label(condition.Name)))
		if condition.Name == cookieHeader && entry.Session != "" {
			b.WriteString(`(?=(?:` + anyByte + `*[;,])?[\x09\x20]*` + routing.QuoteRegex(entry.Session+"=") + `)`)
		}
		b.WriteString(line(condition.Value, condition.Regex))
	}
	for _, condition := range entry.Query {
		b.WriteString(valueOf("q:"+label(condition.Name)) + line(condition.Value, condition.Regex))
	}
	return b.String()
}

// valueOf returns the expression for all lines before that of a value, which is told by the line with its name.
func valueOf(name string) string { return `(?>` + anyLines + routing.QuoteRegex(name) + `\n)` }

// cookieHeader is the header that has the cookies of a request (RFC 6265, section 5.4).
const cookieHeader = "cookie"

// headerConditions returns the conditions on headers, with one on the cookies if the entry is for a session.
func headerConditions(entry *routing.Entry) []routing.Condition {
	if entry.Session == "" {
		return entry.Headers
	}
	i, found := slices.BinarySearchFunc(entry.Headers, cookieHeader, func(c routing.Condition, name string) int { return cmp.Compare(c.Name, name) })
	if found {
		return entry.Headers
	}
	return slices.Insert(slices.Clone(entry.Headers), i, routing.Condition{Name: cookieHeader})
}

// line returns the expression for a line; "" stands for any.
func line(text string, regex bool) string {
	if text == "" {
		return anyLine
	}
	if !regex {
		return routing.QuoteRegex(text) + `\n`
	}
	translated, err := routing.TranslateRegex(text)
	if err != nil {
		// Compile leaves such entries out.
		translated = "(?!)"
	}
	return "(?>" + translated + `\n)`
}

// longExpressions returns expressions for values that are longer than those of a list with regular expressions may be.
func longExpressions(list []*routing.Entry) []string {
	longer := fmt.Sprintf("%s{%d}", anyByte, routing.LongestValue(list)+1)
	var all []string
	add := func(expression string) {
		if !slices.Contains(all, expression) {
			all = append(all, expression)
		}
	}
	for _, entry := range list {
		if entry.PathType == routing.Regex {
			add(anyLine + anyLine + longer)
		}
		for _, header := range entry.Headers {
			if header.Regex {
				add(valueOf("h:"+label(header.Name)) + longer)
			}
		}
		for _, param := range entry.Query {
			if param.Regex {
				add(valueOf("q:"+label(param.Name)) + longer)
			}
		}
	}
	return all
}

// originsPerItem keeps an expression within a line of a map.
const originsPerItem = 5

// originExpressions returns the list that finds an allowed origin, which is the one line after the first.
func originExpressions(origins []string) []string {
	var expressions []string
	for chunk := range slices.Chunk(origins, originsPerItem) {
		expressions = append(expressions, originExpression(chunk))
	}
	return expressions
}

func originExpression(origins []string) string {
	expressions := make([]string, len(origins))
	for i, origin := range origins {
		scheme, host, _ := strings.Cut(origin, "://")
		if suffix, ok := strings.CutPrefix(host, "*."); ok {
			expressions[i] = routing.QuoteRegex(scheme+"://") + `[a-z0-9\x2D\x2E]+` + routing.QuoteRegex("."+suffix)
		} else {
			expressions[i] = routing.QuoteRegex(origin)
		}
	}
	return anyLine + "(?:" + strings.Join(expressions, "|") + `)\n`
}

// conditionNames returns the names of headers and query parameters that some condition is on, sorted.
func conditionNames(table routing.Table) (headers, params []string) {
	seen := map[string]bool{}
	note := func(names *[]string, prefix string, conditions []routing.Condition) {
		for _, condition := range conditions {
			if !seen[prefix+condition.Name] {
				seen[prefix+condition.Name] = true
				*names = append(*names, condition.Name)
			}
		}
	}
	for i := range table.Listeners {
		for entry := range table.Listeners[i].Entries() {
			note(&headers, "h:", headerConditions(entry))
			note(&params, "q:", entry.Query)
		}
	}
	slices.Sort(headers)
	slices.Sort(params)
	return headers, params
}

// label returns a name as it is in the lines: a word for haproxy.cfg and in log-formats.
func label(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
