package config

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// Entries with further conditions than a host and a path are tested one by one, in the order of precedence, but only
// those of the request's own host and path. They are lists of regular expressions, in files of maps. What they are compared
// with are lines of text:
//
//	?FILE:LIST       which list, and which file it is in
//	METHOD
//	PATH
//	h:NAME           two lines for each header that some condition is on, and that the request has
//	VALUE
//	q:NAME           and for each query parameter
//	VALUE
//
// A list is named by what is in it. So a request that was told of one finds it or nothing, but never another.

// conditionFiles is how many files the lists are in: with more of them, fewer expressions of other lists are in the way.
const conditionFiles = 8

// matchLimit bounds the work of one comparison, to some milliseconds. An expression that takes more does not match.
const matchLimit = "(*LIMIT_MATCH=1000000)"

// conditionFile returns the name of a file of lists.
func conditionFile(i int) string { return "conditions-" + strconv.Itoa(i) + ".map" }

// conditionLists collects the lists.
type conditionLists struct {
	lists map[string][]MapEntry
}

// conditionItem is an expression for the lines after the first, with what it stands for.
type conditionItem struct {
	expression, value string
}

// add adds a list and returns its first line, "?FILE:LIST".
func (c *conditionLists) add(items []conditionItem) string {
	content := fnv.New64a()
	for _, item := range items {
		// Writing to a hash never fails.
		_, _ = fmt.Fprintf(content, "%s %s\n", item.expression, item.value)
	}
	sum := content.Sum64()
	name := fmt.Sprintf("?%d:%016x", sum%conditionFiles, sum)
	if c.lists[name] == nil {
		for _, item := range items {
			key := matchLimit + "^" + routing.QuoteRegex(name) + `\x0A` + item.expression + "$"
			c.lists[name] = append(c.lists[name], MapEntry{Key: key, Value: quote(item.value, inMap)})
		}
	}
	return name
}

// files returns the entries of every file.
func (c *conditionLists) files() map[string][]MapEntry {
	files := map[string][]MapEntry{}
	for i := range conditionFiles {
		files[conditionFile(i)] = nil
	}
	names := make([]string, 0, len(c.lists))
	for name := range c.lists {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		file := "conditions-" + name[1:2] + ".map"
		files[file] = append(files[file], c.lists[name]...)
	}
	return files
}

// Any line, and two of them.
const (
	anyLine  = `[^\x0A]*\x0A`
	anyPairs = `(?:[^\x0A]*\x0A[^\x0A]*\x0A)*?`
)

// conditionExpression returns the expression for the lines of a request that meets an entry of the request's host and path.
func conditionExpression(entry *routing.Entry) string {
	var b strings.Builder
	b.WriteString(line(entry.Method, false))
	path := ""
	if entry.PathType == routing.Regex {
		path = entry.Path
	}
	b.WriteString(line(path, true))
	writeConditions(&b, "h:", entry.Headers)
	writeConditions(&b, "q:", entry.Query)
	b.WriteString(anyPairs)
	return b.String()
}

func writeConditions(b *strings.Builder, prefix string, conditions []routing.Condition) {
	for _, condition := range conditions {
		b.WriteString(anyPairs + routing.QuoteRegex(prefix+label(condition.Name)) + `\x0A` + line(condition.Value, condition.Regex))
	}
}

// line returns the expression for a line; "" stands for any.
func line(text string, regex bool) string {
	if text == "" {
		return anyLine
	}
	if !regex {
		return routing.QuoteRegex(text) + `\x0A`
	}
	translated, err := routing.TranslateRegex(text)
	if err != nil {
		// Compile leaves such entries out.
		translated = "(?!)"
	}
	return "(?:" + translated + `)\x0A`
}

// originsPerItem keeps an expression within a line of a map.
const originsPerItem = 5

// originItems returns the list that finds an allowed origin, which is the one line after the first.
func originItems(origins []string) []conditionItem {
	var items []conditionItem
	for chunk := range slices.Chunk(origins, originsPerItem) {
		items = append(items, conditionItem{expression: originExpression(chunk), value: "1"})
	}
	return items
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
	return "(?:" + strings.Join(expressions, "|") + `)\x0A`
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
		for j := range table.Listeners[i].Entries {
			note(&headers, "h:", table.Listeners[i].Entries[j].Headers)
			note(&params, "q:", table.Listeners[i].Entries[j].Query)
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
