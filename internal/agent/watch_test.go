package agent

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestWhatIsNews: Services are looked at again when something that is read of them changed, and only then.
func TestWhatIsNews(t *testing.T) {
	handlers := func(w *watcher) cache.ResourceEventHandlerFuncs { return onChange(w.touch) }
	service := func(change func(*corev1.Service)) func(w *watcher) {
		return func(w *watcher) { handlers(w).UpdateFunc(newService("api"), newService("api", change)) }
	}
	slice := func(change func(*discoveryv1.EndpointSlice)) func(w *watcher) {
		changed := newSlice("api", 8080, newReady("10.0.0.1"))
		change(changed)
		return func(w *watcher) { handlers(w).UpdateFunc(newSlice("api", 8080, newReady("10.0.0.1")), changed) }
	}
	for name, test := range map[string]struct {
		happens func(w *watcher)
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
		"the end of one was not seen": {
			func(w *watcher) { handlers(w).DeleteFunc(cache.DeletedFinalStateUnknown{Obj: newService("api")}) }, []string{"api"},
		},
	} {
		woken := false
		w := &watcher{touched: map[types.NamespacedName]bool{}, changed: func() { woken = true }}
		test.happens(w)
		var got []string
		for service := range w.touched {
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
		woken := false
		w := &watcher{events: map[objectKey]event{}, changed: func() { woken = true }}
		before := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{UID: "uid-1", Generation: 1, ResourceVersion: "1"}}
		after := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{UID: test.uid, Generation: test.generation, ResourceVersion: "2"}}
		if w.onResource(&watched{}).UpdateFunc(before, after); woken != test.woken {
			t.Errorf("%s: woken %t", name, woken)
		}
	}
}
