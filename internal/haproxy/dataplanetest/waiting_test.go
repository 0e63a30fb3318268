package dataplanetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
)

// TestWaitForEndpoint: requests wait while no endpoint is there, as many as may, and lose nothing.
func TestWaitForEndpoint(t *testing.T) {
	t.Parallel()
	g := startBackends(t, "", ", waitForEndpoint: {timeout: 5m, maxRequests: 3}", "")
	post := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("b", 100_000))
	answers := make(chan answer, 4)
	for range 4 {
		c := newClient(t, g.ports[80])
		go func() {
			got, err := c.try(post)
			if err != nil {
				t.Error(err)
			}
			answers <- got
		}()
	}
	if got := <-answers; got.Status != 503 {
		t.Errorf("the fourth request got %d, want 503 while the others wait", got.Status)
	}
	for want, number := range map[string]string{`haproxy_backend_current_sessions{proxy="b_80.`: "3", `haproxy_backend_active_servers{proxy="b_80.`: "0"} {
		eventually(t, want+" is "+number, func() bool { // the fourth request counts until all of it is gone
			metrics := newClient(t, g.in.Bind.MetricsPort).send(get("x", "/metrics")).Body
			_, line, _ := strings.Cut(metrics, want)
			return strings.HasPrefix(line[strings.Index(line, "}")+1:], " "+number+"\n")
		})
	}
	count := func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Backend", fmt.Sprint(n))
	}
	must.Do(t, runtime.NewWorker(g.WorkerSocket).AddServer(t.Context(), g.newServer(serve(t, count, nil))))
	for range 3 {
		if got := <-answers; got.Status != 200 || got.Header.Get("Backend") != "100000" {
			t.Errorf("a request that waited got %d, and %q bytes arrived", got.Status, got.Header.Get("Backend"))
		}
	}
}

// TestWaitsEnd: by their own timeout, or by the rule's.
func TestWaitsEnd(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][2]string{
		"its own":    {"", ", waitForEndpoint: {timeout: 100ms}"},
		"the rule's": {", timeouts: {request: 100ms}", ", waitForEndpoint: {timeout: 5m}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, startBackends(t, settings[0], settings[1], "").ports[80])
			begin := time.Now()
			if got, took := c.send(get("x", "/")), time.Since(begin); got.Status != 503 || took < 100*time.Millisecond {
				t.Errorf("got %d after %s, want 503 after 100ms", got.Status, took)
			}
		})
	}
}
