package gatewayapi_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testtier"
)

// budgeted are routes of random sizes, of the owner and two other namespaces.
func budgeted(random *rand.Rand) (*world, *appv1.NamespaceBudget) {
	w := &world{Rand: random}
	w.addGateway()
	spec := &appv1.NamespaceBudget{
		Routes: ptr.To(random.Int32N(6)), Rules: ptr.To(random.Int32N(10)), Expressions: ptr.To(random.Int32N(6)), HeaderNames: ptr.To(random.Int32N(4)),
	}
	w.Config = func(string, string) *appv1.GatewayConfig {
		return &appv1.GatewayConfig{Spec: appv1.GatewayConfigSpec{NamespaceBudget: spec}}
	}
	for i := range 1 + random.IntN(9) {
		kind := w.pick([]string{"HTTPRoute", "HTTPRoute", "HTTPRoute", "TLSRoute"})
		named := metav1.ObjectMeta{
			Namespace: w.pick(namespaces[:3]), Name: fmt.Sprint("o", i), UID: types.UID(fmt.Sprint(i)), Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Unix(int64(random.IntN(4)), 0)), Labels: w.forSomebody(),
		}
		w.addRoute(kind, named)
	}
	return w, spec
}

func (w *world) addRoute(kind string, named metav1.ObjectMeta) {
	parents := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "shared"}}}
	if kind == "TLSRoute" {
		w.TLSRoutes = append(w.TLSRoutes, &gatewayv1.TLSRoute{ObjectMeta: named, Spec: gatewayv1.TLSRouteSpec{
			CommonRouteSpec: parents, Hostnames: []gatewayv1.Hostname{"w.a.io"}, Rules: []gatewayv1.TLSRouteRule{{}},
		}})
		return
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: named, Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: parents}}
	for range 1 + w.IntN(4) {
		match := gatewayv1.HTTPRouteMatch{}
		if w.IntN(2) == 0 {
			match.Headers = []gatewayv1.HTTPHeaderMatch{{Name: gatewayv1.HTTPHeaderName(w.pick([]string{"x-a", "x-b", "x-c", "X-A"})), Value: "a"}}
			if w.IntN(3) == 0 {
				match.Headers[0].Type = ptr.To(gatewayv1.HeaderMatchRegularExpression)
			}
		}
		if w.IntN(4) == 0 {
			match.QueryParams = []gatewayv1.HTTPQueryParamMatch{{Name: gatewayv1.HTTPHeaderName(w.pick([]string{"x-a", "X-A", "b"})), Value: "a"}}
		}
		if w.IntN(3) == 0 {
			match.Path = &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchRegularExpression), Value: ptr.To("/a")}
		}
		route.Spec.Rules = append(route.Spec.Rules, gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{match}})
	}
	w.HTTPRoutes = append(w.HTTPRoutes, route)
}

// forSomebody returns the labels of a route: some are for another namespace.
func (w *world) forSomebody() map[string]string {
	if w.IntN(3) > 0 {
		return nil
	}
	return map[string]string{gatewayapi.LabelFor: w.pick(namespaces)}
}

// namespaceOf is the namespace whose hostnames and budget a route uses: in the Gateway's, its label may name another.
func namespaceOf(route metav1.Object) string {
	if of := route.GetLabels()[gatewayapi.LabelFor]; of != "" && route.GetNamespace() == "infra" {
		return of
	}
	return route.GetNamespace()
}

// withinBudget is which routes are accepted, in terms of the routes alone: the oldest first, each with all it has.
func (w *world) withinBudget(spec *appv1.NamespaceBudget) map[string]bool {
	accepted, objects := map[string]bool{}, []metav1.Object{}
	for _, route := range w.HTTPRoutes {
		objects = append(objects, route)
	}
	for _, route := range w.TLSRoutes {
		objects = append(objects, route)
	}
	slices.SortFunc(objects, func(a, b metav1.Object) int {
		key := func(o metav1.Object) string {
			return fmt.Sprint(o.GetCreationTimestamp().Unix(), o.GetNamespace(), o.GetName())
		}
		return strings.Compare(key(a), key(b))
	})
	for i, object := range objects {
		taken := slices.DeleteFunc(slices.Clone(objects[:i]), func(o metav1.Object) bool { return namespaceOf(o) != namespaceOf(object) || !accepted[o.GetName()] })
		with := func(of func(r *gatewayv1.HTTPRoute, names map[string]bool) int32) (most, own int32) {
			names := map[string]bool{}
			for _, o := range append(taken, object) {
				route, _ := o.(*gatewayv1.HTTPRoute)
				own = of(route, names)
				most += own
			}
			return most, own
		}
		fits := true
		for _, bound := range []struct {
			most int32
			of   func(r *gatewayv1.HTTPRoute, names map[string]bool) int32
		}{
			{*spec.Routes, func(*gatewayv1.HTTPRoute, map[string]bool) int32 { return 1 }},
			{*spec.Rules, func(r *gatewayv1.HTTPRoute, _ map[string]bool) int32 {
				if r == nil {
					return 1
				}
				return int32(len(r.Spec.Rules)) //nolint:gosec // there are few
			}},
			{*spec.Expressions, func(r *gatewayv1.HTTPRoute, _ map[string]bool) (n int32) { return expressionsOf(r) }},
			{*spec.HeaderNames, newNames},
		} {
			all, own := with(bound.of)
			fits = fits && (all <= bound.most || own == 0)
		}
		accepted[object.GetName()] = fits || namespaceOf(object) == "infra"
	}
	return accepted
}

func expressionsOf(r *gatewayv1.HTTPRoute) (n int32) {
	if r == nil {
		return 0
	}
	for _, rule := range r.Spec.Rules {
		for _, match := range rule.Matches {
			if match.Path != nil && match.Path.Type != nil {
				n++
			}
			for _, header := range match.Headers {
				if header.Type != nil {
					n++
				}
			}
		}
	}
	return n
}

// newNames returns how many names of headers and parameters a route has that others have not.
func newNames(r *gatewayv1.HTTPRoute, names map[string]bool) (n int32) {
	if r == nil {
		return 0
	}
	for _, rule := range r.Spec.Rules {
		for _, match := range rule.Matches {
			for _, header := range match.Headers {
				if name := strings.ToLower(string(header.Name)); !names[name] {
					names[name] = true
					n++
				}
			}
			for _, param := range match.QueryParams {
				if name := "parameter " + string(param.Name); !names[name] {
					names[name] = true
					n++
				}
			}
		}
	}
	return n
}

// TestBudgets compares which routes are accepted with a specification, and what agents serve with it. It does not
// matter in which order routes come, nor whether some were there for a while.
func TestBudgets(t *testing.T) {
	t.Parallel()
	testtier.Seed(t)
	refused, all := 0, 0
	for i := range uint64(ownershipWorlds) {
		w, spec := budgeted(rand.New(rand.NewPCG(testtier.Seed(t), i)))
		result := gatewayapi.Translate(w.Objects)
		got, want := acceptedIn(result), w.withinBudget(spec)
		for name := range want {
			if all++; !want[name] {
				refused++
			}
			if got[name] != want[name] {
				t.Fatalf("world %d: %s is accepted: %t, want %t", i, name, got[name], want[name])
			}
		}
		routes, empty := w.HTTPRoutes, w.Objects
		empty.HTTPRoutes = nil
		index := gatewayapi.NewIndex(empty)
		index.Result()
		for _, n := range append(w.Perm(len(routes)), w.Perm(len(routes))...) {
			id := gatewayapi.Object{Kind: "HTTPRoute", Namespace: routes[n].Namespace, Name: routes[n].Name}
			if index.Change(id, routes[n]); w.IntN(4) == 0 {
				index.Result()
				index.Change(id, nil)
				index.Result()
				index.Change(id, routes[n])
			}
			index.Result()
		}
		compareResults(t, fmt.Sprintf("the routes of world %d, one by one", i), index.Result(), result)
		compareAgent(t, w.Objects, result)
		if t.Failed() {
			return
		}
	}
	if refused < all/10 || refused > all*9/10 {
		t.Errorf("%d of %d are refused, which says little", refused, all)
	}
}
