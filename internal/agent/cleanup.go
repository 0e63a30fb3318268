package agent

import (
	"context"
	"errors"
	"time"

	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/logging"
)

const (
	// maxDrained is how many servers are tried at once: HAProxy holds all its threads for each, busy or not.
	maxDrained = 10
	// drainInterval is how often they are tried.
	drainInterval = checkInterval / 2
	// unusedInterval is the shortest time that unused parts of HAProxy's configuration stay. They stay about twice as long
	// if no request waits. While one does, each look comes after half the time that has passed: HAProxy shows all streams
	// that are old enough.
	unusedInterval = 5 * time.Second
)

// cleanup is the time of the last cleanup of HAProxy.
type cleanup struct {
	drained, unused time.Time
}

// deleteDrained deletes servers that have become idle, once in a while.
func (a *Agent) deleteDrained(ctx context.Context, now time.Time) {
	r := &a.state.running
	if !r.up || len(r.draining) == 0 || now.Sub(a.cleanup.drained) < drainInterval {
		return
	}
	a.cleanup.drained = now
	tries := 0
	for server := range r.draining {
		if tries++; tries > maxDrained {
			return
		}
		err := a.worker.DeleteServer(ctx, server.backend, server.Server)
		if errors.Is(err, runtime.ErrServerBusy) {
			continue
		}
		delete(r.draining, server)
		if err != nil {
			// It takes no requests, does no harm, and is gone with the next reload.
			logging.V(2).Infof("Left a server of backend %s as it is: %v", server.backend, err)
			return
		}
	}
}

// deleteUnused deletes from HAProxy what is unused now and was already unused at the last look.
func (a *Agent) deleteUnused(ctx context.Context, now time.Time) {
	r, used := &a.state.running, &a.state.disk.config
	interval := unusedInterval
	if !r.unused.IsEmpty() {
		interval = max(interval, a.cleanup.unused.Sub(r.unusedSince)/2)
	}
	if !a.state.isKnown() || !r.switched.IsZero() || now.Sub(a.cleanup.unused) < interval {
		return
	}
	a.cleanup.unused = now
	if r.config.Backends.Len() == used.Backends.Len() && r.config.Contents.Len() == used.Contents.Len() && r.config.Lists.Len() == used.Lists.Len() {
		return
	}
	unused := r.unused.Without(*used)
	if a.isAwaited(ctx, unused, now.Sub(r.unusedSince)) {
		return
	}
	var busy []plan.Server
	var err error
	r.config, busy, err = a.worker.Remove(ctx, a.options.Paths, plan.Collect(unused, r.config))
	r.drain(busy)
	if err != nil {
		r.unknown = reasonCommandsFailed
		logging.Warningf("HAProxy did not delete what is not used any more, a reload follows: %v", err)
	}
	r.unused, r.unusedSince = plan.FindUnused(*used, r.config), now
}

// isAwaited reports whether a request may still reach a backend or server that has become unused. A request that waits
// for its body, for ExternalAuth or for BasicAuth knows its backend already, and one in a queue needs its servers.
// After the drainTimeout, no request counts: a reload would end it, too.
func (a *Agent) isAwaited(ctx context.Context, unused plan.Unused, since time.Duration) bool {
	if unused.IsEmpty() || since >= a.state.disk.table.DrainTimeout {
		return false
	}
	waiting, err := a.worker.Waiting(ctx, since)
	if err != nil {
		logging.Warningf("What is not used any more stays in HAProxy for a moment: %v", err)
		return true
	}
	for name := range unused.Backends {
		if waiting.Backends[name] {
			return true
		}
	}
	return waiting.Oldest > since
}
