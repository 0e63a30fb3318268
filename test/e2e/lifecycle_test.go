package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/must"
)

// A Gateway's life, from its creation to its deletion, with requests through it while routes and endpoints change.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	lifecycle(t, func(*testing.T) {})
}

func lifecycle(t *testing.T, beforeStep func(*testing.T)) {
	t.Helper()
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 2)
	newBackend(t, namespace, "v2", 1)
	waitReplicas(t, namespace, "v1", 2)
	waitReplicas(t, namespace, "v2", 1)

	beforeStep(t)
	create(t, namespace, newGateway(route("web", rule("/", backend("v1", 1)))))
	traffic := newClient(t, namespace)
	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	stop := traffic.probe(t)

	beforeStep(t)
	editRoute(t, namespace, traffic)
	beforeStep(t)
	changeEndpoints(t, namespace, traffic)
	stop()

	// Deleting the Deployment or breaking the Service may lose requests until they are repaired.
	beforeStep(t)
	deleteChildren(t, namespace)
	beforeStep(t)
	changeChild(t, namespace)
	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	beforeStep(t)
	deleteGateway(t, namespace)
}

func editRoute(t *testing.T, namespace string, traffic *client) {
	t.Helper()
	setRoutes(t, namespace, route("web", rule("/", backend("v1", 1)), rule("/two", backend("v2", 1))))
	traffic.waitAnswer(t, host, "/two/more", http.StatusOK, "v2")
	traffic.waitAnswer(t, host, "/twofold", http.StatusOK, "v1")
	waitProgrammed(t, namespace)
}

// changeEndpoints scales a backend and deletes one of its pods; traffic goes on, and to the new pods too.
func changeEndpoints(t *testing.T, namespace string, traffic *client) {
	t.Helper()
	scale(t, namespace, "v1", 3)
	waitReplicas(t, namespace, "v1", 3)
	waitPods(t, traffic, 3)

	pods := must.Get(kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=v1"}))(t)
	must.Do(t, kube.CoreV1().Pods(namespace).Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{}))
	eventually(t, "the deleted pod is replaced", func(ctx context.Context) error {
		_, err := kube.CoreV1().Pods(namespace).Get(ctx, pods.Items[0].Name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("pod %s still exists", pods.Items[0].Name)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	waitReplicas(t, namespace, "v1", 3)
	waitPods(t, traffic, 3)

	scale(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	waitPods(t, traffic, 1)
}

func scale(t *testing.T, namespace, deployment string, replicas int) {
	t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	must.Get(kube.AppsV1().Deployments(namespace).Patch(t.Context(), deployment, types.MergePatchType, body, metav1.PatchOptions{}, "scale"))(t)
}

// waitPods waits until a round of requests is answered by that many pods.
func waitPods(t *testing.T, traffic *client, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("requests are answered by %d pods", want), func(ctx context.Context) error {
		pods := map[string]bool{}
		for range 12 * want {
			got, err := traffic.get(ctx, host, "/")
			if err != nil {
				return err
			}
			_, rest, _ := strings.Cut(got.body, `"pod":"`)
			pod, _, _ := strings.Cut(rest, `"`)
			pods[pod] = true
		}
		if len(pods) != want {
			return fmt.Errorf("%d pods answer: %v", len(pods), pods)
		}
		return nil
	})
}

// deleteChildren deletes one child of every kind; the operator makes it again, with another UID.
func deleteChildren(t *testing.T, namespace string) {
	t.Helper()
	for _, child := range children(namespace) {
		// A Service made again has another address, and nobody told the client; changeChild is about the Service.
		if child.kind == "Service" {
			continue
		}
		before := must.Get(child.uid(t.Context()))(t)
		must.Do(t, child.delete(t.Context()))
		eventually(t, child.kind+" is made again", func(ctx context.Context) error {
			after, err := child.uid(ctx)
			if err == nil && after == before {
				err = fmt.Errorf("%s has still UID %s", child.kind, before)
			}
			return err
		})
	}
	waitReplicas(t, namespace, childName, 1)
	waitProgrammed(t, namespace)
}

// changeChild changes a field the operator owns, which it sets back, and one it does not own, which it leaves alone.
func changeChild(t *testing.T, namespace string) {
	t.Helper()
	body := []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"me"},"annotations":{"note":"mine"}},
		"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":1234}]}}`)
	must.Get(kube.CoreV1().Services(namespace).Patch(t.Context(), childName, types.StrategicMergePatchType, body, metav1.PatchOptions{}))(t)
	eventually(t, "the Service is repaired", func(ctx context.Context) error {
		service, err := kube.CoreV1().Services(namespace).Get(ctx, childName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		label, target := service.Labels["app.kubernetes.io/managed-by"], service.Spec.Ports[0].TargetPort.IntValue()
		if label != "gateway-operator" || target != 80 {
			return fmt.Errorf("label %q, targetPort %d", label, target)
		}
		if service.Annotations["note"] != "mine" {
			t.Errorf("the operator removed an annotation that is not its own")
		}
		return nil
	})
}

func deleteGateway(t *testing.T, namespace string) {
	t.Helper()
	must.Do(t, gateways.AppV1().Gateways(namespace).Delete(t.Context(), gatewayName, metav1.DeleteOptions{}))
	for _, child := range children(namespace) {
		eventually(t, child.kind+" is gone", func(ctx context.Context) error {
			_, err := child.uid(ctx)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%s still exists (%w)", child.kind, err)
		})
	}
	eventually(t, "the proxy pods are gone", func(ctx context.Context) error {
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/gateway"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are left", len(pods.Items))
		}
		return err
	})
	// Nothing may bring them back.
	consistently(t, "the children stay gone", time.Second, func(ctx context.Context) error {
		for _, child := range children(namespace) {
			if _, err := child.uid(ctx); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is back (%w)", child.kind, err)
			}
		}
		return nil
	})
}
