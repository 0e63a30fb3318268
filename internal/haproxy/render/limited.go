package render

import "gateway/internal/haproxy/feature"

// limitedRules are the rules of backends with a limit of requests for each server. A request takes one of a server's
// slots before HAProxy has more than its headers, so a client that sends its body slowly would keep others away.
// HAProxy knows no minimum rate. So the rest of a request has to arrive before it waits for a slot, or as much of it as
// fits a buffer.
//
// With servers that may speak HTTP/2, calls of gRPC and Connect do not wait: their body may end after the answer has
// begun. They need HTTP/2 on both sides. Nothing tells those whose client waits for an answer before it goes on from
// others. HAProxy does not wait for what follows the request for a WebSocket.
//
// The last rules refuse what the buffer was too small for where bodies have to be small. It takes 15 KiB of a request,
// its headers among them, which are as long as the client likes.
func limitedRules(in Input, isHTTP2 bool) []string {
	wait := []string{"http-request wait-for-body time 10s"}
	if isHTTP2 {
		wait = []string{
			"http-request set-var(txn.stream) bool(true) if " + feature.IsStream + " !{ req.fhdr_cnt(content-length) gt 0 }",
			"http-request wait-for-body time 10s unless { var(txn.stream) -m found }",
		}
	}
	return append(wait,
		"http-request set-var(txn.length) req.body_size if { var(txn.max) -m found }",
		returnText(in, 413, "the headers and the body of the request are too long")+" if { var(txn.max) -m int le 8192 } !{ req.body_len,sub(txn.length) ge 0 }",
	)
}
