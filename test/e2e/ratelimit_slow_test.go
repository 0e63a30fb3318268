//go:build slow

package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// TestRateLimitUnderLoad: three proxy pods get three times as many requests as their limit lets through. One of them is
// killed, and another is added.
func TestRateLimitUnderLoad(t *testing.T) {
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	limited := rule("/", backend("v1", 1))
	limited.Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{
		{Requests: 100, Unit: appv1.RateLimitSecond, Key: &appv1.RateLimitKey{Type: appv1.RateLimitRule}},
	}}}}
	gateway := newGateway(route("web", limited))
	gateway.Spec.Replicas = ptr.To(int32(3))
	create(t, namespace, gateway)
	l := startLimitLoad(t, &limitProbe{address: findPort(t, namespace, 80)}, 300)

	const settle, duration = 2 * time.Second, 5 * time.Second
	steady := func(name string) {
		t.Helper()
		from := time.Now().Add(settle)
		time.Sleep(settle + duration)
		l.check(t, name, from, duration, 98, 102)
	}
	waitReplicas(t, namespace, childName, 3)
	steady("three pods")
	pod := livingPods(t, namespace)[0]
	killed := time.Now()
	must.Do(t, kube.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	time.Sleep(time.Until(killed.Add(time.Second)))
	l.check(t, "the second after a pod was killed", killed, time.Second, 90, 110)
	waitReplicas(t, namespace, childName, 3)
	steady("with the new pod")
	must.Get(gateways.AppV1().Gateways(namespace).Patch(t.Context(), gatewayName, types.MergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}))(t)
	waitReplicas(t, namespace, childName, 4)
	l.check(t, "the second before four pods were ready", time.Now().Add(-time.Second), time.Second, 90, 110)
	steady("four pods")
}

// limitLoad is a steady load. It notes when requests were let through.
type limitLoad struct {
	mu      sync.Mutex
	through []time.Time
}

// startLimitLoad sends as many requests per second, whatever becomes of them, until the test ends.
func startLimitLoad(t *testing.T, probe *limitProbe, rate int) *limitLoad {
	t.Helper()
	l := &limitLoad{}
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	t.Cleanup(func() { stop(); sending.Wait() })
	sending.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			sending.Go(func() {
				if status, _, err := probe.get(ctx, "/"); err == nil && status == http.StatusOK {
					l.mu.Lock()
					l.through = append(l.through, time.Now())
					l.mu.Unlock()
				}
			})
		}
	})
	return l
}

// check compares the requests per second that were let through with a lower and an upper bound.
func (l *limitLoad) check(t *testing.T, name string, from time.Time, duration time.Duration, low, high float64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, at := range l.through {
		if !at.Before(from) && at.Before(from.Add(duration)) {
			n++
		}
	}
	got := float64(n) / duration.Seconds()
	t.Logf("of 100 requests per second, %.1f were let through: %s", got, name)
	if got < low || got > high {
		t.Errorf("%s: %.1f, want %.0f to %.0f", name, got, low, high)
	}
}
