package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
)

// BenchmarkChange measures what one change among many rules costs the agent, from its caches to HAProxy's answer. Each
// route has a hostname and a Service of its own, and one rule; in the last size, four. What is written to the disk a
// moment later is part of it.
func BenchmarkChange(b *testing.B) {
	for _, size := range []struct{ routes, rules int }{{10, 10}, {1000, 1000}, {4000, 4000}, {2500, 10_000}} {
		r := newPassRig(b, size.routes)
		r.repeatRules(size.rules / size.routes)
		r.agent.pass(b.Context())
		r.haproxy = haproxytest.Start(b, r.options.Paths, nil)
		r.awaitOldWorker()
		r.agent.pass(b.Context())
		b.Run(fmt.Sprintf("endpoint/rules=%d", size.rules), func(b *testing.B) {
			i := int32(0)
			r.measure(b, func() {
				i++
				slice := newSlice("service-1", 1000+i%2, newReady("127.0.0.1"))
				r.put(r.followed(testSlices), slice)
			})
		})
		b.Run(fmt.Sprintf("rule/rules=%d", size.rules), func(b *testing.B) {
			// The two share no memory, as with objects that come from the API server.
			seen, next := r.decoded(), r.decoded()
			r.measure(b, func() {
				seen, next = next, seen
				seen.Generation = r.gatewaySeen.Generation + 1
				seen.Spec.Routes[1].Rules[0].Matches[0].Path.Value = fmt.Sprint("/path-", seen.Generation)
				r.gatewaySeen = seen
				r.put(r.agent.watch.gateways, r.gatewaySeen)
				r.agent.changed()
			})
		})
	}
}

// BenchmarkHTTPRoute measures what an edit of one HTTPRoute among many costs the agent, as BenchmarkChange does:
// another path, or another Service that no route had before. Each has a hostname and a Service of its own, with five
// endpoints.
func BenchmarkHTTPRoute(b *testing.B) {
	for _, routes := range []int{300, 3000, 10_000} {
		r := newAttachedRig(b, routes)
		generation := 1
		edit := func(b *testing.B, change func(*gatewayv1.HTTPRoute)) {
			b.Helper()
			r.measure(b, func() {
				generation++
				route := r.httpRoute(7, generation)
				change(route)
				r.putRoute(route)
			})
			if got := len(r.agent.state.sure().allOrigins()); got != routes+1 {
				b.Fatalf("%d objects are live", got)
			}
		}
		b.Run(fmt.Sprint("path/routes=", routes), func(b *testing.B) { edit(b, func(*gatewayv1.HTTPRoute) {}) })
		b.Run(fmt.Sprint("service/routes=", routes), func(b *testing.B) {
			edit(b, func(route *gatewayv1.HTTPRoute) {
				route.Spec.Rules[0].BackendRefs[0].Name = gatewayv1.ObjectName(fmt.Sprint("service-", routes+generation%2))
			})
		})
	}
}

// newAttachedRig returns a rig whose Gateway has as many HTTPRoutes, and whose HAProxy runs them.
func newAttachedRig(b *testing.B, routes int) *passRig {
	b.Helper()
	r := newPassRig(b, routes)
	r.gatewaySeen.Spec.Routes = nil
	r.put(r.agent.watch.attachments, newAttachment(r.gatewaySeen, namespace, "1"))
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	r.agent.pass(b.Context())
	r.eventually("the HTTPRoutes are synced", func() error { return r.locked(r.agent.watch.isSettled) })
	for i := range routes + 2 {
		service := fmt.Sprint("service-", i)
		r.put(r.followed(testServices), newService(service))
		r.put(r.followed(testSlices), newSlice(service, 1000, newReady("127.0.0.1"), newReady("127.0.0.2"), newReady("127.0.0.3"), newReady("127.0.0.4"), newReady("127.0.0.5")))
		if i < routes {
			r.putRoute(r.httpRoute(i, 1))
		}
	}
	r.agent.pass(b.Context())
	r.haproxy = haproxytest.Start(b, r.options.Paths, nil)
	r.awaitOldWorker()
	r.agent.pass(b.Context())
	return r
}

// putRoute makes the agent see a route.
func (r *passRig) putRoute(route *gatewayv1.HTTPRoute) {
	r.put(r.followed(testRoutes), route)
}

func (r *passRig) httpRoute(i, generation int) *gatewayv1.HTTPRoute {
	name := gatewayv1.ObjectName(fmt.Sprint("service-", i))
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("route-", i), UID: types.UID(fmt.Sprint("route-", i)),
			Generation: int64(generation), ResourceVersion: fmt.Sprint(1 + i + generation*100_000),
		},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Group: ptr.To[gatewayv1.Group](appv1.GroupName), Name: gatewayN}}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("host-%d.example.com", i))},
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches:     []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: ptr.To(fmt.Sprint("/path-", generation))}}},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: name, Port: ptr.To[gatewayv1.PortNumber](80)}}}},
			}},
		},
	}
}

// passRig is a rig whose agent has no loop: whoever uses it makes its passes.
type passRig struct {
	*rig
	gatewaySeen *appv1.Gateway
}

func newPassRig(t testing.TB, routes int) *passRig {
	t.Helper()
	r := &passRig{rig: newRig(t)}
	r.options.Routes = routesfake.NewClientset()
	var err error
	r.agent, err = New(r.options)
	r.must(err)
	go r.agent.watch.run(t.Context(), r.agent.changed)
	r.eventually("the caches are synced", func() error { return r.locked(r.agent.watch.synced) })
	// The fake API server is too slow for so many objects.
	services := make([]string, routes)
	for i := range services {
		services[i] = fmt.Sprint("service-", i)
		r.put(r.followed(testServices), newService(services[i]))
		r.put(r.followed(testSlices), newSlice(services[i], 1000, newReady("127.0.0.1")))
	}
	r.gatewaySeen = &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN, UID: "uid-1", Generation: 1}, Spec: r.spec(services...),
	}
	for i := range r.gatewaySeen.Spec.Routes {
		r.gatewaySeen.Spec.Routes[i].Hostnames = []appv1.Hostname{appv1.Hostname(fmt.Sprintf("host-%d.example.com", i))}
	}
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	return r
}

// repeatRules gives each route some rules, which differ in their paths.
func (r *passRig) repeatRules(n int) {
	for i := range r.gatewaySeen.Spec.Routes {
		route := &r.gatewaySeen.Spec.Routes[i]
		for j := 1; j < n; j++ {
			rule := *route.Rules[0].DeepCopy()
			rule.Matches[0].Path.Value = fmt.Sprintf("/rule-%d", j)
			route.Rules = append(route.Rules, rule)
		}
	}
}

// locked returns an error unless something of the watches is so.
func (r *rig) locked(is func() bool) error {
	r.agent.watch.mu.Lock()
	defer r.agent.watch.mu.Unlock()
	if !is() {
		return errors.New("not yet")
	}
	return nil
}

// followed is what brings the objects of a resource in the Gateway's namespace.
func (r *rig) followed(resource string) *watched {
	return r.agent.watch.namespaces[namespace].shares[resource].of
}

func (r *passRig) put(of *watched, object any) { r.must(of.Add(object)) }

// decoded returns a copy of the Gateway.
func (r *passRig) decoded() *appv1.Gateway {
	encoded, err := json.Marshal(r.gatewaySeen)
	r.must(err)
	gateway := &appv1.Gateway{}
	r.must(json.Unmarshal(encoded, gateway))
	return gateway
}

// measure makes changes, each of which one pass has to bring to HAProxy.
func (r *passRig) measure(b *testing.B, change func()) {
	b.Helper()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		change()
		r.agent.pass(b.Context())
		r.agent.updateDisk(true)
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
	if live := r.agent.state.sure().generation(); live != r.gatewaySeen.Generation {
		b.Fatalf("generation %d is live, want %d: %v", live, r.gatewaySeen.Generation, r.agent.problems())
	}
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
