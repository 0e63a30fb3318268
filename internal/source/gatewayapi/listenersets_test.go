package gatewayapi_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testtier"
)

// teams are ListenerSets of teams, and routes at them, that change at random.
type teams struct {
	*rand.Rand
	objects  gatewayapi.Objects
	sets     map[int]*gatewayv1.ListenerSet
	routes   map[int]*gatewayv1.HTTPRoute
	reported map[gatewayapi.Subject]bool
	grants   []*gatewayv1.ReferenceGrant
	noLogin  bool
	edits    int64
}

const mostSets = 12

// at returns the objects that there are.
func (w *teams) at() gatewayapi.Objects {
	objects := w.objects
	for i := range mostSets {
		if w.sets[i] != nil {
			objects.Add(w.sets[i])
		}
		if w.routes[i] != nil {
			objects.Add(w.routes[i])
		}
	}
	return objects
}

func (w *teams) named(i int) metav1.ObjectMeta {
	w.edits++
	name := fmt.Sprint("site-", i)
	return metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i%3), Name: name, UID: types.UID(name), Generation: w.edits}
}

// set returns a ListenerSet, in which a few listeners conflict with others or ask for more than there may be.
func (w *teams) set(i int) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: w.named(i)}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace("infra")), Name: "shared"}
	if w.IntN(12) == 0 {
		set.Spec.ParentRef.Name = gatewayv1.ObjectName([]string{"other", "nobody's"}[w.IntN(2)])
	}
	for j := range 1 + w.IntN(3) {
		l := gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprint("host-", j)), Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
			Hostname: ptr.To(gatewayv1.Hostname(fmt.Sprintf("h%d.site-%d.example.com", w.IntN(3), i))),
			TLS:      &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(fmt.Sprint("tls-", w.IntN(4)))}}},
		}
		switch w.IntN(20) {
		case 0:
			l.Hostname = ptr.To(gatewayv1.Hostname("shared.example.com"))
		case 1:
			l.Port = gatewayv1.PortNumber(1000 + w.IntN(4))
		case 2:
			l.Protocol, l.TLS = gatewayv1.HTTPProtocolType, nil
		case 3:
			l.Protocol, l.TLS.Mode, l.TLS.CertificateRefs = gatewayv1.TLSProtocolType, ptr.To(gatewayv1.TLSModePassthrough), nil
		case 4:
			l.TLS.CertificateRefs[0].Namespace = ptr.To(gatewayv1.Namespace("granting"))
		case 5:
			from := gatewayv1.NamespacesFromSelector
			selector := []metav1.LabelSelector{{}, {MatchLabels: map[string]string{"team": "a"}}, {MatchLabels: map[string]string{"team": "b"}}}[w.IntN(3)]
			l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from, Selector: &selector}}
		case 6:
			login := gatewayv1.BackendObjectReference{Namespace: ptr.To(gatewayv1.Namespace("granting")), Name: "login", Port: ptr.To[int32](80)}
			l.Filters = &gatewayv1.ListenerFilters{Requests: []gatewayv1.ListenerFilter{{Type: gatewayv1.ListenerFilterExternalAuth, ExternalAuth: &gatewayv1.HTTPExternalAuthFilter{
				ExternalAuthProtocol: gatewayv1.HTTPRouteExternalAuthHTTPProtocol, BackendRef: login,
			}}}}
		}
		set.Spec.Listeners = append(set.Spec.Listeners, l)
	}
	return set
}

func (w *teams) route(i int) *gatewayv1.HTTPRoute {
	route := &gatewayv1.HTTPRoute{ObjectMeta: w.named(i)}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: gatewayv1.ObjectName(route.Name)}}
	if w.IntN(4) == 0 {
		route.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("h%d.site-%d.example.com", w.IntN(3), i))}
	}
	return route
}

// edit makes a random edit, and lets an index know.
func (w *teams) edit(x *gatewayapi.Index) string {
	i := w.IntN(mostSets)
	id := gatewayapi.Object{Kind: "ListenerSet", Namespace: fmt.Sprint("team-", i%3), Name: fmt.Sprint("site-", i)}
	switch n := w.IntN(10); {
	case n == 4:
		name, of := fmt.Sprint("team-", i%3), labels.Set{"team": []string{"a", "b"}[w.IntN(2)], "other": fmt.Sprint(i)}
		w.objects.Namespaces = maps.Clone(w.objects.Namespaces)
		w.objects.Namespaces[name] = of
		x.ChangeNamespace(name, of)
		return fmt.Sprintf("labels of %s: %v", name, of)
	case n == 5:
		if len(w.objects.Grants) > 0 {
			w.objects.Grants = nil
		} else {
			w.objects.Grants = w.grants
		}
		id := gatewayapi.Object{Kind: "ReferenceGrant", Namespace: "granting", Name: "g"}
		if len(w.objects.Grants) > 0 {
			x.Change(id, w.grants[0])
		} else {
			x.Change(id, nil)
		}
		return fmt.Sprintf("%d grants", len(w.objects.Grants))
	case n == 6:
		w.noLogin = !w.noLogin
		x.ChangeService("granting", "login")
		return fmt.Sprintf("no Service: %t", w.noLogin)
	case n == 0 && w.sets[i] != nil:
		delete(w.sets, i)
		x.Change(id, nil)
		return fmt.Sprint("no set ", i)
	case n == 1:
		w.routes[i], id.Kind = w.route(i), "HTTPRoute"
		x.Change(id, w.routes[i])
		return fmt.Sprint("route ", i)
	case n == 2:
		delete(w.routes, i)
		id.Kind = "HTTPRoute"
		x.Change(id, nil)
		return fmt.Sprint("no route ", i)
	case n == 3 && len(w.reported) > 0:
		all := slices.SortedFunc(maps.Keys(w.reported), func(a, b gatewayapi.Subject) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		of := all[w.IntN(len(all))]
		w.reported[of] = !w.reported[of]
		x.ChangeReported(of.Plane.Namespace, gatewayapi.LocalName(of.Plane.Namespace, of.Namespace, of.Name))
		return fmt.Sprintf("a report of %+v", of)
	}
	w.sets[i] = w.set(i)
	x.Change(id, w.sets[i])
	return fmt.Sprintf("set %d: %+v", i, w.sets[i].Spec)
}

// TestSetsChangeOneByOne: after random edits of ListenerSets, an index has what a translation of all objects has. Most
// edits are not about the statuses of other ListenerSets.
func TestSetsChangeOneByOne(t *testing.T) { //nolint:funlen // one story
	t.Parallel()
	for n := range 6 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := &teams{
				Rand: rand.New(rand.NewPCG(testtier.Seed(t), uint64(n))), objects: withSets(0), sets: map[int]*gatewayv1.ListenerSet{},
				routes: map[int]*gatewayv1.HTTPRoute{}, reported: map[gatewayapi.Subject]bool{},
			}
			w.objects.MaxCertificates = []int{0, 6, 100}[n%3]
			if n >= 3 {
				w.objects.ListenerFilters.MaxRequestBytes = ptr.To[int64](1)
			}
			if n%2 == 1 {
				w.objects.Hostnames = &appv1.AllowedHostnames{Ownership: appv1.HostnameOwnershipFirst}
			}
			if n == 4 {
				w.objects.Hostnames = &appv1.AllowedHostnames{Rules: []appv1.HostnameRule{{
					Hostnames:  []appv1.HostnamePattern{"*.example.com"},
					Namespaces: &appv1.HostnameNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
				}}}
			}
			if n == 5 {
				w.objects.Budget = &appv1.NamespaceBudget{Certificates: ptr.To[int32](8)}
			}
			other := w.objects.Gateways[0].DeepCopy()
			other.Name = "other"
			w.objects.Gateways = append(w.objects.Gateways, other)
			w.objects.Namespaces = map[string]labels.Set{}
			w.grants = []*gatewayv1.ReferenceGrant{{ObjectMeta: metav1.ObjectMeta{Namespace: "granting", Name: "g"}, Spec: gatewayv1.ReferenceGrantSpec{
				From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "ListenerSet", Namespace: "team-1"}},
				To:   []gatewayv1.ReferenceGrantTo{{Kind: "Secret"}, {Kind: "Service"}},
			}}}
			w.objects.Grants = w.grants
			w.objects.Service = func(_, _ string) (*corev1.Service, bool) {
				if w.noLogin {
					return nil, true
				}
				return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, true
			}
			w.objects.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
				isReported := w.reported[of]
				if w.reported[of] = isReported; isReported {
					return gatewayapi.Report{Problem: "it is missing"}
				}
				return gatewayapi.Report{}
			}
			index := gatewayapi.NewIndex(w.at())
			index.Result()
			before, alone := gatewayapi.Translate(w.at()), 0
			e := &edited{there: map[gatewayapi.Object]metav1.Object{}}
			// Most edits are of other kinds, so there are as many as it takes.
			for m := 0; m < 6*edits || alone < edits/6 && w.objects.MaxCertificates != 6; m++ {
				if m == 60*edits {
					t.Fatalf("of %d edits, %d changed one ListenerSet alone", m, alone)
				}
				what := fmt.Sprintf("edit %d, %s", m, w.edit(index))
				got, want := index.Result(), gatewayapi.Translate(w.at())
				compareResults(t, what, got, want)
				w.compareBudget(t, what, got)
				clear(e.there)
				all := w.at()
				all.Each(func(kind string, object metav1.Object) {
					e.there[gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}] = object
				})
				e.compareChanges(t, what, got.Changes, before, want)
				if before = want; t.Failed() {
					return
				}
				sets := 0
				for id := range maps.Keys(got.Objects) {
					if id.Kind == "ListenerSet" {
						sets++
					}
				}
				if got.NewPlanes && sets == 1 {
					alone++
				}
			}
		})
	}
}

// compareBudget compares which listeners are refused for their certificates with what a key server keeps from pods.
func (w *teams) compareBudget(t *testing.T, what string, result *gatewayapi.Result) {
	t.Helper()
	statuses, own := result.Status(nil, allLive{}).ListenerSets, &appv1.Gateway{Spec: appv1.GatewaySpec{NamespaceBudget: w.objects.Budget}}
	for _, gateway := range []string{"shared", "other"} {
		sets := map[string][]*gatewayv1.ListenerSet{}
		for _, set := range w.sets {
			if string(set.Spec.ParentRef.Name) == gateway {
				sets[set.Namespace] = append(sets[set.Namespace], set)
			}
		}
		for namespace, all := range sets {
			within := gatewayapi.WithinBudget(own, all)
			for _, set := range all {
				left := map[gatewayv1.SectionName]bool{}
				for i := range within[set.Name].Spec.Listeners {
					left[within[set.Name].Spec.Listeners[i].Name] = true
				}
				for _, of := range statuses[types.NamespacedName{Namespace: namespace, Name: set.Name}].Listeners {
					c := meta.FindStatusCondition(of.Conditions, string(gatewayv1.ListenerConditionAccepted))
					if isBeyond := c.Reason == string(appv1.ReasonBudgetExceeded); isBeyond && left[of.Name] || !left[of.Name] && c.Status == metav1.ConditionTrue {
						t.Errorf("%s: listener %s of %s is within the budget: %t, and %s: %s", what, of.Name, set.Name, left[of.Name], c.Reason, c.Message)
					}
				}
			}
		}
	}
}

// TestListenersAreAsOldAsTheirSet: what is bounded goes to older ones first.
func TestListenersAreAsOldAsTheirSet(t *testing.T) {
	t.Parallel()
	objects := withSets(2)
	objects.ListenerSets[0].CreationTimestamp = metav1.Unix(5, 0)
	for _, plane := range gatewayapi.Translate(objects).Planes {
		for i := range plane.Listeners {
			of := plane.Listeners[i]
			want := map[string]int64{"Gateway": 0, "ListenerSet": 1}[of.Origin.Kind]
			if of.Origin.Name == objects.ListenerSets[0].Name && want > 0 {
				want = 5
			}
			if of.Since != want {
				t.Errorf("listener %s of %s %s is of %d, want %d", of.Name, of.Origin.Kind, of.Origin.Name, of.Since, want)
			}
		}
	}
}
