package dataplanetest_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
)

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7
	flagEndStream, flagEndHeaders                                   = 1, 4
)

// frame returns a frame of stream 1, or of the connection for settings.
func frame(kind, flags byte, payload string) string {
	header := make([]byte, 9)
	binary.BigEndian.PutUint32(header, uint32(len(payload))<<8)
	header[3], header[4] = kind, flags
	if kind != frameSettings {
		header[8] = 1
	}
	return string(header) + payload
}

// fields returns a header block in which nothing is indexed or compressed (RFC 7541, section 6.2.2), so that it can
// hold what no client would send.
func fields(lines ...[2]string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteByte(0)
		for _, text := range line {
			b.WriteByte(byte(len(text)))
			b.WriteString(text)
		}
	}
	return b.String()
}

// answered reports whether stream 1 was answered with headers of status 200. A stream or connection that is reset, and
// every other status, is a refusal.
func answered(t testing.TB, conn net.Conn) bool {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	header := make([]byte, 9)
	for {
		if _, err := io.ReadFull(conn, header); err != nil {
			return false
		}
		payload := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, header[:3]...)))
		if _, err := io.ReadFull(conn, payload); err != nil {
			return false
		}
		switch header[3] {
		case frameHeaders:
			const status200 = 0x88 // in the static table
			return len(payload) > 0 && payload[0] == status200
		case frameReset, frameGoAway:
			return false
		}
	}
}

const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// TestSmugglingOverHTTP2 sends what would become another request, or another header, when it is written as HTTP/1.1.
func TestSmugglingOverHTTP2(t *testing.T) { //nolint:funlen // a flat table
	t.Parallel()
	line := func(name, value string) [2]string { return [2]string{name, value} }
	request := func(more ...[2]string) [][2]string {
		return append([][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/a"}, {":authority", "x"}}, more...)
	}
	replace := func(name, value string) [][2]string {
		lines := request()
		for i := range lines {
			if lines[i][0] == name {
				lines[i][1] = value
			}
		}
		return lines
	}
	tests := map[string]struct {
		lines [][2]string
		body  string
		// backend is what the backend receives; "": nothing, and the request is refused.
		backend string
	}{
		"a request as it should be":               {request(line("content-length", "1")), "a", `POST /a "a"`},
		"a length that is too long":               {request(line("content-length", "50")), "a", ""},
		"a length that is too short":              {request(line("content-length", "0")), smuggled, ""},
		"two lengths that differ":                 {request(line("content-length", "0"), line("content-length", "38")), smuggled, ""},
		"chunks":                                  {request(line("transfer-encoding", "chunked")), "0\r\n\r\n" + smuggled, ""},
		"a line break in a header":                {request(line("x-a", "b\r\nTransfer-Encoding: chunked")), "0\r\n\r\n" + smuggled, ""},
		"NUL in a header":                         {request(line("x-a", "b\x00c")), "", ""},
		"a line break in a name":                  {request(line("x-a: b\r\nx", "y")), "", ""},
		"a colon in a name":                       {request(line("x-a:", "b")), "", ""},
		"a space in a name":                       {request(line("transfer-encoding ", "chunked")), "0\r\n\r\n" + smuggled, ""},
		"a name in upper case":                    {request(line("Transfer-Encoding", "chunked")), "0\r\n\r\n" + smuggled, ""},
		"Connection":                              {request(line("connection", "close, host")), "", ""},
		"TE that is not trailers":                 {request(line("te", "gzip")), "", ""},
		"a request in the method":                 {replace(":method", "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\nPOST"), "", ""},
		"a quote in the method":                   {replace(":method", `GE"T`), "", ""},
		"a request in the path":                   {replace(":path", "/a HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled"), "", ""},
		"a space in the path":                     {replace(":path", "/a b"), "", ""},
		"a path without a slash":                  {replace(":path", "a"), "", ""},
		"an empty path":                           {replace(":path", ""), "", ""},
		"a slash in the host":                     {replace(":authority", "x/a"), "", ""},
		"a host in the user part":                 {replace(":authority", "y@x"), "", ""},
		"the path twice":                          {request(line(":path", "/smuggled")), "", ""},
		"a pseudo header behind another":          {append([][2]string{{"x-a", "b"}}, request()...), "", ""},
		"a pseudo header that does not exist":     {request(line(":x", "y")), "", ""},
		"Host beside the authority, which counts": {request(line("host", "y")), "", `POST /a ""`},
		"no method":                               {request()[1:], "", ""},
	}
	for name, test := range tests {
		for _, rule := range smugglingRules {
			t.Run(name+rule, func(t *testing.T) {
				t.Parallel()
				backend, listener := startRecorder(t)
				g := startBackends(t, rule, "", "", ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)})
				conn := dial(t, g.ports[80])
				_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(frameSettings, 0, "")+
					frame(frameHeaders, flagEndHeaders, fields(test.lines...))+frame(frameData, flagEndStream, test.body))
				ok := answered(t, conn)
				if received := backend.received(); received != test.backend || ok != (test.backend != "") {
					t.Errorf("answered with 200: %v; the backend received %q, want %q", ok, received, test.backend)
				}
			})
		}
	}
}
