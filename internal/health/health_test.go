package health

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/internal/must"
	"gateway/internal/operator/metrics"
)

func start(t *testing.T, options Options) *Server {
	t.Helper()
	options.Address = "127.0.0.1:0"
	server := must.Get(Start(options))(t)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func get(t *testing.T, server *Server, path string) (code int, body string) {
	t.Helper()
	response, err := http.Get("http://" + server.Address() + path)
	must.Do(t, err)
	defer func() { _ = response.Body.Close() }()
	content := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(content)
}

func well(*http.Request) error { return nil }

func TestChecks(t *testing.T) {
	server := start(t, Options{Checks: map[string]Check{"/healthz": well, "/readyz": func(*http.Request) error { return errors.New("not yet") }}})
	if code, body := get(t, server, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz answers %d %q, want 200 and ok", code, body)
	}
	if code, body := get(t, server, "/readyz"); code != http.StatusServiceUnavailable || body != "not yet\n" {
		t.Errorf("/readyz answers %d %q, want 503 and why", code, body)
	}
	if code, _ := get(t, server, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/ answers %d though nobody asked for it", code)
	}
	if code, _ := get(t, start(t, Options{Profiling: true}), "/debug/pprof/"); code != http.StatusOK {
		t.Errorf("/debug/pprof/ answers %d, want 200", code)
	}
}

func TestMetrics(t *testing.T) {
	metrics.ObserveSync(time.Millisecond, false)
	metrics.ObserveSync(time.Millisecond, true)
	_, body := get(t, start(t, Options{}), "/metrics")
	for _, line := range []string{
		`gateway_syncs_total{result="success"} 1`,
		`gateway_syncs_total{result="error"} 1`,
		`gateway_sync_duration_seconds_count 2`,
		`go_goroutines `,
	} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("the metrics have no line %q", line)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	server := start(t, Options{})
	if _, err := Start(Options{Address: server.Address()}); err == nil {
		t.Error("two servers listen on one address")
	}
}
