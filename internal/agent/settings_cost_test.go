package agent

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// newAttached returns a watcher whose Gateway is made for one of the Gateway API, with many HTTPRoutes.
func newAttached(routes int) *watcher {
	own := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN, UID: "uid-1", Generation: 1, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: gatewayv1.GroupName + "/v1", Kind: "Gateway", Name: "parent", Controller: ptr.To(true)},
		}},
		Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}
	objects := gatewayapi.AttachedTo(own, nil)
	objects.AddAttached(&gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "parent", UID: "uid-2", Generation: 1},
		Spec:       gatewayv1.GatewaySpec{GatewayClassName: "gateway", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}},
	})
	var f fleet
	for i := range routes {
		route := f.route(i, fmt.Sprintf("host-%d.example.com", i), "/", map[int]int32{i: 1})
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "parent", SectionName: ptr.To[gatewayv1.SectionName]("http")}}
		objects.AddAttached(route)
	}
	w := &watcher{seen: own, index: gatewayapi.NewIndex(objects)}
	w.index.Result()
	return w
}

// takeEdit takes in another Gateway, and returns what changes.
func (w *watcher) takeEdit(change func(spec *appv1.GatewaySpec)) Changes {
	gateway := w.seen.DeepCopy()
	gateway.Generation++
	change(&gateway.Spec)
	var changes Changes
	w.addAttached(gateway, nil, nil, &changes)
	return changes
}

// TestSettingsCostWhatTheyChange: settings that no route depends on cost as much with many routes as with few. All
// others do count.
func TestSettingsCostWhatTheyChange(t *testing.T) { //nolint:paralleltest // others would allocate meanwhile
	const few, many = 100, 1000
	allocations := func(routes int) float64 {
		w := newAttached(routes)
		return testing.AllocsPerRun(20, func() {
			w.takeEdit(func(spec *appv1.GatewaySpec) {
				spec.DrainTimeout = appv1.Duration(fmt.Sprintf("%ds", w.seen.Generation+1))
			})
		})
	}
	if a, b := allocations(few), allocations(many); b > 1.1*a {
		t.Errorf("other settings allocate %.0f times with %d routes, and %.0f times with %d", b, many, a, few)
	} else {
		t.Logf("other settings allocate %.0f times with %d routes, and %.0f times with %d", b, many, a, few)
	}
	w := newAttached(few)
	was := w.index.Result().For(w.seen)
	now := w.takeEdit(func(spec *appv1.GatewaySpec) { spec.DrainTimeout, spec.Replicas = "7s", ptr.To[int32](3) }).Gateway
	if now == nil || now.DrainTimeout == was.DrainTimeout || now.Routes.Len() != few || now.Origins[0].Generation != was.Origins[0].Generation+1 {
		t.Errorf("the settings are not taken in: %+v", now)
	}
	now = w.takeEdit(func(spec *appv1.GatewaySpec) { spec.Listeners[0].MaxRequestBytes = ptr.To[int64](1) }).Gateway
	if now != nil { // this watcher has no objects to look at anew
		t.Errorf("with other filters of listeners, objects are not looked at anew: %+v", now)
	}
}

// TestEditsAttachWhatTheyChange: an edit of the Gateway that the data plane is for attaches the routes of other
// listeners again, and a route of the other kind those whose hostname it has, of few or of many.
func TestEditsAttachWhatTheyChange(t *testing.T) {
	parent := gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "parent", UID: "uid-2", Generation: 2},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "gateway", Listeners: []gatewayv1.Listener{
			{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}, {Name: "more", Port: 81, Protocol: gatewayv1.HTTPProtocolType},
		}},
	}
	narrow := parent.DeepCopy()
	narrow.Generation++
	narrow.Spec.Listeners[0].Hostname = ptr.To[gatewayv1.Hostname]("*.example.com")
	grpc := &gatewayv1.GRPCRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "grpc", UID: "uid-3", Generation: 1, CreationTimestamp: metav1.Unix(1, 0)},
		Spec: gatewayv1.GRPCRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "parent"}}},
			Hostnames:       []gatewayv1.Hostname{"host-1.example.com"},
		},
	}
	for _, routes := range []int{10, 100} {
		w := newAttached(routes)
		for _, test := range []struct {
			what, resource string
			object         metav1.Object
			want           int
		}{
			{"a listener more", "gateways", &parent, 0},
			{"a route of the other kind", "grpcroutes", grpc, 2},
			{"a hostname of the listener of all", "gateways", narrow, routes + 1},
		} {
			of := &share{n: &namespaceShares{namespace: namespace}, resource: test.resource, counts: true}
			if w.updateIndex(edit{of: of, name: test.object.GetName(), now: test.object, differs: true}); w.isStale {
				t.Errorf("%s: all objects are looked at", test.what)
			}
			got := 0
			for id := range w.index.Result().Objects {
				if gatewayapi.IsRoute(id.Kind) {
					got++
				}
			}
			if got != test.want {
				t.Errorf("%s: %d of %d routes are attached again, want %d", test.what, got, routes, test.want)
			}
		}
	}
}
