package feature

import (
	"strconv"

	"gateway/internal/haproxy/ir"
)

// body bounds the size of request bodies. The parameter "max-body" is in bytes.
//
// With HTTP/2, a body of unknown length only shows when it comes, and in HAProxy 3.4 only in what has come: its
// req.body_size is 0 then.
var body = feature{
	guard: "maxRequestBytes", param: "max-body",
	encode: func(in Input, p *params) {
		if in.Rule.MaxBody >= 0 {
			p.set("max-body", strconv.FormatInt(in.Rule.MaxBody, 10))
		}
	},
	rules: func(Env) Rules {
		unknown := has("max-body") + " !{ req.fhdr_cnt(content-length) gt 0 }"
		lengthRequired := "http-request return " + ir.TextAnswer("411", "the request must say how long its body is")
		return Rules{Request: []string{
			lengthRequired + " if " + unknown + " { req.fhdr_cnt(transfer-encoding) gt 0 }",
			"http-request wait-for-body time 10s at-least 1 if " + unknown,
			lengthRequired + " if " + unknown + " { req.body_len gt 0 }",
			"http-request set-var(txn.max) " + param("max-body") + ",add(0) if " + has("max-body"),
			"http-request return " + ir.TextAnswer("413", "the body of the request is too long") + " if " + has("max-body") + " { req.body_size,sub(txn.max) gt 0 }",
		}}
	},
}
