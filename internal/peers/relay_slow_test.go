//go:build slow

package peers

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
)

// TestLimitOfAllPods sends more requests than a limit lets through, evenly and mostly to one pod, while pods go and
// come.
func TestLimitOfAllPods(t *testing.T) {
	port := int(haproxytest.FreePort(t))
	limit := appv1.RequestLimit{Requests: 100, Unit: appv1.RateLimitSecond}
	pods := []*testPod{startPod(t, 1, port, limit), startPod(t, 2, port, limit), startPod(t, 3, port, limit)}
	meet(pods...)
	for _, p := range pods {
		p.hasLearned()
		for _, other := range pods {
			other.sees("second", p, 1)
		}
	}
	check := func(name string, got, low, high float64) {
		t.Helper()
		t.Logf("of 100 requests per second, %.1f were let through: %s", got, name)
		if got < low || got > high {
			t.Errorf("%s: %.1f, want %.0f to %.0f", name, got, low, high)
		}
	}
	steady := func(name string, low, high float64, rates ...float64) {
		t.Helper()
		// On a busy machine, clients send less than they should. That is measured again.
		for range 10 {
			if all, _, inTime := measureLimit(pods[:len(rates)], nil, rates...); inTime {
				check(name, all, low, high)
				return
			}
		}
		t.Errorf("%s: the machine is too busy to send in time", name)
	}
	steady("even load", 98, 102, 100, 100, 100)
	steady("more load", 98, 102, 300, 300, 300)
	steady("mostly at one pod", 98, 102, 270, 15, 15)
	_, first, _ := measureLimit(pods, pods[2], 100, 100, 100)
	check("the second after a pod dies", first, 90, 110)
	steady("a pod is gone", 98, 102, 150, 150)
	pods[2] = startPod(t, 4, port, limit)
	meet(pods...)
	steady("a pod comes", 90, 110, 100, 100, 100)
	steady("mostly at one pod, with the new one", 98, 102, 270, 15, 15)
}

// measureLimit sends requests per second to each pod, of which one may die after a while. It returns how many per
// second were let through, how many in the second after that while, and whether all were sent in time.
func measureLimit(pods []*testPod, dying *testPod, rates ...float64) (all, first float64, inTime bool) {
	const warmUp, duration, lateness = time.Second, 4 * time.Second, 20 * time.Millisecond
	var through, atFirst, late atomic.Int64
	var sending sync.WaitGroup
	start := time.Now()
	for i, p := range pods {
		sending.Go(func() {
			tick := time.NewTicker(time.Duration(float64(time.Second) / rates[i]))
			defer tick.Stop()
			for now := range tick.C {
				if time.Since(now) > lateness {
					late.Add(1)
				}
				after := now.Sub(start) - warmUp
				if after > 0 && p == dying {
					p.end()
					return
				}
				if after > duration {
					return
				}
				if p.get() == http.StatusOK && after > 0 {
					through.Add(1)
					if after <= time.Second {
						atFirst.Add(1)
					}
				}
			}
		})
	}
	sending.Wait()
	return float64(through.Load()) / duration.Seconds(), float64(atFirst.Load()), late.Load() == 0
}
