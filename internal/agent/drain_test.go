package agent

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"gateway/internal/haproxy/runtime"
)

// TestOldWorkersAreBounded: while old workers still have connections, reloads are spaced out, and what needs none goes on.
func TestOldWorkersAreBounded(t *testing.T) {
	r, one := serving(t)
	var open []net.Conn
	services := []string{"api"}
	workers := func() int {
		n, err := runtime.NewMaster(r.options.Paths.RunDir + "/master.sock").OldWorkers(t.Context())
		r.must(err)
		return n
	}
	for len(open) < manyWorkers {
		open = append(open, r.keepOpen())
		services = append(services, fmt.Sprintf("s%d", len(open)))
		r.expectReport(r.edit(r.retrying(services...)), "")
		if n := workers(); n != len(open) {
			t.Fatalf("%d old workers have connections, want %d", n, len(open))
		}
	}
	running := r.process()
	generation := r.edit(r.retrying(append(services, "late")...))
	r.moveSlice("api", "one", newEndpoint(t, "two"))
	r.expectBody("/", "two")
	r.moveSlice("api", "one", one)
	r.expectBody("/", "one")
	r.expectNoReload(running)
	r.expectReport(generation-1, "")

	for _, conn := range open {
		_ = conn.Close()
	}
	r.expectReport(generation, "")
	if n := workers(); n != 0 {
		t.Errorf("%d old workers are left", n)
	}
}

// keepOpen sends a request on a connection that stays open.
func (r *rig) keepOpen() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	r.must(err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	r.must(err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	r.must(err)
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	r.must(err)
	return conn
}
