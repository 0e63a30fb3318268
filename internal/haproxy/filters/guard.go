package filters

import (
	"fmt"
	"slices"
	"strconv"

	"gateway/internal/haproxy/ir"
)

// A guard is a filter that may refuse a request. The parameter "guard" is the first one of a rule. While a guard
// decides, txn.guard is how users call it: the type of a filter, or a field of a rule. So the access log names it,
// however the request ends there.
//
// Decisions about the requests of rules with guards are counted by rule, in a table of DecisionsTable. What counts them
// is in haproxy.cfg if there are guards.

// DecisionsTable is the section with the table. The key of an entry is ROUTE|RULE: of a GRPCRoute, as of the longest,
// GRPCRoute/, a namespace of 63 characters and a name of 253 with a slash between them. Its first counter is of
// requests that passed all guards. Two follow for each of Guards: of those that it refused, and of those that it could
// not decide about. If there are guards in shadow, two more follow for each: of those that it let through instead.
const DecisionsTable = "decisions"

// decisionsCounter is the number of the table's stick counter, besides the counters of requests and limits.
const decisionsCounter = 6

// allowed counts a request that passed all guards.
var allowed = fmt.Sprintf("sc-inc-gpc(0,%d)", decisionsCounter)

// Guards returns all guards, in the order in which they first decide.
func Guards() []string { return guardsOf(func(*filter) bool { return true }) }

// guardsOf returns the guards among such filters.
func guardsOf(are func(*filter) bool) []string {
	var all []string
	for _, f := range order {
		if f.guard != "" && are(f) && !slices.Contains(all, f.guard) {
			all = append(all, f.guard)
		}
	}
	return all
}

// decisionsSection is the section with the table. It has room for as many rules. A rule without requests for a day
// leaves it.
func decisionsSection(env Env) ir.Section {
	counters := 1 + 2*len(Guards())
	if HasShadows(env) {
		counters = shadowCounter(len(Guards()))
	}
	return spare(ir.ReloadNames, "backend "+DecisionsTable+" from common",
		fmt.Sprintf("stick-table type string len 340 size 10k expire 1d store gpc(%d)", counters))
}

// arrive comes before all guards.
var arrive = filter{mayStay: true, rules: func(env Env) Rules {
	if len(env.guards) == 0 {
		return Rules{}
	}
	return Rules{Request: []string{
		"http-request set-var(txn.guard) " + param("guard"),
		"http-request track-sc" + strconv.Itoa(decisionsCounter) + " var(txn.hit),field(2,|,2) table " + DecisionsTable + " if { var(txn.guard) -m found }",
	}}
}}

// pass comes after all guards. A body that is counted on its way may still be too long.
var pass = filter{mayStay: true, rules: func(env Env) Rules {
	if len(env.guards) == 0 {
		return Rules{}
	}
	return Rules{Request: []string{
		"http-request set-var(txn.guard) str(" + bodyGuard + ") if " + isCounted,
		"http-request " + allowed + " unless " + isCounted,
		"http-request unset-var(txn.guard) unless " + isCounted,
	}}
}}

// refusedLines count the requests that did not pass one of the guards.
func refusedLines(guards []string) []string {
	if len(guards) == 0 {
		return nil
	}
	lines := []string{"http-after-response allow unless { var(txn.guard) -m found }"}
	for i, guard := range Guards() {
		if !slices.Contains(guards, guard) {
			continue
		}
		const line = "http-after-response sc-inc-gpc(%d,%d) if { var(txn.guard) -m str %s } %s{ status ge 500 }"
		lines = append(lines,
			fmt.Sprintf(line, 2*i+1, decisionsCounter, guard, "!"),
			fmt.Sprintf(line, 2*i+2, decisionsCounter, guard, ""),
		)
	}
	return lines
}
