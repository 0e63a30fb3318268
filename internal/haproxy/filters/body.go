package filters

import (
	_ "embed" // for BodyProgram
	"strconv"

	"gateway/internal/routing"
)

// BodyProgram is what counts bodies of unknown length. Nothing of users is in it.
//
//go:embed body.lua
var BodyProgram []byte

// The headers by which a request whose body is counted says where it goes on, and what its parameters are there.
const (
	BodyBackendHeader = "gateway-body-backend"
	BodyFiltersHeader = "gateway-body-filters"
)

// IsStream is the condition that the messages of a request may come after the answer has begun. Such calls need HTTP/2.
const IsStream = "{ req.ver 2.0 } { req.fhdr(content-type) -i -m beg application/grpc application/connect }"

// isCounted is the condition that the body of a request is counted on its way.
const isCounted = "{ var(txn.count) -m found }"

// BodyBackend is the backend for requests whose bodies are counted. It is added to what is found for a request.
const BodyBackend = "bodies"

// body bounds the size of request bodies. The parameter "max-body" is in bytes.
//
// A body of unknown length is counted on its way, by a program. HAProxy would run it for each request of a section, so
// only the section that such requests are sent to has it: see package render. So this guard decides last about them. A
// body that a Service gets to decide about is not counted: auth waits for it.
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

// CountedLines are of the section that counts bodies: what becomes of its requests shows when they are answered.
func CountedLines() []string {
	const passed = " if { var(txn.counted) -m found } !{ var(txn.long) -m found }"
	return []string{
		"http-after-response set-status 413 if { var(txn.long) -m found }",
		"http-after-response " + allowed + passed,
		"http-after-response unset-var(txn.guard)" + passed,
	}
}

// HasBodies says whether any rule bounds the size of bodies.
func HasBodies(table routing.Table) bool {
	found := false
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) { found = found || rule.MaxBody != nil })
	return found
}
