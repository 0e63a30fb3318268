package agent

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"gateway/internal/routing/routingtest"
)

// TestGather: whatever changes between two passes, the agent wants what one wants that has seen nothing before.
func TestGather(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	r := newPassRig(t, 4)
	for i := range 300 {
		for range 1 + g.IntN(3) {
			r.change(g)
		}
		r.agent.observeInputs(t.Context(), time.Now())
		fresh, err := New(r.options)
		r.must(err)
		seen := r.agent.watch
		fresh.source = (&watcher{namespace: namespace, name: gatewayN, gateways: seen.gateways, namespaces: seen.namespaces}).source()
		fresh.observeInputs(t.Context(), time.Now())
		if got, want := r.agent.wanted.config, fresh.wanted.config; !reflect.DeepEqual(got, want) {
			t.Fatalf("pass %d: got\n%+v\nwant\n%+v", i, got, want)
		}
	}
}

// change changes a rule, a Service or its endpoints.
func (r *passRig) change(g *routingtest.Generator) {
	name, watch := fmt.Sprint("service-", g.IntN(4)), r.agent.watch
	service := newService(name)
	switch g.IntN(5) {
	case 0:
		slice := newSlice(name, g.Int32N(3)+1000, newReady("127.0.0.1"))
		r.put(watch.namespaces[namespace].slices, slice)
		watch.touch(slice)
	case 1:
		r.must(watch.namespaces[namespace].services.GetStore().Delete(service))
		watch.touch(service)
	case 2:
		r.put(watch.namespaces[namespace].services, service)
		watch.touch(service)
	default:
		r.gatewaySeen = r.gatewaySeen.DeepCopy()
		r.gatewaySeen.Generation++
		rule := &r.gatewaySeen.Spec.Routes[g.IntN(4)].Rules[0]
		rule.Matches[0].Path.Value = fmt.Sprint("/path-", g.IntN(3))
		if g.IntN(2) == 0 {
			rule.BackendRefs[0].Name = name
		}
		r.put(watch.gateways, r.gatewaySeen)
	}
}
