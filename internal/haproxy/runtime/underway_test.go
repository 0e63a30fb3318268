package runtime

import (
	"strings"
	"testing"
)

// TestStreamsThatAreNotUnderstood: an answer that lists no streams is an error, and not an absence of requests.
func TestStreamsThatAreNotUnderstood(t *testing.T) {
	const start = "\n0x7f14ce8a2000: [29/Nov/2026:17:10:07.473386] id=0 proto=tcpv4 source=192.0.2.1:59712\n  frontend=80 (id=2 mode=http)\n"
	for answer, want := range map[string]int{
		"": 0, "\n\n": 0, "Unsupported option 'older', try 'help' for more info.\n": -1,
		start: 0, // no request yet
		start + "  txn=0x7 flags=0x3000 meth=1 status=-1 req.st=MSG_DONE rsp.st=MSG_RPBEFORE req.f=0x4c rsp.f=0x00 uri=\"GET /a?b HTTP/1.1\"\n":              1,
		strings.Replace(start, "=80", "=auth", 1) + "  txn=0x7 flags=0x3000 meth=1 req.st=MSG_DONE rsp.st=MSG_RPBEFORE req.f=0x4c uri=\"GET /a HTTP/1.1\"\n": 0,
		start + "  txn=0x7 flags=0x3000 meth=0 status=400 req.st=MSG_ERROR rsp.st=MSG_RPBEFORE req.f=0x4c rsp.f=0x00 uri=\"<BADREQ> x y\"\n":                 0,
	} {
		requests, err := parseStreams(strings.NewReader(answer))
		if (err != nil) != (want < 0) || err == nil && len(requests) != want {
			t.Errorf("%q is read as %+v, %v", answer, requests, err)
		}
		for _, r := range requests {
			if r.Client != "192.0.2.1" || r.Path != "/a" || r.Port != 80 {
				t.Errorf("%q is read as %+v", answer, r)
			}
		}
	}
}
