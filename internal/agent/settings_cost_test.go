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
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "parent"}}
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
