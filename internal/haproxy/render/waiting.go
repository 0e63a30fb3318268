package render

import (
	"fmt"
	"time"

	"gateway/internal/haproxy/filters"
)

// waitingRules let requests wait in a backend that has no server to take them, up to limit of them, and for up to the
// timeout. HAProxy queues no request of such a backend, but each of these rules looks anew. They are the last of their
// section: the first lets all others pass.
//
// A pause is an eighth of what a request has waited, so that it soon notices a server, and few rules make a long wait.
// No pause begins after the rule's own timeout.
func waitingRules(timeout time.Duration, limit int32) []string {
	rules := []string{
		"http-request allow if { nbsrv gt 0 }",
		fmt.Sprintf("http-request deny deny_status 503 if { be_conn gt %d }", limit),
	}
	for waited := time.Duration(0); waited < timeout; {
		pause := min(max(waited/8, 20*time.Millisecond), time.Second, timeout-waited).Round(time.Millisecond)
		rule := fmt.Sprintf("http-request pause %dms if { nbsrv eq 0 }", pause.Milliseconds())
		if waited > 0 {
			rule += " !" + filters.IsOver(waited)
		}
		rules, waited = append(rules, rule), waited+pause
	}
	return rules
}
