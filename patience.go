package main

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/status"
)

// patience is for how long the status of a Gateway tells of an older generation, while the proxies load the newest.
const patience = time.Second

// awaitReports says whether the status is better written later: most edits are live, and reported, well before patience ends. The status
// then takes one write instead of two, of which one would meet the reports.
func (c *Controller) awaitReports(name cache.ObjectName, gateway *appv1.Gateway, computed appv1.GatewayStatus) bool {
	if !status.Underway(gateway, computed) {
		return false
	}
	left := patience - c.underway.elapsed(name, c.now())
	if left > 0 {
		c.queue.AddAfter(name, left)
	}
	return left > 0
}

// since remembers since when something has been so with Gateways.
type since struct {
	mu    sync.Mutex
	times map[cache.ObjectName]time.Time
}

// elapsed returns for how long it has been so, which begins with the first call.
func (s *since) elapsed(gateway cache.ObjectName, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin, known := s.times[gateway]
	if !known {
		if s.times == nil {
			s.times = map[cache.ObjectName]time.Time{}
		}
		s.times[gateway], begin = now, now
	}
	return now.Sub(begin)
}

// forget says that it is not so any more.
func (s *since) forget(gateway cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.times, gateway)
}
