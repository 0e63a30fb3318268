package render

import "gateway/internal/haproxy/ir"

// measureLog hands a line about each request to the agent, which measures them: see package requestmetrics.
const measureLog = "log ring@measured len 1024 format raw profile measured local0 info"

// addRequestMetrics adds what the lines for the agent take. They wait in a ring, so that no request waits for the
// agent. What it does not fetch in time is lost: the number of a line, %lc, tells. A line about a connection without a
// request has the number alone.
func (r *Renderer) addRequestMetrics() {
	rule, trace := "-", "- -"
	if r.in.Table.Tracing != nil {
		trace = "%[var(txn.flags)] %[var(txn.trace),field(1,-)]"
	}
	switch r.in.Table.RequestMetrics {
	case "":
		return
	case "ByRule":
		rule = "%[var(txn.hit),field(3,|)]"
	}
	r.section(ir.ReloadSettings, "ring measured",
		"format raw", "maxlen 1024", "size 4194304", "timeout connect 1s", "timeout server 10s",
		"server agent unix@"+r.in.Paths.RequestsSocket()+" log-proto octet-count",
	)
	r.section(ir.ReloadSettings, "log-profile measured",
		`on any format "%f %lc"`,
		`on close format "%f %lc %ST %Ta %Tr %U %[res.bytes_out] `+trace+` %[var(txn.hit),field(2,|)] `+rule+`"`,
	)
}
