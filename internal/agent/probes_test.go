package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gateway/internal/health"
	"gateway/internal/must"
)

func TestReadiness(t *testing.T) {
	// confirmed is the generation that the Gateway had after a report, if that was found out before the step.
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
		"ready once what the Gateway was after a report is live, and then on": {false, []step{
			{0, false, 0, false}, {0, true, 0, false}, {0, true, 4, false}, {6, true, 5, false}, {5, true, 5, true}, {0, true, 6, true}, {0, true, 0, true},
		}},
		"not with an older one":             {false, []step{{6, true, 5, false}, {0, true, 0, false}, {0, true, 6, true}}},
		"but with a newer one":              {false, []step{{4, true, 5, true}}},
		"not while HAProxy does not answer": {false, []step{{5, true, 5, true}, {0, false, 5, false}, {0, true, 5, true}}},
		"an earlier agent served already":   {true, []step{{0, false, 0, false}, {0, true, 0, true}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newProbes("", test.served)
			for i, step := range test.steps {
				if step.confirmed != 0 {
					h.confirm("uid", step.confirmed)
				}
				h.observe(step.up, "uid", step.live)
				if got := h.ready() == nil; got != step.ready {
					t.Errorf("step %d: ready is %t (%v), want %t", i, got, h.ready(), step.ready)
				}
			}
		})
	}
}

// TestReadinessIsOfOneGateway: what runs of a deleted Gateway does not make a pod ready for the next one of the name.
func TestReadinessIsOfOneGateway(t *testing.T) {
	h := newProbes("", false)
	h.observe(true, "uid-1", 5)
	h.confirm("uid-2", 1)
	if h.ready() == nil {
		t.Error("the pod is ready with another Gateway")
	}
	h.observe(true, "uid-2", 1)
	if err := h.ready(); err != nil {
		t.Error(err)
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
	must.Do(t, os.WriteFile(file, nil, 0o600))
	expect("/startupz", http.StatusOK)
	expect("/readyz", http.StatusServiceUnavailable)
	expect("/healthz", http.StatusOK)
	h.beat(time.Now().Add(-2 * stuckAfter))
	expect("/healthz", http.StatusServiceUnavailable)
	expect("/metrics", http.StatusOK)
}

// TestAPodThatIsToStopServesAndIsNotReady: kube-proxy goes on sending connections to pods that serve, if a node has no
// others. Load balancers that ask are to notice at once.
func TestAPodThatIsToStopServesAndIsNotReady(t *testing.T) {
	h := newProbes("", true)
	h.observe(true, "", 0)
	if err := errors.Join(h.serving(time.Now()), h.ready()); err != nil {
		t.Error(err)
	}
	h.stop(time.Now().Add(time.Hour))
	if err := h.serving(time.Now()); err != nil {
		t.Error(err)
	}
	if h.ready() == nil {
		t.Error("the pod is ready though it is to stop")
	}
}
