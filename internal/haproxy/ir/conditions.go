package ir

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/regex"
	"gateway/internal/tree"
)

// The expressions of one number in many lists with the same value are alternatives of one entry: a request that was
// told of none of these lists is done with the entry after the beginning of their names. HAProxy compares a request
// with one entry of the file after the other. The groups of each alternative are numbered from 1.

// maxGroup bounds the sizes of the alternatives of lists together: PCRE takes 64 KiB, and a line of a map is 12 KiB at
// most.
const maxGroup = 48 << 10

// conditionList is a list of expressions.
type conditionList struct {
	name        string
	expressions []string
	// size is the size of the longest alternative, for maxGroup.
	size int
}

// ConditionEntries returns the entries of ConditionsFile. A key is a regular expression for the name of a list and the
// text that follows. The value is the list's own value, or the number of the expression in it. The names begin with a
// "?" and a ContentName.
func ConditionEntries(lists tree.Map[*List]) []MapEntry {
	byValue := map[string][]conditionList{}
	for name, found := range lists.All() {
		list := conditionList{name: name, expressions: found.Expressions}
		for _, expression := range list.expressions {
			list.size = max(list.size, alternativeSize(name+expression))
		}
		byValue[found.Value] = append(byValue[found.Value], list)
	}
	var entries []MapEntry
	for _, value := range sortedKeys(byValue) {
		entries = append(entries, groups(byValue[value], value)...)
	}
	return entries
}

// alternativeSize returns what PCRE needs for an alternative at most: four bytes for each, and 33 for a class. Repeated
// groups are written out, so there is no telling.
func alternativeSize(expression string) int {
	if strings.Contains(expression, "){") {
		return maxGroup
	}
	return 4*len(expression) + 33*(strings.Count(expression, "[")-strings.Count(expression, `[^\n]`))
}

// groups returns the entries of lists with a value, sorted by name, in groups that are as large as they may be.
func groups(lists []conditionList, value string) []MapEntry {
	var entries []MapEntry
	for len(lists) > 0 {
		n, size := 1, lists[0].size
		for n < len(lists) && size+lists[n].size <= maxGroup {
			size += lists[n].size
			n++
		}
		entries = append(entries, group(lists[:n], value)...)
		lists = lists[n:]
	}
	return entries
}

// group returns an entry for the first expressions of all lists, one for the second, and so on.
func group(lists []conditionList, value string) []MapEntry {
	var entries []MapEntry
	for i := 0; ; i++ {
		lists = slices.DeleteFunc(slices.Clone(lists), func(l conditionList) bool { return len(l.expressions) <= i })
		if len(lists) == 0 {
			return entries
		}
		entries = append(entries, MapEntry{Key: "^" + alternatives(lists, i, 0), Value: cmp.Or(value, strconv.Itoa(i))})
	}
}

// alternatives returns the expressions of a number in lists, each after the name of its list. All names have their
// first bytes in common, which are left out. Names that go on with the same byte are one alternative.
func alternatives(lists []conditionList, number, bytes int) string {
	if len(lists) == 1 {
		return regex.Quote(lists[0].name[bytes:]) + lists[0].expressions[number]
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
	return regex.Quote(prefix[bytes:]) + "(?|" + strings.Join(branches, "|") + ")"
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
