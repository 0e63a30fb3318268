package dataplanetest_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
)

// smugglingRules are without a limit of bodies and with one, which leads some requests through HAProxy twice.
var smugglingRules = []string{"", ", maxRequestBytes: 1000"}

// TestSmuggling sends what two parsers may take for different requests. Each probe would smuggle a request for
// /smuggled.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	post := func(headers, body string) string {
		return "POST /a HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
	}
	tests := map[string]struct {
		request string
		// statuses are the statuses of the answers, in order; backend is what the backend receives.
		statuses, backend string
	}{
		"two lengths that differ":       {post("Content-Length: 0\r\nContent-Length: 38\r\n", smuggled), "400", ""},
		"two equal lengths":             {post("Content-Length: 1\r\nContent-Length: 1\r\n", "a"), "200", `POST /a "a"`},
		"a list of lengths that differ": {post("Content-Length: 0, 38\r\n", smuggled), "400", ""},
		"a length with a sign":          {post("Content-Length: +38\r\n", smuggled), "400", ""},
		"a negative length":             {post("Content-Length: -1\r\n", smuggled), "400", ""},
		"a hexadecimal length":          {post("Content-Length: 0x26\r\n", smuggled), "400", ""},
		"a length and chunks: chunks count, and the connection ends": {post("Content-Length: 38\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+smuggled), "200", `POST /a ""`},
		"chunks, then another coding":                                {post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), "400", ""},
		"an unknown coding":                                          {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"+smuggled), "400", ""},
		"chunks twice":                                               {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+smuggled), "400", ""},
		"chunked with a tab before it":                               {post("Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"), "200", `POST /a ""`},
		"chunked with a vertical tab before it":                      {post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"+smuggled), "400", ""},
		"a space before the colon":                                   {post("Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "400", ""},
		"a space before a header's name":                             {post(" Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "400", ""},
		"a folded header":                                            {post("X-A: b\r\n c\r\nContent-Length: 0\r\n", ""), "200", `POST /a ""`},
		"a folded coding":                                            {post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), "200", `POST /a ""`},
		"a bare LF at the end of a header":                           {post("X-A: b\nContent-Length: 0\r\n", ""), "200", `POST /a ""`},
		"a bare CR in a header":                                      {post("X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n", ""), "400", ""},
		"NUL in a header":                                            {post("X-A: b\x00c\r\nContent-Length: 0\r\n", ""), "400", ""},
		"NUL in the last of many headers":                            {post(strings.Repeat("X-A: b\r\n", 80)+"X-B: \x00\r\n", ""), "400", ""},
		"an empty header name":                                       {post(": b\r\nContent-Length: 0\r\n", ""), "400", ""},
		"a chunk size that is too large":                             {post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff1\r\na\r\n0\r\n\r\n"), "400", ""},
		"a chunk size with a sign":                                   {post("Transfer-Encoding: chunked\r\n", "+1\r\na\r\n0\r\n\r\n"), "400", ""},
		"a chunk that is longer than it says":                        {post("Transfer-Encoding: chunked\r\n", "1\r\nab\r\n0\r\n\r\n"), "400", ""},
		"a chunk extension":                                          {post("Transfer-Encoding: chunked\r\n", "1;a=b\r\na\r\n0\r\n\r\n"), "200", `POST /a "a"`},
		"a trailer that would be a length":                           {post("Transfer-Encoding: chunked\r\n", "0\r\nContent-Length: 38\r\n\r\n"+get("x", "/b")), "200 200", `POST /a ""; GET /b ""`},
		"HTTP/1.0 with chunks":                                       {"POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, "400", ""},
		"a request line with three spaces":                           {"GET /a HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n", "400", ""},
		"a version that does not exist":                              {"GET /a HTTP/9.9\r\nHost: x\r\n\r\n", "400", ""},
		"two requests in a row, as they should be":                   {get("x", "/a") + get("x", "/b"), "200 200", `GET /a ""; GET /b ""`},
		"GET with a body":                                            {"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na" + get("x", "/b"), "200 200", `GET /a "a"; GET /b ""`},
		"Host twice":                                                 {"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400", ""},
		"a path behind the host":                                     {"GET x/smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400", ""},
		"a path behind an asterisk":                                  {"GET */smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "400", ""},
		"Connection names Host":                                      {"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Host\r\n\r\n", "200", `GET /a ""`},
	}
	for name, test := range tests {
		for _, rule := range smugglingRules {
			t.Run(name+rule, func(t *testing.T) {
				t.Parallel()
				backend, listener := startRecorder(t)
				g := startBackends(t, rule, "", "", ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)})
				statuses := sendAll(t, dial(t, g.ports[80]), test.request, 1+strings.Count(test.statuses, " "))
				if received := backend.received(); statuses != test.statuses || received != test.backend {
					t.Errorf("got the answers %q, and the backend %q; want %q and %q", statuses, received, test.statuses, test.backend)
				}
			})
		}
	}
}

// sendAll sends bytes and returns the statuses of all answers until the connection ends. It is closed for sending after
// as many answers as are expected.
func sendAll(t testing.TB, conn net.Conn, request string, expected int) string {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("failed to send: %v", err)
	}
	var statuses []string
	reader := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return strings.Join(statuses, " ")
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if statuses = append(statuses, response.Status[:3]); len(statuses) == expected {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
}
