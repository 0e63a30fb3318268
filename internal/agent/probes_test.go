package agent

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gateway/internal/health"
)

func TestReadiness(t *testing.T) {
	type step struct {
		up, known bool
		live      int64
		ready     bool
	}
	tests := map[string]struct {
		served bool
		first  int64
		steps  []step
	}{
		"ready once the Gateway's first generation is live, and then on": {false, 5, []step{
			{false, false, 0, false}, {true, false, 0, false}, {true, true, 4, false}, {true, true, 5, true}, {true, false, 0, true},
		}},
		"never without a Gateway":           {false, 0, []step{{true, true, 0, false}}},
		"not while HAProxy does not answer": {false, 5, []step{{true, true, 5, true}, {false, true, 5, false}, {true, true, 5, true}}},
		"an earlier agent served already":   {true, 0, []step{{false, false, 0, false}, {true, false, 0, true}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newProbes("", test.served)
			if test.first != 0 {
				h.wants(test.first)
				h.wants(test.first + 100)
			}
			for i, step := range test.steps {
				h.observe(step.up, step.known, step.live)
				if got := h.ready() == nil; got != step.ready {
					t.Errorf("step %d: ready is %t (%v), want %t", i, got, h.ready(), step.ready)
				}
			}
		})
	}
}

func TestHealthAnswers(t *testing.T) {
	registerMetrics()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	h := newProbes(file, false)
	handler := health.Handler(health.Options{Checks: h.checks()})
	expect := func(path string, want int) {
		t.Helper()
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s answers %d (%s), want %d", path, recorder.Code, recorder.Body, want)
		}
	}
	expect("/startupz", http.StatusServiceUnavailable)
	mustDo(t, os.WriteFile(file, nil, 0o600))
	expect("/startupz", http.StatusOK)
	expect("/readyz", http.StatusServiceUnavailable)
	expect("/healthz", http.StatusOK)
	h.beat(time.Now().Add(-2 * stuckAfter))
	expect("/healthz", http.StatusServiceUnavailable)
	expect("/metrics", http.StatusOK)
}
