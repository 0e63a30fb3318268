package agent

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/endpoints"
	"gateway/internal/model"
	"gateway/internal/routing/routingtest"
	"gateway/internal/tree"
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
		fresh.source = (&watcher{namespace: namespace, name: gatewayN, gateways: seen.gateways, attachments: seen.attachments, namespaces: seen.namespaces, watches: seen.watches, clock: seen.clock}).source()
		fresh.observeInputs(t.Context(), time.Now())
		if got, want := r.agent.wanted.config, fresh.wanted.config; !reflect.DeepEqual(got, want) {
			t.Fatalf("pass %d: got\n%+v\nwant\n%+v", i, got, want)
		}
	}
}

// TestServicePortsThatDiffer: a Service port is looked at again where its protocol or its endpoints changed, or where
// it came or went, and only there.
func TestServicePortsThatDiffer(t *testing.T) {
	t.Parallel()
	backend := model.Backend{Namespace: namespace, Service: "api", Port: 80}
	uses := tree.Map[model.Backend]{}.Edit()
	uses.Set(backend.String(), backend)
	in := inputs{}
	in.table.Uses.Backends = uses.Map()
	http2 := func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = new("kubernetes.io/h2c") }
	one, two := newSlice("api", 1, newReady("127.0.0.1")), newSlice("api", 2, newReady("127.0.0.1"))
	for i, step := range []struct {
		service *corev1.Service
		slice   *discoveryv1.EndpointSlice
		changed bool
	}{
		{newService("api"), one, true}, {newService("api"), one, false}, {newService("api", http2), one, true}, {newService("api", http2), two, true},
		{newService("api", http2), two, false}, {newService("api"), two, true}, {nil, two, true}, {nil, one, false},
		{newService("api"), newSlice("api", 1), true}, {newService("api"), one, true},
	} {
		changed := in.observeServices([]types.NamespacedName{{Namespace: namespace, Name: "api"}}, endpoints.Cluster{
			Service: func(string, string) *corev1.Service { return step.service },
			Slices:  func(string, string) []*discoveryv1.EndpointSlice { return []*discoveryv1.EndpointSlice{step.slice} },
		})
		if (len(changed) > 0) != step.changed {
			t.Errorf("step %d: these changed: %v", i, changed)
		}
	}
}

// TestNewProblems: a problem that stays is logged once, however often its object and others are edited.
func TestNewProblems(t *testing.T) {
	t.Parallel()
	problem := func(name string, generation int64, message string) model.Problem {
		return model.Problem{Origin: model.Origin{Kind: "HTTPRoute", Name: name, Generation: generation}, Message: message}
	}
	in := inputs{}
	for i, step := range []struct{ problems, logged []model.Problem }{
		{[]model.Problem{problem("a", 1, "wrong")}, []model.Problem{problem("a", 1, "wrong")}},
		{[]model.Problem{problem("a", 1, "wrong"), problem("b", 1, "wrong")}, []model.Problem{problem("b", 1, "wrong")}},
		{[]model.Problem{problem("a", 2, "wrong"), problem("b", 2, "worse")}, []model.Problem{problem("b", 2, "worse")}},
		{[]model.Problem{problem("b", 2, "worse")}, nil},
		{[]model.Problem{problem("a", 2, "wrong"), problem("b", 2, "worse")}, []model.Problem{problem("a", 2, "wrong")}},
	} {
		if logged := in.newProblems(step.problems); !slices.Equal(logged, step.logged) {
			t.Errorf("step %d logs %v, want %v", i, logged, step.logged)
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
		r.put(r.followed(testSlices), slice)
	case 1:
		r.must(r.followed(testServices).Delete(service))
	case 2:
		r.put(r.followed(testServices), service)
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
