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

// TestLimitOfAllPods sends more requests than a limit lets through, evenly and mostly to one pod, while pods go and come.
func TestLimitOfAllPods(t *testing.T) {
	port := int(haproxytest.FreePort(t))
	limit := appv1.RequestLimit{Requests: 100, Unit: appv1.RateLimitSecond}
	pods := []*testPod{startPod(t, 1, port, limit), startPod(t, 2, port, limit), startPod(t, 3, port, limit)}
	meet(pods...)
	for _, p := range pods {
		for _, other := range pods {
			other.sees("second", p, 1)
		}
	}
	// measure sends requests per second to each pod, and returns how many per second were let through.
	measure := func(pods []*testPod, rates ...float64) float64 {
		const warmUp, duration = time.Second, 4 * time.Second
		var through atomic.Int64
		var sending sync.WaitGroup
		start := time.Now()
		for i, p := range pods {
			sending.Go(func() {
				tick := time.NewTicker(time.Duration(float64(time.Second) / rates[i]))
				defer tick.Stop()
				for now := range tick.C {
					if now.Sub(start) > warmUp+duration {
						return
					}
					if p.get() == http.StatusOK && now.Sub(start) > warmUp {
						through.Add(1)
					}
				}
			})
		}
		sending.Wait()
		return float64(through.Load()) / duration.Seconds()
	}
	check := func(name string, got, low, high float64) {
		t.Helper()
		t.Logf("of 100 requests per second, %.1f were let through: %s", got, name)
		if got < low || got > high {
			t.Errorf("%s: %.1f, want %.0f to %.0f", name, got, low, high)
		}
	}
	check("even load", measure(pods, 100, 100, 100), 98, 102)
	check("more load", measure(pods, 300, 300, 300), 98, 102)
	check("mostly at one pod", measure(pods, 270, 15, 15), 98, 102)
	pods[2].end()
	check("a pod is gone", measure(pods[:2], 150, 150), 98, 102)
	pods[2] = startPod(t, 4, port, limit)
	meet(pods...)
	check("a pod comes", measure(pods, 100, 100, 100), 90, 110)
}
