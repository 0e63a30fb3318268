package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/must"
)

// With the operator stopped, routes and endpoints change, and a new proxy pod starts.
func TestDataPlaneNeedsNoOperator(t *testing.T) {
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	newBackend(t, namespace, "v2", 1)
	waitReplicas(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v2", 1)
	create(t, namespace, newGateway(route("web", rule("/", backend("v1", 1)))))
	traffic := newClient(t, namespace)
	stop := traffic.probe(t)

	stopOperator(t)
	setRoutes(t, namespace, route("web", rule("/", backend("v1", 1)), rule("/two", backend("v2", 1))))
	traffic.waitAnswer(t, host, "/two", http.StatusOK, "v2")
	scale(t, namespace, "v1", 2)
	waitReplicas(t, namespace, "v1", 2)
	waitPods(t, traffic, 2)
	scale(t, namespace, childName, 2)
	waitReplicas(t, namespace, childName, 2)
	stop()
	for range 50 {
		traffic.waitAnswer(t, host, "/two", http.StatusOK, "v2")
	}
}

// stopOperator scales the operator to zero, waits until it is gone and brings it back when the test ends.
func stopOperator(t *testing.T) {
	t.Helper()
	deployment := must.Get(kube.AppsV1().Deployments(operatorNamespace).Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	scale(t, operatorNamespace, "gateway-operator", 0)
	t.Cleanup(func() {
		body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, *deployment.Spec.Replicas)
		_, err := kube.AppsV1().Deployments(operatorNamespace).Patch(context.Background(), "gateway-operator",
			types.MergePatchType, body, metav1.PatchOptions{}, "scale")
		if err != nil {
			t.Errorf("failed to start the operator again: %v", err)
		}
	})
	eventually(t, "the operator has stopped", func(ctx context.Context) error {
		pods, err := kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: operatorSelector})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	})
}

// leaderPod waits until a pod that exists holds the operator's Lease, and returns its name.
func leaderPod(t *testing.T) string {
	t.Helper()
	var pod string
	eventually(t, "an operator holds the lease", func(ctx context.Context) error {
		leases, err := kube.CoordinationV1().Leases(operatorNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: operatorSelector})
		if err != nil {
			return err
		}
		for _, lease := range leases.Items {
			for _, candidate := range pods.Items {
				if holds(lease, candidate.Name) {
					pod = candidate.Name
					return nil
				}
			}
		}
		return fmt.Errorf("no lease in %s is held by one of %d operators", operatorNamespace, len(pods.Items))
	})
	return pod
}

// holds reports whether the lease's holder, a pod's name with a unique suffix, is the pod.
func holds(lease coordinationv1.Lease, pod string) bool {
	holder := lease.Spec.HolderIdentity
	return holder != nil && len(*holder) >= len(pod) && (*holder)[:len(pod)] == pod
}
