package agent

import (
	"context"
	"time"

	"gateway/internal/logging"
)

// awaitStop waits until the pod is to stop. kubelet stops HAProxy later.
func (a *Agent) awaitStop(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.options.Stopping:
		logging.Infof("The pod is to stop")
		a.probes.stop(time.Now().Add(servesFor(a.options.StopDelay)))
		a.wakeUp()
	}
}

// servesFor returns how long a stopping pod stays ready. Kubelet probes once a second and believes the third answer,
// and everybody who sends connections has to learn of it before HAProxy takes no more of them.
func servesFor(stopDelay time.Duration) time.Duration {
	return stopDelay - min(4*time.Second, stopDelay/2)
}

// announceStop notifies HAProxy's worker that the pod is to stop, so that clients move on to other pods while this one
// still takes connections. A worker without this notice loses nothing: it moves them when it stops.
func (a *Agent) announceStop(ctx context.Context) {
	r := &a.state.running
	if !r.up || r.closing == r.worker || !a.probes.isStopping() {
		return
	}
	if err := a.worker.AnnounceStop(ctx); err != nil {
		logging.Warningf("HAProxy does not close connections yet: %v", err)
		return
	}
	r.closing = r.worker
}
