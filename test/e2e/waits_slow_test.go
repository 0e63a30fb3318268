//go:build slow

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/load"
)

// TestTheLastPodStops: requests lose no answer while a Deployment is scaled to no pod and back, if they may wait for an
// endpoint and pods stop with a preStop sleep, as docs/features/wait-for-endpoint.md advises.
func TestTheLastPodStops(t *testing.T) {
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 0)
	must.Get(kube.AppsV1().Deployments(namespace).Patch(t.Context(), "v1", types.StrategicMergePatchType, []byte(`{"spec": {"replicas": 1, "template": {"spec":
		{"containers": [{"name": "echo", "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}]}}}}`), metav1.PatchOptions{}))(t)
	gateway := newGateway(route("web", rule("/", backend("v1", 1))))
	gateway.Spec.Replicas = ptr.To(int32(2))
	gateway.Spec.Backends = []appv1.Backend{{Name: "v1", Port: 80, WaitForEndpoint: &appv1.WaitForEndpoint{Timeout: "1m", MaxRequests: ptr.To(int32(1000))}}}
	create(t, namespace, gateway)
	waitReplicas(t, namespace, childName, 2)
	waitReplicas(t, namespace, "v1", 1)

	sent := load.Start(context.WithoutCancel(t.Context()), load.Options{
		Address: findPort(t, namespace, 80), Host: host, Rate: 200, Timeout: time.Minute, Delay: time.Second, Slow: 2,
		Check: func(answer load.Answer) error {
			if answer.Version != "v1" {
				return fmt.Errorf("answered %d: %.200s", answer.Status, answer.Body)
			}
			return nil
		},
	})
	for range 5 {
		scale(t, namespace, "v1", 0)
		waitPodCount(t, namespace, "app=v1", 0)
		scale(t, namespace, "v1", 1)
		waitReplicas(t, namespace, "v1", 1)
	}
	result := sent.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	record("scaled to no pod and back five times", fmt.Sprintf("%d requests, %d lost", result.Requests(), len(result.Failures())))
}
