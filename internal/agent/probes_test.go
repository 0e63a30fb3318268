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
	// confirmed is the generation whose report was confirmed before the step, if any.
	type step struct {
		confirmed int64
		up        bool
		live      int64
		ready     bool
	}
	tests := map[string]struct {
		served bool
		steps  []step
	}{
		"ready once the report of what is live was confirmed, and then on": {false, []step{
			{0, false, 0, false}, {0, true, 0, false}, {0, true, 4, false}, {6, true, 5, false}, {5, true, 5, true}, {0, true, 6, true}, {0, true, 0, true},
		}},
		"a confirmation of something newer does not count": {false, []step{{6, true, 5, false}, {0, true, 0, false}, {0, true, 6, true}}},
		"of something older it does, until the next":       {false, []step{{4, true, 5, true}}},
		"not while HAProxy does not answer":                {false, []step{{5, true, 5, true}, {0, false, 5, false}, {0, true, 5, true}}},
		"an earlier agent served already":                  {true, []step{{0, false, 0, false}, {0, true, 0, true}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newProbes("", test.served)
			for i, step := range test.steps {
				if step.confirmed != 0 {
					h.confirm(step.confirmed)
				}
				h.observe(step.up, step.live)
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
