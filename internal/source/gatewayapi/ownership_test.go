package gatewayapi_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testtier"
)

// TestHostnamePatterns: rules let a namespace use what they say with its name and its labels, and no more.
func TestHostnamePatterns(t *testing.T) {
	team := labels.Set{"team": "blue", "site": "blue.org", "odd": "Not_A_Host", "empty": "", "example.com/tier": "gold"}
	for _, test := range []struct {
		pattern, selector string
		allowed, refused  []string
	}{
		{pattern: "*.{namespace}.io", allowed: []string{"www.a.io", "*.a.io", "*.b.a.io", "x.b.a.io"}, refused: []string{"", "a.io", "www.b.io", "*.io", "wwwa.io", "*.aa.io"}},
		{pattern: "a.io", allowed: []string{"a.io"}, refused: []string{"", "*.a.io", "www.a.io", "a.io.a", "ba.io"}},
		{pattern: "{label:team}-{namespace}.io", allowed: []string{"blue-a.io"}, refused: []string{"blue-b.io", "red-a.io"}},
		{pattern: "*.{label:site}", allowed: []string{"www.blue.org", "*.blue.org"}, refused: []string{"blue.org", "www.red.org"}},
		{pattern: "{label:example.com/tier}.io", allowed: []string{"gold.io"}, refused: []string{"silver.io"}},
		{pattern: "{label:odd}.io", refused: []string{"Not_A_Host.io", "not_a_host.io", ".io", "io"}},
		{pattern: "{label:none}.io", refused: []string{".io", "io", "none.io"}},
		{pattern: "*.{label:none}io", refused: []string{"a.io", "io", ""}},
		{pattern: "api{label:none}.io", refused: []string{"api.io", "apinone.io"}},
		{pattern: "{namespace}{label:empty}.io", refused: []string{"a.io"}},
		{pattern: "*", allowed: []string{"", "*.io", "a.io"}},
		{pattern: "*.io", selector: "blue", allowed: []string{"a.io"}},
		{pattern: "*.io", selector: "red", refused: []string{"a.io"}},
	} {
		rule := appv1.HostnameRule{Hostnames: []appv1.HostnamePattern{appv1.HostnamePattern(test.pattern)}}
		if test.selector != "" {
			rule.Namespaces = &appv1.HostnameNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": test.selector}}}
		}
		got := gatewayapi.PatternsOf([]appv1.HostnameRule{rule}, "a", team)
		for hostname, want := range wanted(test.allowed, test.refused) {
			if slices.ContainsFunc(got, func(pattern string) bool { return gatewayapi.Includes(pattern, hostname) }) != want {
				t.Errorf("%q, which is %q for the namespace, includes %q: want %t", test.pattern, got, hostname, want)
			}
		}
	}
}

func wanted(yes, no []string) map[string]bool {
	all := map[string]bool{}
	for _, one := range yes {
		all[one] = true
	}
	for _, one := range no {
		all[one] = false
	}
	return all
}

// world is random objects of several namespaces at one Gateway, and what the owner says of hostnames.
type world struct {
	*rand.Rand
	gatewayapi.Objects
	config appv1.AllowedHostnames
	budget *appv1.NamespaceBudget
	// conflicts is whether listeners may be in conflict.
	conflicts bool
}

var (
	// hostnames have no label z: each wildcard has a host of its own.
	hostnames  = []string{"", "*.io", "*.a.io", "*.b.io", "a.io", "b.io", "a.a.io", "b.a.io", "*.b.a.io", "a.b.io"}
	namespaces = []string{"infra", "a", "b", "c"}
)

// allHosts are those below io with up to three labels, of which some are in no hostname.
func allHosts() []string {
	all := []string{"io"}
	for first := 0; len(all) < 1+3+9+27; first++ {
		for _, label := range []string{"a", "b", "z"} {
			all = append(all, label+"."+all[first])
		}
	}
	return append(all, "z")
}

func newWorld(random *rand.Rand, conflicts bool) *world {
	w := &world{Rand: random, conflicts: conflicts}
	for range w.IntN(4) {
		rule := appv1.HostnameRule{Hostnames: []appv1.HostnamePattern{"*.{namespace}.io"}}
		for range w.IntN(4) {
			pattern := appv1.HostnamePattern(w.pick(hostnames, "{label:site}", "*.{label:site}"))
			if pattern == "" {
				pattern = "*"
			}
			rule.Hostnames = append(rule.Hostnames, pattern)
		}
		switch w.IntN(3) {
		case 0:
			rule.Namespaces = &appv1.HostnameNamespaces{Names: []appv1.Name{appv1.Name(w.pick(namespaces))}}
		case 1:
			rule.Namespaces = &appv1.HostnameNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": w.pick(hostnames[4:8])}}}
		}
		w.config.Rules = append(w.config.Rules, rule)
	}
	if w.IntN(3) > 0 {
		w.config.Ownership = appv1.HostnameOwnershipFirst
	}
	w.Namespaces = map[string]labels.Set{}
	for _, name := range namespaces {
		w.Namespaces[name] = labels.Set{"site": w.pick(hostnames[4:8], "X_Y")}
	}
	w.addObjects()
	return w
}

func (w *world) pick(from []string, more ...string) string {
	from = slices.Concat(from, more)
	return from[w.IntN(len(from))]
}

func (w *world) addObjects() {
	all := gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}
	port := int32(8000)
	listener := func(name, hostname string) gatewayv1.Listener {
		if port++; w.conflicts {
			port = 8000 + w.Int32N(2)
		}
		return gatewayv1.Listener{
			Name: gatewayv1.SectionName(name), Port: port, Protocol: gatewayv1.HTTPProtocolType, Hostname: ptr.To(gatewayv1.Hostname(hostname)),
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &all},
		}
	}
	age := func(kind string, i int, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint(kind, i), UID: types.UID(fmt.Sprint(kind, i)), Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Unix(int64(w.IntN(5)), 0)),
		}
	}
	w.Classes = []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName}}}
	w.Gateways = []*gatewayv1.Gateway{{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared"}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "ours", AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
		Listeners:      []gatewayv1.Listener{listener("any", ""), listener("narrow", w.pick(hostnames))},
		Infrastructure: &gatewayv1.GatewayInfrastructure{ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "shared"}},
	}}}
	w.Config = func(string, string) *appv1.GatewayConfig {
		return &appv1.GatewayConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared"}, Spec: appv1.GatewayConfigSpec{AllowedHostnames: &w.config}}
	}
	for i := range w.IntN(3) {
		set := &gatewayv1.ListenerSet{ObjectMeta: age("set", i, w.pick(namespaces))}
		set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: "shared", Namespace: ptr.To[gatewayv1.Namespace]("infra")}
		for j := range 1 + w.IntN(2) {
			set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry(listener(fmt.Sprint("l", j), w.pick(hostnames))))
		}
		w.ListenerSets = append(w.ListenerSets, set)
	}
	for i := range 1 + w.IntN(8) {
		route := &gatewayv1.HTTPRoute{ObjectMeta: age("route", i, w.pick(namespaces))}
		route.Labels = w.forSomebody()
		for range w.IntN(3) {
			if hostname := gatewayv1.Hostname(w.pick(hostnames)); hostname != "" && !slices.Contains(route.Spec.Hostnames, hostname) {
				route.Spec.Hostnames = append(route.Spec.Hostnames, hostname)
			}
		}
		ref := gatewayv1.ParentReference{Name: "shared", Namespace: ptr.To[gatewayv1.Namespace]("infra")}
		if w.IntN(3) == 0 {
			ref.SectionName = ptr.To[gatewayv1.SectionName]("narrow")
		}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{ref}
		if w.IntN(3) == 0 && len(w.ListenerSets) > 0 {
			set := w.ListenerSets[w.IntN(len(w.ListenerSets))]
			route.Spec.ParentRefs[0] = gatewayv1.ParentReference{Kind: ptr.To[gatewayv1.Kind]("ListenerSet"), Name: gatewayv1.ObjectName(set.Name), Namespace: ptr.To(gatewayv1.Namespace(set.Namespace))}
		}
		w.HTTPRoutes = append(w.HTTPRoutes, route)
	}
}

// hosts are a set.
type hosts map[string]bool

// of returns the hosts that a hostname stands for.
func of(hostname string) hosts {
	all := hosts{}
	for _, host := range allHosts() {
		suffix, isWildcard := strings.CutPrefix(hostname, "*")
		if hostname == "" || hostname == host || isWildcard && strings.HasSuffix(host, suffix) {
			all[host] = true
		}
	}
	return all
}

func (h hosts) and(other hosts) hosts {
	both := hosts{}
	for host := range h {
		if other[host] {
			both[host] = true
		}
	}
	return both
}

func (h hosts) add(other hosts) {
	for host := range other {
		h[host] = true
	}
}

// specification is what is accepted, by names of objects and listeners, in terms of hosts alone.
func (w *world) specification() map[string]bool {
	accepted := map[string]bool{}
	owned := map[string]hosts{} // by namespace
	for _, name := range namespaces {
		owned[name] = hosts{}
	}
	type one struct {
		metav1.Object
		decide func()
	}
	var all []one
	isFree := func(namespace string, wanted hosts) bool {
		for other := range owned {
			if other != namespace && len(owned[other].and(wanted)) > 0 {
				return namespace == "infra"
			}
		}
		return true
	}
	for _, set := range w.ListenerSets {
		all = append(all, one{set, func() {
			for _, l := range set.Spec.Listeners {
				wanted := of(string(*l.Hostname))
				isOwners := set.Namespace == "infra"
				ok := w.allows(set.Namespace, wanted) && (isOwners || w.config.Ownership == "" || isFree(set.Namespace, wanted))
				if accepted[set.Name+"/"+string(l.Name)] = ok; ok && !isOwners {
					owned[set.Namespace].add(wanted)
				}
			}
		}})
	}
	for _, route := range w.HTTPRoutes {
		all = append(all, one{route, func() { w.decide(route, accepted, owned, isFree) }})
	}
	// A route at a ListenerSet waits for it, and takes nothing from anybody. The owner's sets take nothing either.
	slices.SortStableFunc(all, func(a, b one) int {
		rank := func(o one) string {
			late := "0"
			if route, ok := o.Object.(*gatewayv1.HTTPRoute); ok && route.Spec.ParentRefs[0].Kind != nil && *route.Spec.ParentRefs[0].Namespace != "infra" {
				late = "1"
			}
			if set, ok := o.Object.(*gatewayv1.ListenerSet); ok && set.Namespace == "infra" {
				late = " "
			}
			return fmt.Sprintf("%s%d/%s/%s", late, o.GetCreationTimestamp().Unix(), o.GetNamespace(), o.GetName())
		}
		return strings.Compare(rank(a), rank(b))
	})
	for _, one := range all {
		one.decide()
	}
	return accepted
}

// decide decides about a route whose parent has been decided on.
func (w *world) decide(route *gatewayv1.HTTPRoute, accepted map[string]bool, owned map[string]hosts, isFree func(string, hosts) bool) {
	ref, own := route.Spec.ParentRefs[0], hosts{}
	var listeners []string
	if ref.Kind == nil {
		for _, l := range w.Gateways[0].Spec.Listeners {
			if ref.SectionName == nil || *ref.SectionName == l.Name {
				listeners = append(listeners, string(*l.Hostname))
			}
		}
	}
	for _, set := range w.ListenerSets {
		for _, l := range set.Spec.Listeners {
			if ref.Kind != nil && set.Name == string(ref.Name) && accepted[set.Name+"/"+string(l.Name)] {
				listeners = append(listeners, string(*l.Hostname))
			}
		}
	}
	wanted, exact := hosts{}, hosts{}
	for _, hostname := range append(slices.Clone(route.Spec.Hostnames), []gatewayv1.Hostname{""}[min(len(route.Spec.Hostnames), 1):]...) {
		for _, l := range listeners {
			both := of(l).and(of(string(hostname)))
			if wanted.add(both); len(both) == 1 {
				exact.add(both)
			}
		}
	}
	isOwners, namespace := *ref.Namespace == "infra", namespaceOf(route)
	ok := len(wanted) > 0 && w.allows(namespace, wanted) && (!isOwners || w.config.Ownership == "" || isFree(namespace, wanted))
	accepted[route.Name] = ok
	switch {
	case !ok || !isOwners || w.config.Ownership == "":
		return
	case namespace == "infra":
		own.add(exact)
	default:
		own.add(wanted)
	}
	owned[namespace].add(own)
}

// allows reports whether rules let a namespace have all of some hosts.
func (w *world) allows(namespace string, wanted hosts) bool {
	allowed := hosts{}
	for _, rule := range w.config.Rules {
		if at := rule.Namespaces; at != nil && !slices.Contains(at.Names, appv1.Name(namespace)) && (at.Selector == nil || at.Selector.MatchLabels["site"] != w.Namespaces[namespace]["site"]) {
			continue
		}
		for _, pattern := range rule.Hostnames {
			hostname := strings.NewReplacer("{namespace}", namespace, "{label:site}", w.Namespaces[namespace]["site"]).Replace(string(pattern))
			if hostname == "*" {
				hostname = ""
			}
			allowed.add(of(hostname))
		}
	}
	return w.config.Rules == nil || len(allowed.and(wanted)) == len(wanted)
}

// TestOwnershipSpecification compares which routes and listeners are accepted with a specification in terms of hosts,
// and what agents serve with it, who see some of the objects. It does not matter in which order objects come.
func TestOwnershipSpecification(t *testing.T) {
	t.Parallel()
	testtier.Seed(t)
	refused, all := 0, 0
	for i := range uint64(ownershipWorlds) {
		w := newWorld(rand.New(rand.NewPCG(testtier.Seed(t), i)), i%4 == 0)
		result, want := gatewayapi.Translate(w.Objects), w.specification()
		got := acceptedIn(result)
		for name := range want {
			if w.conflicts {
				break // the specification knows none
			}
			if all++; !want[name] {
				refused++
			}
			if got[name] != want[name] {
				t.Fatalf("world %d: %s is accepted: %t, want %t\nrules %+v\nobjects %+v", i, name, got[name], want[name], w.config, w)
			}
		}
		routes := w.HTTPRoutes
		w.HTTPRoutes = nil
		index := gatewayapi.NewIndex(w.Objects)
		index.Result()
		w.HTTPRoutes = routes
		for _, n := range w.Perm(len(routes)) {
			index.Change(gatewayapi.Object{Kind: "HTTPRoute", Namespace: routes[n].Namespace, Name: routes[n].Name}, routes[n])
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

// ownershipWorlds is how many worlds a test makes.
var ownershipWorlds = 400

// acceptedIn returns the routes and listeners of ListenerSets that are accepted.
func acceptedIn(result *gatewayapi.Result) map[string]bool {
	accepted, status := map[string]bool{}, result.Status(nil, allLive{})
	for id, parents := range status.Routes {
		accepted[id.Name] = meta.IsStatusConditionTrue(parents[0].Conditions, string(gatewayv1.RouteConditionAccepted))
	}
	for id, set := range status.ListenerSets {
		for _, l := range set.Listeners {
			accepted[id.Name+"/"+string(l.Name)] = meta.IsStatusConditionTrue(l.Conditions, string(gatewayv1.ListenerConditionAccepted))
		}
	}
	return accepted
}

// compareAgent compares the routes of a data plane with its agents' routes, which come from the objects that
// attachments name.
func compareAgent(t *testing.T, objects gatewayapi.Objects, result *gatewayapi.Result) {
	t.Helper()
	plane := result.DataPlanes()[0]
	if plane.Spec == nil {
		return // there are no pods
	}
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{
		Namespace: plane.Gateway.Namespace, Name: plane.Name,
		Labels: plane.Labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: plane.Gateway.Name, Controller: ptr.To(true),
		}},
	}, Spec: *plane.Spec}
	parent := gatewayapi.GatewayParent(plane.Gateway.Namespace, plane.Gateway.Name)
	attachments := result.Attachments(parent, gatewayapi.WatchedResources)
	seen := gatewayapi.AttachedTo(own, attachments)
	seen.AddAttached(plane.Gateway)
	objects.Each(func(kind string, object metav1.Object) {
		if slices.Contains(attachments[object.GetNamespace()].Resources, strings.ToLower(kind)+"s") {
			seen.AddAttached(object)
		}
	})
	agents := gatewayapi.Translate(seen).For(own)
	if agents == nil {
		t.Fatal("the agents know nothing of the Gateway")
	}
	got, want := served(slices.Collect(agents.Routes.Values())), served(slices.Collect(result.Planes[parent].Routes.Values()))
	if !slices.Equal(got, want) {
		t.Errorf("the agents serve %q, want %q", got, want)
	}
}

// served lists routes with their listeners and hostnames.
func served(routes []*model.Route) []string {
	var all []string
	for _, route := range routes {
		all = append(all, fmt.Sprint(route.Kind, " ", route.Name, " at ", route.Listeners, " for ", route.Hostnames))
	}
	return all
}

// TestAgentsSeeUnservedClaims: a hostname belongs to a route that no listener serves, so agents have to see it.
func TestAgentsSeeUnservedClaims(t *testing.T) {
	w := &world{Rand: rand.New(rand.NewPCG(1, 1)), config: appv1.AllowedHostnames{Ownership: appv1.HostnameOwnershipFirst}}
	w.addObjects()
	w.ListenerSets = nil
	listeners := w.Gateways[0].Spec.Listeners
	twin := listeners[0]
	twin.Name = "twin"
	w.Gateways[0].Spec.Listeners = append(listeners[:1], twin, gatewayv1.Listener{
		Name: "good", Port: 80, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: twin.AllowedRoutes,
	})
	w.HTTPRoutes = nil
	for i, section := range []gatewayv1.SectionName{"twin", "good"} {
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[1+i], Name: fmt.Sprint("route", i)}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "shared", Namespace: ptr.To[gatewayv1.Namespace]("infra"), SectionName: &section}}
		route.Spec.Hostnames = []gatewayv1.Hostname{"a.io"}
		w.HTTPRoutes = append(w.HTTPRoutes, route)
	}
	w.HTTPRoutes[1].CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	// The agents see the namespace of the younger one for another route.
	other := w.HTTPRoutes[1].DeepCopy()
	other.Name, other.Spec.Hostnames = "other", []gatewayv1.Hostname{"b.io"}
	w.HTTPRoutes = append(w.HTTPRoutes, other)
	result := gatewayapi.Translate(w.Objects)
	if accepted := acceptedIn(result); accepted["route0"] || accepted["route1"] || !accepted["other"] {
		t.Errorf("accepted are %v", accepted)
	}
	compareAgent(t, w.Objects, result)
}

// TestOwnRoutesOfListeners: a route in a Gateway of our own kind has the hostname of its listener, if it has none.
func TestOwnRoutesOfListeners(t *testing.T) {
	all := &appv1.AllowedRoutes{Namespaces: appv1.RouteNamespaces{From: appv1.NamespacesFromAll}}
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "own"}, Spec: appv1.GatewaySpec{
		AllowedHostnames: &appv1.AllowedHostnames{Ownership: appv1.HostnameOwnershipFirst},
		Listeners: []appv1.Listener{
			{Name: "one", Port: 80, Protocol: "HTTP", Hostname: "own.io", AllowedRoutes: all},
			{Name: "many", Port: 80, Protocol: "HTTP", Hostname: "*.io", AllowedRoutes: all},
		},
		Routes: []appv1.Route{
			{Name: "own", Listeners: []appv1.Name{"one"}, Rules: []appv1.RouteRule{{}}},
			{Name: "wide", Listeners: []appv1.Name{"many"}, Rules: []appv1.RouteRule{{}}},
		},
	}}
	w := &world{}
	w.Own = []*appv1.Gateway{own}
	for _, hostname := range []gatewayv1.Hostname{"own.io", "other.io"} {
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: string(hostname)}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{
			Group: ptr.To[gatewayv1.Group](appv1.GroupName), Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "own",
		}}
		route.Spec.Hostnames = []gatewayv1.Hostname{hostname}
		w.HTTPRoutes = append(w.HTTPRoutes, route)
	}
	if accepted := acceptedIn(gatewayapi.Translate(w.Objects)); accepted["own.io"] || !accepted["other.io"] {
		t.Errorf("accepted are %v", accepted)
	}
}
