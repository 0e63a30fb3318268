package runtime

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"gateway/internal/haproxy/filters"
)

// maxTable is the most bytes that are read of a table: an entry has up to 600 bytes.
const maxTable = 16 << 20

// Decisions are how many requests of a rule with guards passed them, and how many each guard stopped.
type Decisions struct {
	// Route and Rule are as in the access log.
	Route, Rule string
	Allowed     int64
	// Denied and Failed are by guard, if there are any: requests that it refused, and those that it could not decide
	// about.
	Denied, Failed map[string]int64
	// ShadowDenied and ShadowFailed are those that a guard in shadow let through instead.
	ShadowDenied, ShadowFailed map[string]int64
}

// Decisions returns the decisions about requests of rules with guards, since the worker was started.
func (w *Worker) Decisions(ctx context.Context) ([]Decisions, error) {
	var all []Decisions
	err := converse(ctx, w.socket, "show table "+filters.DecisionsTable+"\n", func(answer io.Reader) error {
		lines := bufio.NewScanner(io.LimitReader(answer, maxTable))
		for lines.Scan() {
			if decisions, ok := parseDecisions(lines.Text()); ok {
				all = append(all, decisions)
			}
		}
		return lines.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("failed to ask HAProxy's worker what filters decided: %w", err)
	}
	return all, nil
}

// parseDecisions reads an entry of the table, like
//
//	0x7f1a77253fb8: key=shop|1 use=0 exp=86399111 shard=0 gpc0=2 gpc1=0 gpc2=0
func parseDecisions(line string) (Decisions, bool) {
	fields := map[string]string{}
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	route, rule, ok := strings.Cut(fields["key"], "|")
	count := func(counter int) int64 { return number(fields[fmt.Sprint("gpc", counter)]) }
	guards := filters.Guards()
	from := func(counter int) map[string]int64 {
		counts := map[string]int64{}
		for i, guard := range guards {
			if n := count(counter + 2*i); n > 0 {
				counts[guard] = n
			}
		}
		return counts
	}
	decisions := Decisions{
		Route: route, Rule: rule, Allowed: count(0), Denied: from(1), Failed: from(2),
		ShadowDenied: from(1 + 2*len(guards)), ShadowFailed: from(2 + 2*len(guards)),
	}
	return decisions, ok
}
