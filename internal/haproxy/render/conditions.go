package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gateway/internal/regex"
	"gateway/internal/routing"
)

// Entries with further conditions than a host and a path are tried one by one, in the order of precedence, but only
// entries of the request's own host and path. They are lists of regular expressions, which are compared with lines of
// text, the "facts" of a request:
//
//	?LIST|HITS   the name of the list; HITS is not looked at
//	METHOD
//	PATH
//	(two empty lines)
//	h:NAME       for each header that some condition is on, and that the request has
//	VALUE
//	(two empty lines)
//	q:NAME       and for each query parameter
//	VALUE
//
// Each line is compared as a whole, and only once. So a list takes the sum of what its expressions take, which
// internal/routing bounds. If a value is longer than that allows for, a first expression of the list matches, whose
// hit is an error.
//
// A NAME is looked for after an empty line: no VALUE is there, because a VALUE has no line breaks and follows a NAME.
//
// A list is named after its content. The result of a lookup is the number of an expression in its list.

// asksQuery ends the name of a list with conditions on the query.
const asksQuery = "q"

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
		b.WriteString(valueOf(onHeader + label(condition.Name)))
		if condition.Name == cookieHeader && entry.Session != "" {
			b.WriteString(`(?=(?:` + anyByte + `*[;,])?[\x09\x20]*` + regex.Quote(entry.Session+"=") + `)`)
		}
		b.WriteString(line(condition.Value, condition.Regex))
	}
	for _, condition := range entry.Query {
		b.WriteString(valueOf(onQuery+label(condition.Name)) + line(condition.Value, condition.Regex))
	}
	return b.String()
}

// valueOf returns the expression for all lines before a value, up to the line with its name.
func valueOf(name string) string { return `(?>` + anyLines + regex.Quote(name) + `\n)` }

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
func line(text string, isRegex bool) string {
	if text == "" {
		return anyLine
	}
	if !isRegex {
		return regex.Quote(text) + `\n`
	}
	translated, _, err := regex.Translate(text)
	if err != nil {
		// Compile leaves such entries out.
		translated = "(?!)"
	}
	return "(?>" + translated + `\n)`
}

// longExpressions returns expressions for values that are too long for the regular expressions of a list.
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
				add(valueOf(onHeader+label(header.Name)) + longer)
			}
		}
		for _, param := range entry.Query {
			if param.Regex {
				add(valueOf(onQuery+label(param.Name)) + longer)
			}
		}
	}
	return all
}

// The beginnings of the names of conditions, in facts and causes.
const (
	onHeader = "h:"
	onQuery  = "q:"
)

// conditionNames returns the names of headers and query parameters that some condition is on, sorted.
func (r *Renderer) conditionNames() (headers, params []string) {
	for name := range r.causes.conditions.Keys() {
		if header, ok := strings.CutPrefix(name, onHeader); ok {
			headers = append(headers, header)
		} else {
			params = append(params, name[len(onQuery):])
		}
	}
	return headers, params
}

// label returns a name in its form for the lines: a word for haproxy.cfg and in log-formats.
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
