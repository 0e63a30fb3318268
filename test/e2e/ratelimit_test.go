package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
)

// TestRateLimitOfAllPods: a limit is for three proxy pods together, and stays when one is killed and another comes.
func TestRateLimitOfAllPods(t *testing.T) {
	t.Parallel()
	const most = 30
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	limited := func(prefix string, requests int32) appv1.RouteRule {
		rule := rule(prefix, backend("v1", 1))
		rule.Filters = []appv1.RouteFilter{{Type: appv1.RouteFilterRateLimit, RateLimit: &appv1.RateLimit{
			Requests: requests, Unit: appv1.RateLimitHour, Key: &appv1.RateLimitKey{Type: appv1.RateLimitRule},
		}}}
		return rule
	}
	gateway := newGateway(route("web", limited("/", most), limited("/probe", 1000000)))
	gateway.Spec.Replicas = ptr.To(int32(3))
	create(t, namespace, gateway)
	address := findPort(t, namespace, 80)
	// get sends a request over a connection of its own, so that any of the pods may get it.
	get := func(ctx context.Context, path string) (status int, rateLimit string, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
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
	probes := 0
	waitConnected := func() {
		t.Helper()
		eventually(t, "each pod knows what the others have let through", func(ctx context.Context) error {
			for range 20 {
				_, got, err := get(ctx, "/probe")
				if err != nil {
					return err
				}
				probes++
				// The sum may be a request or two behind.
				var left int
				if _, err := fmt.Sscanf(got, `"default";r=%d;`, &left); err != nil || left > 1000000-probes+2 {
					return fmt.Errorf("after %d requests of 1000000: got %s", probes, got)
				}
			}
			return nil
		})
	}
	through := 0
	send := func() {
		t.Helper()
		for range 3 * most {
			switch status, _, err := get(t.Context(), "/"); {
			case err != nil:
				t.Error(err)
			case status == http.StatusOK:
				through++
			case status != http.StatusTooManyRequests:
				t.Errorf("got %d, want 200 or 429", status)
			}
		}
		// The sum may be a request or two behind.
		if through < most || through > most+3 {
			t.Errorf("%d requests were let through, want %d", through, most)
		}
	}
	waitConnected()
	send()
	pods := livingPods(t, namespace)
	must(t, kube.CoreV1().Pods(namespace).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	waitReplicas(t, namespace, childName, 3)
	waitConnected()
	send()
}
