package filters

import (
	"fmt"

	"gateway/internal/haproxy/ir"
)

// team is the variable with the namespace of a request's rule, unless that is the Gateway's own: what it takes at a
// time is bounded, so that it leaves room for others. A route in the Gateway itself has a name without a namespace.
const team = "txn.team"

// hasTeam is the condition that the request has one.
const hasTeam = "{ var(" + team + ") -m found }"

// teamLines note the team of requests that meet a condition.
func teamLines(env Env, condition string) []string {
	from := "var(txn.hit),field(2,|),field(-2,/)"
	if env.isPreRouting {
		from = text("auth.team")
	}
	lines := []string{
		"http-request set-var(" + team + ") " + from + " if " + condition,
		"http-request unset-var(" + team + ") if " + condition + " !{ var(" + team + ") -m len gt 0 }",
	}
	if owner := env.Table.Shares.Owner; owner != "" {
		lines = append(lines, "http-request unset-var("+team+") if "+condition+" { var("+team+") -m str "+ir.Quote(owner, ir.InConfig)+" }")
	}
	return lines
}

// The numbers of the stick counters for what a WAF reads, of all, of a client and of a team, and for the counted bodies
// of a team. Without such rules there are none.
const (
	wafCounter  = 9
	bodyCounter = wafCounter + 3
)

// moreCounters has HAProxy keep them.
var moreCounters = fmt.Sprintf("tune.stick-counters %d", bodyCounter+1)

// teamTable is a table for what is counted by teams, by others or by all.
const teamTable = "stick-table type string len 128 size 4k expire 1s store conn_cur"

// byTeam is what tells the key of a team from others in a table.
const byTeam = ",concat(/namespace)"
