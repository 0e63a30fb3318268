package agent

import (
	"context"
	"errors"
	"time"

	"github.com/golang/glog"

	"gateway/internal/haproxy/runtime"
)

// verify compares the certificates that a worker has with the files here, once. kubelet writes the two containers' files one
// after the other: a reload in between loads what was there before.
func (a *Agent) verify(ctx context.Context, now time.Time) {
	if !a.state.up || a.state.unknown != "" {
		return
	}
	if a.state.worker == a.verified {
		if !a.reread.until.IsZero() && !now.Before(a.reread.until) {
			a.reread.until = time.Time{}
			a.state.unknown = reasonStale
			a.rouse()
		}
		return
	}
	stale, err := a.staleCertificates(ctx)
	if err != nil {
		glog.Warningf("Failed to see which certificates HAProxy has: %v", err)
		return
	}
	a.verified = a.state.worker
	if len(stale) == 0 {
		a.reread = failure{}
		return
	}
	delay := min(max(2*a.reread.delay, firstRetry), lastTrial)
	a.reread = failure{delay: delay, until: now.Add(delay)}
	glog.Infof("HAProxy has other certificates of %s than the agent sees; it is to load them again in %s", secretNames(stale), delay)
}

// staleCertificates are those that HAProxy has with another content than the files here.
func (a *Agent) staleCertificates(ctx context.Context) ([]certificateID, error) {
	var stale []certificateID
	for id := range a.state.disk.certificates {
		file, ok := a.mounts.files.certificates[id.secret]
		if !ok || file.hash != id.hash {
			continue // it was replaced a moment ago: the next pass loads it
		}
		loaded, err := a.worker.Certificate(ctx, a.options.Paths.CertificatePath(id.secret))
		if errors.Is(err, runtime.ErrNoCertificate) {
			continue // all of its names belong to other listeners
		}
		if err != nil {
			return nil, err
		}
		if loaded.Fingerprint != file.fingerprint {
			stale = append(stale, id)
		}
	}
	return stale, nil
}
