package filters

import (
	_ "embed" // for bodyProgram
	"fmt"
	"slices"
	"strconv"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// bodyProgram counts bodies of unknown length. It contains no user input.
//
//go:embed body.lua
var bodyProgram []byte

// IsStream is the condition that messages of a request may come after the response has begun. Such calls need HTTP/2 or
// newer.
const IsStream = "{ req.ver 2.0 3.0 } { req.fhdr(content-type) -i -m beg application/grpc application/connect }"

// bodyGuard is how users call the limit of bodies, and mostBodies how many are counted in transit at a time.
const (
	bodyGuard  = "maxRequestBytes"
	mostBodies = 1024
)

// isCounted is the condition that the body of a request is counted in transit.
const isCounted = "{ var(txn.count) -m found }"

// bodyBackend is the backend for requests whose bodies are counted.
const bodyBackend = "bodies"

// body limits the size of request bodies. The parameter "max-body" is in bytes.
//
// A program counts a body of unknown length in transit, unless it is there as a whole. HAProxy would run it for each
// request of a section, so only the section for such requests has it: see package render. So this guard decides last
// about them. A body that goes to a deciding Service is not counted: auth waits for it.
//
// The fetch for the end of a message, which shows that a body is whole, is one of HAProxy's for developers, and may
// change. Without it, HAProxy does not start.
//
// With HTTP/2, HAProxy knows of a body of unknown length only when it comes, and HAProxy 3.4 only of the part that has
// come: req.body_size is 0 before. The guard does not wait for a body whose client may wait for the answer. Data after
// an upgrade is no body.
//
// In shadow, the guard does not wait: a slow client would get 408. So a request over HTTP/2 without a length is
// counted unless its method is GET or HEAD. If too many are counted at a time, or the program did not get it, a
// request goes on without a decision. Unless both guards refuse, a body that auth waits for is counted, too.
var body = filter{
	guard: bodyGuard, param: "max-body", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return rule.MaxBody != nil },
	encode: func(in Input, p *params) {
		p.set("max-body", strconv.FormatInt(*in.Rule.MaxBody, 10))
	},
	rules: func(env Env) Rules {
		isWaitedFor, waits := has("auth.body"), []string(nil)
		if hasShadow(env, bodyGuard) || hasShadow(env, "ExternalAuth") {
			waits = []string{"http-request set-var(txn.waits) bool(true) if " + isWaitedFor + " !" + has("auth"+shadowSuffix) + " !" + has("max-body"+shadowSuffix)}
			isWaitedFor = "{ var(txn.waits) -m found }"
		}
		unknown := has("max-body") + " !{ req.fhdr_cnt(content-length) gt 0 } !" + has("redirect") + " !" + has("response") + " !" + isWaitedFor
		count, wait := "http-request set-var(txn.count) bool(true) if "+unknown, "http-request wait-for-body time 10s at-least 1 if "+unknown+" !"+isCounted
		tooLong := func(condition string) []string {
			return env.refuse(413, "the body of the request is too long", "", condition)
		}
		var ahead, room []string
		if env.isShadow {
			ahead, wait = []string{count + " " + inShadow + " { req.ver 2.0 3.0 } !{ method GET HEAD }"}, wait+" !"+inShadow
			room = []string{
				would("int(503)", fmt.Sprintf("%s { be_conn(%s) ge %d }", isCounted, bodyBackend, mostBodies)),
				"http-request unset-var(txn.count) if " + isRefused,
				"http-request set-var(txn.lenient) bool(true) if " + isCounted + " " + inShadow,
			}
		}
		return Rules{Request: slices.Concat(
			[]string{"http-request set-var(txn.max) " + param("max-body") + ",add(0) if " + has("max-body")},
			waits,
			[]string{count + " { req.fhdr_cnt(transfer-encoding) gt 0 }", count + " " + IsStream},
			ahead,
			[]string{wait, count + " { req.body_len gt 0 }"},
			teamLines(env, isCounted),
			tooLong(has("max-body")+" { req.body_size,sub(txn.max) gt 0 }"),
			tooLong(isCounted+" { req.body_len,sub(txn.max) gt 0 }"),
			env.refuse(411, "a request for an upgrade must say how long its body is", "", isCounted+" { req.fhdr_cnt(upgrade) gt 0 }"),
			[]string{"http-request unset-var(txn.count) if " + isCounted + " { internal.htx.has_eom }"},
			room,
			[]string{`http-request set-var-fmt(txn.left) "max=%[var(txn.max)]" if ` + isCounted},
		)}
	},
	describe: func(rule *routing.Rule) []string {
		return []string{fmt.Sprintf("maxRequestBytes: bodies of up to %d bytes, else 413", *rule.MaxBody)}
	},
}

// init breaks the circle of order, body, and the guards in order.
func init() {
	body.add = func(env Env, config *ir.Config) {
		addProgram(env, config, "bodies of requests", ir.BodyFile, bodyProgram, "", spare(ir.ReloadSettings, "global # counted bodies", moreCounters), bodySection(env))
	}
}

// bodySection counts the bodies of requests of unknown length, on their way through the passage.
//
// Each such request takes some 10 KB of the memory of programs.
func bodySection(env Env) ir.Section {
	refuse := "http-request deny deny_status 503 unless { var(txn.counted) -m found }"
	if hasShadow(env, bodyGuard) {
		refuse += " or " + isLenient
	}
	return spare(ir.ReloadSettings, "backend "+bodyBackend+" from common", slices.Concat(
		[]string{
			"filter lua.body",
			"http-error status 400" + env.Content(413, "the body of the request is too long"),
			teamTable,
			fmt.Sprintf("http-request track-sc%d var(%s) if %s", bodyCounter, team, hasTeam),
			fmt.Sprintf("http-request unset-var(txn.counted) if { be_conn gt %d } or { sc_conn_cur(%d) gt %d }", mostBodies, bodyCounter, env.Table.Shares.Bodies),
			refuse,
		},
		enterLines(env, "counted"),
		countLines(env),
	)...)
}

// isLenient is the condition that a body is counted in shadow.
const isLenient = "{ var(txn.lenient) -m found }"

// countLines are lines of the section that counts bodies: the result shows when its requests are answered.
func countLines(env Env) []string {
	const (
		long = " { var(txn.long) -m found }"
		set  = "http-after-response set-var(txn.would) "
	)
	pass := func(condition string) []string {
		return []string{"http-after-response " + allowed + condition, "http-after-response unset-var(txn.guard)" + condition}
	}
	refuse, lines := "http-after-response set-status 413 if"+long, []string(nil)
	if hasShadow(env, bodyGuard) {
		refuse += " !" + isLenient
		let := " if " + isLenient + " " + isRefused
		lines = append(lines, set+"int(413) if "+isLenient+long, set+"int(503) if "+isLenient+" !{ var(txn.counted) -m found }")
		lines = slices.Concat(lines, shadowLines("http-after-response", bodyGuard, let), pass(let))
	}
	return slices.Concat([]string{refuse}, lines, pass(" if { var(txn.counted) -m found } !"+long[1:]))
}
