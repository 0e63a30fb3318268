package ingress

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	source "gateway/internal/source/ingress"
)

// TestHostsOfOthers: nothing is made of an Ingress for a host that its namespace may not use, and it closes no path of
// another one.
func TestHostsOfOthers(t *testing.T) {
	f := newFixture(t)
	f.addIngress("a", "one", nil, "/")
	f.addIngress("b", "one", map[string]string{source.Prefix + "server-snippet": "return 403;"}, "/x")
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "web"}}
	own.Spec.AllowedHostnames = &appv1.AllowedHostnames{Rules: []appv1.HostnameRule{
		{Hostnames: []appv1.HostnamePattern{"one.test"}, Namespaces: &appv1.HostnameNamespaces{Names: []appv1.Name{"a"}}},
		{Hostnames: []appv1.HostnamePattern{"{label:host}"}},
	}}
	f.add(f.inputs.Gateways.Informer(), own)
	f.add(f.inputs.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	f.expectWrites("apply Gateway gateways/web", "apply GatewayConfig gateways/web", "apply HTTPRoute a/web-one-test")
	const told = "Warning Refused host one.test: namespace b may use no hostname, and not one.test: " +
		"see allowedHostnames.rules of the GatewayConfig of Gateway gateways/web"
	if events := f.events(); !strings.Contains(events, told) {
		t.Errorf("the events are\n%s", events)
	}
	f.add(f.inputs.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"host": "one.test"}}})
	if writes := strings.Join(f.sync(), " "); !strings.Contains(writes, "HTTPRoute b/web-one-test") {
		t.Errorf("with the host, it writes %s", writes)
	}
}
