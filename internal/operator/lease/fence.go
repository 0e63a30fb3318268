// Package lease keeps a process that has lost the leader's lease, perhaps without noticing yet, from writing.
package lease

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// ErrNotHeld says that a request was not sent because the lease may be another process's.
var ErrNotHeld = errors.New("the leader's lease is not held any more")

// Fence lets requests that change something through only while the lease is held: a process that was frozen, or lost the API
// server, does not write on what it knew before. What was sent already cannot be called back, which is why writes carry the
// resourceVersion they were computed from, too.
type Fence struct {
	// Margin is how long before others may take the lease it counts as lost.
	Margin  time.Duration
	elector atomic.Pointer[leaderelection.LeaderElector]
}

// Guard makes elector the one whose lease counts. Before, nothing is let through.
func (f *Fence) Guard(elector *leaderelection.LeaderElector) { f.elector.Store(elector) }

// Wrap returns a transport that lets pass what the fence lets pass. What it does not, ends with ErrNotHeld.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !f.held() {
			return nil, ErrNotHeld
		}
		return next.RoundTrip(request)
	})
}

func (f *Fence) held() bool {
	elector := f.elector.Load()
	return elector != nil && elector.IsLeader() && elector.Check(-f.Margin) == nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
