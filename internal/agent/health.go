package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
)

// stuckAfter is how long a pass may take: every exchange with HAProxy has a deadline, and these are all of them together.
const stuckAfter = 2 * time.Minute

// health answers kubelet's questions. Its methods may be called from several goroutines.
type health struct {
	// file is the configuration HAProxy starts on.
	file string

	mu sync.Mutex
	// beats is when the loop was last seen to begin a pass.
	beats time.Time
	// first is the generation of the first Gateway that was seen, 0 before.
	first int64
	// served says that this pod ran a Gateway's configuration once: it counts as ready from then on, as the last good
	// configuration is better than none.
	served bool
	// up says whether HAProxy answers.
	up bool
}

// newHealth returns the health of an agent that found a configuration that HAProxy had run, or not.
func newHealth(file string, served bool) *health {
	return &health{file: file, served: served, beats: time.Now()}
}

// beat notes that the loop begins a pass.
func (h *health) beat(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beats = now
}

// wants notes that the Gateway was seen.
func (h *health) wants(generation int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == 0 {
		h.first = generation
	}
}

// observe notes whether HAProxy answers, whether it is known what it runs, and of which generation that is.
func (h *health) observe(up, known bool, live int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up = up
	if up && known && h.first != 0 && live >= h.first {
		h.served = true
	}
}

// started is nil when HAProxy can start.
func (h *health) started() error {
	if _, err := os.Stat(h.file); err != nil {
		return errors.New("there is no configuration yet")
	}
	return nil
}

// alive is nil when the loop does not hang.
func (h *health) alive(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if took := now.Sub(h.beats); took > stuckAfter {
		return fmt.Errorf("the loop has not come round for %s", took.Round(time.Second))
	}
	return nil
}

// ready is nil when HAProxy answers by the Gateway.
func (h *health) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.up:
		return errors.New("HAProxy does not answer")
	case !h.served:
		return errors.New("HAProxy does not run the Gateway's configuration yet")
	}
	return nil
}

// serve answers on the address until the returned function is called, which waits for the answers under way.
func (h *health) serve(address string) (stop func() error, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("failed to listen on -health-address: %w", err)
	}
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // who still reads after a second is cut off
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("failed to serve health and metrics: %w", err)
		}
		return nil
	}, nil
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /startupz", answer(h.started))
	mux.Handle("GET /healthz", answer(func() error { return h.alive(time.Now()) }))
	mux.Handle("GET /readyz", answer(h.ready))
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return mux
}

func answer(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := "ok"
		if err := check(); err != nil {
			text = err.Error()
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, text) // who asked may be gone
	})
}
