package render

import (
	"fmt"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// traceLog hands a line about each sampled request to the agent, which makes spans of it: see package tracing. Requests
// have the level info, which this log does not take. Those that are sampled have the level notice.
const traceLog = "log ring@traced len 16384 format raw profile traced local0 notice"

// tracedLog is the line of a request. Its number is counted while it is written: a long request ends after many that
// began later. The version is in a variable, because HAProxy forgets it for a request with a long URL.
var tracedLog = `{"number":%[sc_inc_gpc0(` + itoa(traceCounter) + `)],"start":%[request_date(us)],"end":%[date(0,us)],` + traceIDs + `,` +
	`"parentId":"%[var(txn.parent),field(3,-)]","client":"%[var(sess.client)]","scheme":"%[var(sess.scheme)]","version":"%[var(txn.version)]",` +
	`"serverAddress":"%si","serverPort":"%sp",` + logRequest + logSent + logTimes + logRoute + `,"filter":"%[var(txn.guard)]",` + logEnd + `}`

// traceCounter is the number of the stick counter that numbers lines.
const traceCounter = 8

// stickCounters returns how many counters a request needs.
func stickCounters(table routing.Table) int {
	if table.Tracing == nil {
		return traceCounter
	}
	return traceCounter + 1
}

// addTraces adds what the lines for the agent take. They wait in a ring, so that no request waits for the agent. What
// it does not fetch in time is lost: the number of a line tells. The ring has room for all that come while the agent
// starts anew, at some 10,000 sampled requests a second.
func (r *Renderer) addTraces() {
	if r.in.Table.Tracing == nil {
		return
	}
	r.section(ir.ReloadSettings, "ring traced",
		"format raw", "maxlen 16384", "size 16777216", "timeout connect 1s", "timeout server 10s",
		"server agent unix@"+r.in.Paths.TracesSocket()+" log-proto octet-count",
	)
	r.section(ir.ReloadSettings, "log-profile traced", "on close format '"+tracedLog+"'")
	r.section(ir.ReloadSettings, "backend traced from common", "stick-table type integer size 1 store gpc0")
}

// parentContext is a traceparent that can be continued (W3C Trace Context, sections 3.2.2 and 4.3): versions to come
// begin as version 00 does, and may go on.
const (
	parentContext = `^(?:00` + contextIDs + `$|(?!00|ff)[0-9a-f]{2}` + contextIDs + `(?:-|$))`
	contextIDs    = `-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}`
)

// traceLines give each request its place in a trace. txn.trace is TRACE-SPAN. Of a new trace, both are from txn.id,
// which is a new UUID before these lines: more random numbers would take more time than all else here. A trace that is
// not continued has no state (section 3.3).
//
// Others than trusted proxies do not decide about what is sampled: a parent that is sampled costs a span here, and most
// likely one in each service behind.
func traceLines(tracing *model.Tracing, isTrusting bool) []string {
	if tracing == nil {
		return nil
	}
	const hasParent, isSampled = "{ var(txn.parent) -m found }", " if { var(txn.flags) -m found }"
	lines := []string{
		`http-request set-var(txn.trace) 'var(txn.id),regsub("^(.{8})-(.{4})-(.{4})-(.{4})-(.{12})","\1\2\3\4\5-\4\5")'`,
		"http-request set-var(txn.parent) req.fhdr(traceparent)",
		"http-request unset-var(txn.parent) if " + hasParent + " { req.fhdr_cnt(traceparent) gt 1 } or " + hasParent + " !{ var(txn.parent) -m reg '" + parentContext + "' }",
		"http-request set-var-fmt(txn.trace) %[var(txn.parent),field(2,-)]-%[var(txn.trace),field(2,-)] if " + hasParent,
		"http-request del-header tracestate unless " + hasParent,
		fmt.Sprintf("http-request set-var(txn.flags) str(01) if { rand(1000000) lt %d }", tracing.PerMillion),
	}
	if isTrusting {
		const isTold = " if { var(sess.trusted) -m found } " + hasParent
		lines = append(lines,
			"http-request unset-var(txn.flags)"+isTold,
			"http-request set-var(txn.flags) str(01)"+isTold+" { var(txn.parent),bytes(54,1) -m str 1 3 5 7 9 b d f }",
		)
	}
	return append(lines,
		"http-request set-header traceparent 00-%[var(txn.trace)]-00 unless { var(txn.flags) -m found }",
		"http-request set-header traceparent 00-%[var(txn.trace)]-01"+isSampled,
		"http-request set-log-level notice"+isSampled,
		"http-request set-var(txn.version) req.ver"+isSampled,
		fmt.Sprintf("http-request track-sc%d int(0) table traced", traceCounter)+isSampled,
	)
}

// traceFields are what traces add to a line of the access log.
func traceFields(tracing *model.Tracing) string {
	if tracing == nil {
		return ""
	}
	return "," + traceIDs + `,"traceFlags":"%[var(txn.flags)]"`
}

// traceIDs are the IDs of a request's trace and span.
const traceIDs = `"traceId":"%[var(txn.trace),field(1,-)]","spanId":"%[var(txn.trace),field(2,-)]"`
