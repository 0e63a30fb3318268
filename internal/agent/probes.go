package agent

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/health"
)

// stuckAfter is the longest time of a pass: the sum of the deadlines of all exchanges with HAProxy.
const stuckAfter = 2 * time.Minute

// probes answers kubelet's questions. Its methods may be called from several goroutines.
type probes struct {
	// file is the configuration HAProxy starts on.
	file string

	mu sync.Mutex
	// beats is when the loop was last seen to begin a pass.
	beats time.Time
	// served reports whether this pod was up to date once: it counts as ready from then on, as the last good configuration
	// is better than none.
	served bool
	// up reports whether HAProxy answers.
	up bool
	// leaves is until when a stopping pod stays ready; zero: it is not stopping.
	leaves time.Time
	// live is the version that HAProxy runs, of generation 0 if that is not known. confirmed is the Gateway's version
	// when the API server had taken in a report; its generation is 0 before that.
	live, confirmed gatewayVersion
}

// gatewayVersion is a Gateway as of a generation.
type gatewayVersion struct {
	uid        types.UID
	generation int64
}

// newProbes returns the probes of an agent. served reports whether it found a configuration that HAProxy had run.
func newProbes(file string, served bool) *probes {
	return &probes{file: file, served: served, beats: time.Now()}
}

// beat notes that the loop begins a pass.
func (p *probes) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats = now
}

// observe notes whether HAProxy answers, and which generation it is known to run; 0: none.
func (p *probes) observe(up bool, uid types.UID, live int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.live = up, gatewayVersion{uid, live}
	p.serve()
}

// confirm notes the generation that the Gateway had after the API server had accepted a report of this pod. No newer
// one is reported live everywhere without asking this pod (see ListProxies in internal/operator/children), so the pod
// may become ready with this one.
func (p *probes) confirm(uid types.UID, generation int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.confirmed = gatewayVersion{uid, generation}
	p.serve()
}

func (p *probes) serve() {
	isCurrent := p.confirmed.generation != 0 && p.live.uid == p.confirmed.uid && p.live.generation >= p.confirmed.generation
	p.served = p.served || p.up && isCurrent
}

// wasServed reports whether the pod was once up to date.
func (p *probes) wasServed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

// started is nil when HAProxy can start.
func (p *probes) started() error {
	if _, err := os.Stat(p.file); err != nil {
		return errors.New("there is no configuration yet")
	}
	return nil
}

// alive is nil unless the loop hangs.
func (p *probes) alive(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took := now.Sub(p.beats); took > stuckAfter {
		return fmt.Errorf("the loop has not come round for %s", took.Round(time.Second))
	}
	return nil
}

// stop notes that the pod is stopping, and until when it stays ready.
func (p *probes) stop(leaves time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaves = leaves
}

// ready is nil when HAProxy serves the Gateway, and the pod was not told to stop.
func (p *probes) ready() error {
	if err := p.serving(time.Now()); err != nil {
		return err
	}
	if p.isStopping() {
		return errors.New("the pod is to stop")
	}
	return nil
}

func (p *probes) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.leaves.IsZero()
}

// serving is nil when HAProxy serves the Gateway. A pod that is to stop serves until shortly before it takes no more
// connections: a node without another proxy gives up the address then, where that is of nodes with one.
func (p *probes) serving(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.up:
		return errors.New("HAProxy does not answer")
	case !p.served:
		return errors.New("HAProxy does not run the Gateway's configuration yet")
	case !p.leaves.IsZero() && !now.Before(p.leaves):
		return errors.New("the pod is about to take no more connections")
	}
	return nil
}

// checks are the probes by path.
func (p *probes) checks() map[string]health.Check {
	return map[string]health.Check{
		"/startupz": func(*http.Request) error { return p.started() },
		"/healthz":  func(*http.Request) error { return p.alive(time.Now()) },
		"/servingz": func(*http.Request) error { return p.serving(time.Now()) },
		"/readyz":   func(*http.Request) error { return p.ready() },
	}
}
