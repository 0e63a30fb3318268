package dataplanetest_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/must"
)

// TestSilentConnections: a connection that a client opens ahead, and on which it sends nothing, is closed without an
// answer. The client would take that for the answer to its first request. A request that has begun gets 408, and is
// logged.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	g, ca := startTLS(t)
	files := render.Render(g.in).AllFiles()
	files[ir.ConfigFile] = []byte(strings.Replace(string(files[ir.ConfigFile]), "timeout http-request 10s", "timeout http-request 1s", 1))
	g.WriteFiles(files)
	g.reload(t)
	plain := func() net.Conn { return dial(t, g.ports[80]) }
	overTLS := func() net.Conn {
		conn := tls.Client(dial(t, g.ports[443]), &tls.Config{RootCAs: ca.Pool(), ServerName: "shop.example.com"})
		must.Do(t, conn.Handshake())
		return conn
	}
	// What a client sends too late is not there in time: then the connection is silent again.
	read := func(conn net.Conn, sent string) string {
		_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
		_, _ = io.WriteString(conn, sent)
		all, _ := io.ReadAll(conn)
		return string(all)
	}
	for name, connect := range map[string]func() net.Conn{"plain text": plain, "TLS": overTLS} {
		if got := read(connect(), ""); got != "" {
			t.Errorf("%s: a silent connection ends with %q", name, got)
		}
		eventually(t, name+": half a request gets 408", func() bool {
			return strings.HasPrefix(read(connect(), "GET / HTTP/1.1\r\nHo"), "HTTP/1.1 408 ")
		})
	}
	lines := g.accessLog(t, 2)
	for _, line := range lines {
		if len(lines) > 2 || !strings.Contains(line, `"method":"<BADREQ>"`) || !strings.Contains(line, `"status":408`) {
			t.Errorf("of two requests that do not end, the log has %s", lines)
		}
	}
}
