package agent

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/endpoints"
)

// TestWhatIsNews: Services are looked at again when something that is read of them changed, and only then.
func TestWhatIsNews(t *testing.T) {
	service := func(change func(*corev1.Service)) func(r *guardRig) {
		return func(r *guardRig) { r.put(newService("api", change)) }
	}
	slice := func(change func(*discoveryv1.EndpointSlice)) func(r *guardRig) {
		changed := newSlice("api", 8080, newReady("10.0.0.1"))
		change(changed)
		return func(r *guardRig) { r.put(changed) }
	}
	for name, test := range map[string]struct {
		happens func(r *guardRig)
		want    []string
	}{
		"a Service's version":         {service(func(s *corev1.Service) { s.ResourceVersion = "2" }), nil},
		"a Service's port":            {service(func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), []string{"api"}},
		"a slice's version":           {slice(func(s *discoveryv1.EndpointSlice) { s.ResourceVersion = "2" }), nil},
		"an endpoint is not ready":    {slice(func(s *discoveryv1.EndpointSlice) { *s.Endpoints[0].Conditions.Ready = false }), []string{"api"}},
		"endpoints have another port": {slice(func(s *discoveryv1.EndpointSlice) { *s.Ports[0].Port = 81 }), []string{"api"}},
		"a slice changed its Service": {
			slice(func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "shop" }), []string{"api", "shop"},
		},
		"a slice is of a ServiceImport, too": {
			slice(func(s *discoveryv1.EndpointSlice) { s.Labels[endpoints.LabelServiceImport] = "shop" }), []string{"ServiceImport.shop", "api"},
		},
		"the end of one was not seen": {func(r *guardRig) { r.see(testServices) }, []string{"api"}},
	} {
		r := newGuardRig()
		r.put(newService("api"))
		r.put(newSlice("api", 8080, newReady("10.0.0.1")))
		r.takeIn()
		woken := false
		r.changed = func() { woken = true }
		test.happens(r)
		var got []string
		for service := range maps.Keys(servicesOf(r.takeIn())) {
			got = append(got, service.Name)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) || woken != (test.want != nil) {
			t.Errorf("%s: got %q, woken %t, want %q", name, got, woken, test.want)
		}
	}
}

// TestStatusesWakeNobody: the operator writes one for each change of a route.
func TestStatusesWakeNobody(t *testing.T) {
	for name, test := range map[string]struct {
		uid        types.UID
		generation int64
		woken      bool
	}{
		"its status": {"uid-1", 1, false}, "its spec": {"uid-1", 2, true}, "another one of its name": {"uid-2", 1, true},
	} {
		r := newGuardRig()
		r.add(testRoutes)
		r.put(&gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: "uid-1", Generation: 1, ResourceVersion: "1"}})
		woken := false
		r.changed = func() { woken = true }
		r.put(&gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: test.uid, Generation: test.generation, ResourceVersion: "2"}})
		if woken != test.woken {
			t.Errorf("%s: woken %t", name, woken)
		}
	}
}
