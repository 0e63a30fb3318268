package runtime

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/must"
)

// TestABackendThatIsKeptTakesRequests: HAProxy deletes no backend in which a request waits. Such a backend is published
// again, since a route may lead to it before the next try.
func TestABackendThatIsKeptTakesRequests(t *testing.T) {
	p := startProxy(t)
	port := haproxytest.FreePort(t)
	p.WriteFiles(p.files("two", fmt.Sprintf(`frontend g
    bind 127.0.0.1:%d
    use_backend %%[str(added)]
defaults waiting
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 1s
    http-request wait-for-body time 30s
`, port)))
	must.Do(t, p.master.Reload(t.Context()))
	_, err := p.worker.AwaitLoad(t.Context(), "two")
	must.Do(t, err)
	p.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	endpoint := newEndpoint(t, func(http.ResponseWriter, *http.Request) {})
	added := plan.Backend{Name: "added", Backend: &ir.Backend{Defaults: "waiting", Mode: "http", Servers: []ir.Server{endpoint}}}
	must.Do(t, p.worker.AddBackend(t.Context(), added))
	p.expectStatus(t, http.StatusOK)

	conn := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t)
	defer conn.Close() //nolint:errcheck // the test is over
	must.Get(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo"))(t)
	for {
		waiting := must.Get(p.worker.Waiting(t.Context(), 0))(t)
		if waiting.Backends["added"] {
			break
		}
	}
	if old, err := p.worker.Waiting(t.Context(), time.Hour); err != nil || len(old.Backends) > 0 {
		t.Errorf("a request has waited for an hour: %v, %v", old, err)
	}
	for err = ErrServerBusy; err != nil; err = p.worker.RemoveServer(t.Context(), "added", endpoint) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if deleted, err := p.worker.DeleteBackend(t.Context(), "added"); deleted || err != nil {
		t.Fatalf("a backend in which a request waits was deleted: %t, %v", deleted, err)
	}
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "added", Server: endpoint}))
	p.expectStatus(t, http.StatusOK)
	must.Get(io.WriteString(conn, "dy"))(t)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // the connection ends with the test
	if response.StatusCode != http.StatusOK {
		t.Errorf("the request that waited got %d", response.StatusCode)
	}
}

func TestAges(t *testing.T) {
	for age, want := range map[string]time.Duration{
		"0s": time.Second, "59s": time.Minute, "1m4s": 65 * time.Second, "1m": 2 * time.Minute, "2h3m": 124 * time.Minute,
		"1d2h": math.MaxInt64, "": math.MaxInt64, "soon": math.MaxInt64,
	} {
		if got := atMost(age); got != want {
			t.Errorf("%q is at most %s, want %s", age, got, want)
		}
	}
}
