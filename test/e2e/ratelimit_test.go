package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// mostRequests is the limit that TestRateLimitOfAllPods sends requests to, in an hour.
const mostRequests = 30

// TestRateLimitOfAllPods: a limit is for three proxy pods together, and stays when one is killed and another comes.
func TestRateLimitOfAllPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	limited := func(prefix string, requests int32) appv1.RouteRule {
		rule := rule(prefix, backend("v1", 1))
		rule.Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{
			{Requests: requests, Unit: appv1.RateLimitHour, Key: &appv1.RateLimitKey{Type: appv1.RateLimitRule}},
		}}}}
		return rule
	}
	gateway := newGateway(route("web", limited("/", mostRequests), limited("/probe", 1000000)))
	gateway.Spec.Replicas = ptr.To(int32(3))
	create(t, namespace, gateway)
	limit := &limitProbe{address: findPort(t, namespace, 80)}
	limit.waitConnected(t)
	limit.exceed(t)
	pods := livingPods(t, namespace)
	must.Do(t, kube.CoreV1().Pods(namespace).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	waitReplicas(t, namespace, childName, 3)
	limit.waitConnected(t)
	limit.exceed(t)
}

// limitProbe sends requests to the pods of a Gateway whose paths have limits.
type limitProbe struct {
	address string
	// probes counts requests to "/probe", allowed those that "/" has let through.
	probes, allowed int
}

// get sends a request over a connection of its own, so that any of the pods may get it. It returns the status and the
// RateLimit header.
func (l *limitProbe) get(ctx context.Context, path string) (status int, rateLimit string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host, request.Close = host, true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, response.Header.Get("RateLimit"), response.Body.Close()
}

// waitConnected waits until each pod knows what the others have let through.
func (l *limitProbe) waitConnected(t *testing.T) {
	t.Helper()
	eventually(t, "each pod knows what the others have let through", func(ctx context.Context) error {
		for range 20 {
			_, got, err := l.get(ctx, "/probe")
			if err != nil {
				return err
			}
			l.probes++
			// The sum may be a request or two behind.
			var left int
			if _, err := fmt.Sscanf(got, `"hour";r=%d;`, &left); err != nil || left > 1000000-l.probes+2 {
				return fmt.Errorf("after %d requests of 1000000: got %s", l.probes, got)
			}
		}
		return nil
	})
}

// exceed sends more requests than the limit lets through.
func (l *limitProbe) exceed(t *testing.T) {
	t.Helper()
	for range 3 * mostRequests {
		switch status, _, err := l.get(t.Context(), "/"); {
		case err != nil:
			t.Error(err)
		case status == http.StatusOK:
			l.allowed++
		case status != http.StatusTooManyRequests:
			t.Errorf("got %d, want 200 or 429", status)
		}
	}
	// The sum may be a request or two behind.
	if l.allowed < mostRequests || l.allowed > mostRequests+3 {
		t.Errorf("%d requests were let through, want %d", l.allowed, mostRequests)
	}
}
