//go:build slow

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// How long changes take to become live, from the moment before the API write to the first answer by the new state. It
// is a measurement, so it holds no bound: what is slow fails by eventually's bound only.
func TestMeasurePropagation(t *testing.T) {
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	newBackend(t, namespace, "v2", 1)
	waitReplicas(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v2", 1)

	others := otherRoutes(99)
	begin := time.Now()
	must.Get(gateways.AppV1().Gateways(namespace).Create(t.Context(),
		newGateway(append(others, route("web", rule("/", backend("v1", 1))))...), metav1.CreateOptions{}))(t)
	waitProgrammed(t, namespace)
	measure("apply to Programmed", time.Since(begin))
	traffic := newClient(t, namespace)
	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	measure("apply to first 200", time.Since(begin))

	var edits, programmed []time.Duration
	for i := range 20 {
		want := []string{"v2", "v1"}[i%2]
		begin := time.Now()
		setRoutes(t, namespace, append(others, route("web", rule("/", backend(want, 1))))...)
		traffic.awaitVersion(t, "/", want)
		edits = append(edits, time.Since(begin))
		waitProgrammed(t, namespace)
		programmed = append(programmed, time.Since(begin))
	}
	measure("route edit to live, among 100 routes", edits...)
	measure("route edit to Programmed", programmed...)
	measureEndpoints(t, namespace, traffic)
	measureMemory(t, namespace)
}

// otherRoutes are routes to v1 and v2, each for a hostname of its own.
func otherRoutes(n int) []appv1.Route {
	routes := make([]appv1.Route, n, n+1)
	for i := range routes {
		routes[i] = route(fmt.Sprintf("other-%d", i), rule("/", backend([]string{"v1", "v2"}[i%2], 1)))
		routes[i].Hostnames = []appv1.Hostname{appv1.Hostname(fmt.Sprintf("other-%d.example.com", i))}
	}
	return routes
}

// measureEndpoints moves the one endpoint of a Service between two pods, by editing its EndpointSlice.
func measureEndpoints(t *testing.T, namespace string, traffic *client) {
	t.Helper()
	must.Get(kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "moving"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	address := map[string]string{}
	for _, version := range []string{"v1", "v2"} {
		pods := must.Get(kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + version}))(t)
		address[version] = pods.Items[0].Status.PodIP
	}
	slices := kube.DiscoveryV1().EndpointSlices(namespace)
	slice := must.Get(slices.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "moving-1", Labels: map[string]string{discoveryv1.LabelServiceName: "moving"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(8080)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address["v1"]}}},
	}, metav1.CreateOptions{}))(t)
	setRoutes(t, namespace, route("web", rule("/", backend("moving", 1))))
	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")

	var changes []time.Duration
	for i := range 20 {
		want := []string{"v2", "v1"}[i%2]
		slice.Endpoints[0].Addresses = []string{address[want]}
		begin := time.Now()
		slice = must.Get(slices.Update(t.Context(), slice, metav1.UpdateOptions{}))(t)
		traffic.awaitVersion(t, "/", want)
		changes = append(changes, time.Since(begin))
	}
	measure("endpoint change to live", changes...)
}

// awaitVersion sends a request every 2 ms until the version answers. Without the pause, the requests would take the
// processors from what is measured.
func (c *client) awaitVersion(t *testing.T, path, version string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		got := must.Get(c.get(ctx, host, path))(t)
		if got.status != http.StatusOK {
			t.Fatalf("GET %s answered %d: %s", path, got.status, got.body)
		}
		if got.version == version {
			return
		}
	}
}

// measureMemory records the resident memory that the kubelet sees in our containers.
func measureMemory(t *testing.T, namespace string) {
	t.Helper()
	pod := proxyPods(t, namespace)[0]
	var summary struct {
		Pods []struct {
			PodRef     struct{ Name, Namespace string }
			Containers []struct {
				Name   string
				Memory struct{ RssBytes int64 }
			}
		}
	}
	eventually(t, "the kubelet has measured the proxy pod", func(ctx context.Context) error {
		raw, err := kube.CoreV1().RESTClient().Get().Resource("nodes").Name(pod.Spec.NodeName).
			SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &summary); err != nil {
			return err
		}
		for _, p := range summary.Pods {
			if p.PodRef.Name == pod.Name && len(p.Containers) >= 2 && p.Containers[0].Memory.RssBytes > 0 {
				return nil
			}
		}
		return fmt.Errorf("no memory of pod %s in the summary yet", pod.Name)
	})
	for _, p := range summary.Pods {
		if p.PodRef.Name != pod.Name && p.PodRef.Namespace != operatorNamespace {
			continue
		}
		for _, container := range p.Containers {
			record("idle memory of "+container.Name, fmt.Sprintf("%.1f MiB", float64(container.Memory.RssBytes)/(1<<20)))
		}
	}
}
