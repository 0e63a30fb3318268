package config

import "strings"

// The rules of backend sections with a limit of requests for each server. A request takes one of a server's slots
// before HAProxy has more than its headers, so a client that sends its body slowly would keep others away. HAProxy
// knows no minimum rate. So the rest of a request has to arrive before it waits for a slot, or as much of it as fits a
// buffer.

// The names of these sections. The second is for servers that may speak HTTP/2.
const (
	limited      = routed + "-limited"
	limitedHTTP2 = limited + "-http2"
)

// Values of appProtocol.
const (
	h2c = "kubernetes.io/h2c"
	wss = "kubernetes.io/wss"
)

// defaultsOf returns the name of the defaults that a section for requests gets its rules from.
func defaultsOf(source sectionSource) string {
	switch tls := source.policy.TLS != nil; {
	case source.policy.MaxConnections == 0:
		return routed
	case tls && source.appProtocol != wss, !tls && source.appProtocol == h2c:
		return limitedHTTP2
	}
	return limited
}

func isLimited(defaults string) bool { return strings.HasPrefix(defaults, limited) }

// bothWays marks calls of gRPC and Connect, whose body may end after the answer has begun. They need HTTP/2 on both
// sides. Nothing tells those whose client waits for an answer before it goes on from others. HAProxy does not wait for
// what follows the request for a WebSocket.
const bothWays = `    http-request set-var(txn.stream) bool(true) if { req.ver 2.0 } { req.fhdr(content-type) -i -m beg application/grpc application/connect } !{ req.fhdr_cnt(content-length) gt 0 }
`

// smallBodies refuses what the buffer was too small for where bodies have to be small. It takes 15 KiB of a request,
// its headers among them, which are as long as the client likes.
var smallBodies = fields(`    http-request set-var(txn.length) req.body_size if <bounded>
    http-request return status 413 content-type text/plain hdr cache-control no-store string "the headers and the body of the request are too long\n" if <bounded> { var(txn.max) -m int le 8192 } !{ req.body_len,sub(txn.length) ge 0 }
`)

const waitForBody = "    http-request wait-for-body time 10s"

// writeLimited writes defaults with the rules of all others, and a wait wherever a request leaves them: while it waits
// the map may change, and nothing may be looked up in it after that.
func writeLimited(b *strings.Builder, name, rules string) {
	b.WriteString("\n" + defaultsPrefix + name + routedHead)
	unless := ""
	if name == limitedHTTP2 {
		b.WriteString(bothWays)
		unless = " !{ var(txn.stream) -m found }"
	}
	for line := range strings.Lines(rules) {
		if condition, ok := strings.CutPrefix(line, "    http-request allow if"); ok {
			b.WriteString(waitForBody + " if" + unless + condition)
		}
		b.WriteString(line)
	}
	if unless != "" {
		unless = " if" + unless
	}
	b.WriteString(waitForBody + unless + "\n" + smallBodies)
}
