package render

import "gateway/internal/haproxy/filters"

// limitedRules are the rules of backends with a limit of requests for each server. A request takes one of a server's
// slots when HAProxy has its headers, so a client with a slow body would keep others away. HAProxy knows no minimum
// rate. So a request waits for a slot only when its body, or 15 KiB of it, has arrived.
//
// With servers that may speak HTTP/2, calls of gRPC and Connect do not wait: their body may end after the answer has
// begun. They need HTTP/2 on both sides. Nothing tells those whose client waits for an answer before it goes on from
// others. HAProxy does not wait for what follows the request for a WebSocket.
func limitedRules(isHTTP2 bool) []string {
	const wait = "http-request wait-for-body time 10s at-least 15360"
	if !isHTTP2 {
		return []string{wait}
	}
	return []string{
		"http-request set-var(txn.stream) bool(true) if " + filters.IsStream + " !{ req.fhdr_cnt(content-length) gt 0 }",
		wait + " unless { var(txn.stream) -m found }",
	}
}
