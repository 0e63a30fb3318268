package agent

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"gateway/internal/health"
)

// stuckAfter is how long a pass may take: every exchange with HAProxy has a deadline, and these are all of them together.
const stuckAfter = 2 * time.Minute

// probes answers kubelet's questions. Its methods may be called from several goroutines.
type probes struct {
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

// newProbes returns the probes of an agent that found a configuration that HAProxy had run, or not.
func newProbes(file string, served bool) *probes {
	return &probes{file: file, served: served, beats: time.Now()}
}

// beat notes that the loop begins a pass.
func (p *probes) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats = now
}

// wants notes that the Gateway was seen.
func (p *probes) wants(generation int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == 0 {
		p.first = generation
	}
}

// observe notes whether HAProxy answers, whether it is known what it runs, and of which generation that is.
func (p *probes) observe(up, known bool, live int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = up
	if up && known && p.first != 0 && live >= p.first {
		p.served = true
	}
}

// started is nil when HAProxy can start.
func (p *probes) started() error {
	if _, err := os.Stat(p.file); err != nil {
		return errors.New("there is no configuration yet")
	}
	return nil
}

// alive is nil when the loop does not hang.
func (p *probes) alive(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took := now.Sub(p.beats); took > stuckAfter {
		return fmt.Errorf("the loop has not come round for %s", took.Round(time.Second))
	}
	return nil
}

// ready is nil when HAProxy answers by the Gateway.
func (p *probes) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.up:
		return errors.New("HAProxy does not answer")
	case !p.served:
		return errors.New("HAProxy does not run the Gateway's configuration yet")
	}
	return nil
}

// checks are the probes by path.
func (p *probes) checks() map[string]health.Check {
	return map[string]health.Check{
		"/startupz": func(*http.Request) error { return p.started() },
		"/healthz":  func(*http.Request) error { return p.alive(time.Now()) },
		"/readyz":   func(*http.Request) error { return p.ready() },
	}
}
