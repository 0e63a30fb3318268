package filters

import (
	_ "embed" // for BodyProgram
	"strconv"

	"gateway/internal/routing"
)

// BodyProgram counts bodies of unknown length. It contains no user input.
//
//go:embed body.lua
var BodyProgram []byte

// The headers that tell, for a request whose body is counted, its backend and the parameters there.
const (
	BodyBackendHeader = "gateway-body-backend"
	BodyFiltersHeader = "gateway-body-filters"
)

// IsStream is the condition that messages of a request may come after the response has begun. Such calls need HTTP/2.
const IsStream = "{ req.ver 2.0 } { req.fhdr(content-type) -i -m beg application/grpc application/connect }"

// isCounted is the condition that the body of a request is counted in transit.
const isCounted = "{ var(txn.count) -m found }"

// BodyBackend is the backend for requests whose bodies are counted. It is added to the backend that was found for a
// request.
const BodyBackend = "bodies"

// body limits the size of request bodies. The parameter "max-body" is in bytes.
//
// A program counts a body of unknown length in transit. HAProxy would run it for each request of a section, so only the
// section for such requests has it: see package render. So this guard decides last about them. A body that goes to a
// deciding Service is not counted: auth waits for it.
//
// With HTTP/2, a body of unknown length only shows when it comes, and in HAProxy 3.4 only in what has come: its
// req.body_size is 0 then. What may begin with an answer is not waited for. What follows an upgrade is no body.
var body = filter{
	guard: "maxRequestBytes", param: "max-body", mayStay: true,
	encode: func(in Input, p *params) {
		if in.Rule.MaxBody != nil {
			p.set("max-body", strconv.FormatInt(*in.Rule.MaxBody, 10))
		}
	},
	rules: func(env Env) Rules {
		if !HasBodies(env.Table) {
			return Rules{}
		}
		unknown := has("max-body") + " !{ req.fhdr_cnt(content-length) gt 0 } !" + has("redirect") + " !" + has("response") + " !" + has("auth.body")
		left := func(parameter string) string {
			return `http-request set-var-fmt(txn.left) "%[var(txn.left)]&` + parameter + `" if ` + isCounted + " "
		}
		count := "http-request set-var(txn.count) bool(true) if " + unknown
		return Rules{Request: []string{
			"http-request set-var(txn.max) " + param("max-body") + ",add(0) if " + has("max-body"),
			"http-request return " + env.Answer(413, "the body of the request is too long") + " if " + has("max-body") + " { req.body_size,sub(txn.max) gt 0 }",
			count + " { req.fhdr_cnt(transfer-encoding) gt 0 }",
			count + " " + IsStream,
			"http-request wait-for-body time 10s at-least 1 if " + unknown + " !" + isCounted,
			count + " { req.body_len gt 0 }",
			"http-request return " + env.Answer(411, "a request for an upgrade must say how long its body is") + " if " + isCounted + " { req.fhdr_cnt(upgrade) gt 0 }",
			`http-request set-var-fmt(txn.left) "max=%[var(txn.max)]" if ` + isCounted,
			left(`timeout=%[`+param("timeout")+`]`) + has("timeout"),
			left("once=1") + has("once"),
			left("stream=1") + IsStream,
			`http-request set-var-fmt(txn.hit) "%[var(txn.hit)]|` + BodyBackend + `" if ` + isCounted,
		}}
	},
}

// CountedLines are lines of the section that counts bodies: the result shows when its requests are answered.
func CountedLines() []string {
	const passed = " if { var(txn.counted) -m found } !{ var(txn.long) -m found }"
	return []string{
		"http-after-response set-status 413 if { var(txn.long) -m found }",
		"http-after-response " + allowed + passed,
		"http-after-response unset-var(txn.guard)" + passed,
	}
}

// HasBodies reports whether any rule limits the size of bodies.
func HasBodies(table routing.Table) bool {
	found := false
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) { found = found || rule.MaxBody != nil })
	return found
}
