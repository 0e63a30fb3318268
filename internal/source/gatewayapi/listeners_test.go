package gatewayapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// TestAsManyListenersAsThereMayBe: a Gateway of our own kind with 64 listeners serves routes at each.
func TestAsManyListenersAsThereMayBe(t *testing.T) {
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "own"}}
	for i := range 64 {
		own.Spec.Listeners = append(own.Spec.Listeners, appv1.Listener{
			Name: appv1.Name(fmt.Sprintf("l%d", i)), Port: 80, Protocol: appv1.ProtocolHTTP, Hostname: appv1.Hostname(fmt.Sprintf("l%d.io", i)),
		})
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r"}}
	group, kind := gatewayv1.Group(appv1.GroupName), gatewayv1.Kind("Gateway")
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Group: &group, Kind: &kind, Name: "own"}}
	seen := gatewayapi.Objects{Own: []*appv1.Gateway{own}}
	seen.Add(route)
	plane := gatewayapi.Translate(seen).For(own)
	if plane == nil || len(plane.Listeners) != 64 || plane.Routes.Len() != 1 || len(slices.Collect(plane.Routes.Values())[0].Listeners) != 64 {
		t.Errorf("got %+v, want a route at 64 listeners", plane)
	}
}

// withSets are a Gateway that allows ListenerSets, and n of them, of 5 to a namespace. Each has listeners of 4 hosts
// with certificates, and a route.
func withSets(n int) gatewayapi.Objects {
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared"}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "ours", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
	}}
	objects := gatewayapi.Objects{
		Classes: []*gatewayv1.GatewayClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName},
		}},
		Gateways: []*gatewayv1.Gateway{gateway},
	}
	for i := range n {
		objects.Add(newSet(i))
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i/5), Name: fmt.Sprintf("site-%d", i)}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: gatewayv1.ObjectName(fmt.Sprintf("site-%d", i))}}
		objects.Add(route)
	}
	return objects
}

func newSet(i int) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i/5), Name: fmt.Sprintf("site-%d", i)}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace("infra")), Name: "shared"}
	for j := range 4 {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprintf("host-%d", j)), Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
			Hostname: ptr.To(gatewayv1.Hostname(fmt.Sprintf("h%d.site-%d.example.com", j, i))),
			TLS:      &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(fmt.Sprintf("tls-%d-%d", i, j))}}},
		})
	}
	return set
}

// TestManyListenerSets: 10,000 listeners of 2,500 ListenerSets are served at one Gateway. Our own Gateway has two
// ports, and agents see all listeners. Without a limit of mounts, all ListenerSets are Programmed.
func TestManyListenerSets(t *testing.T) {
	const sets = 2500
	objects := withSets(sets)
	result := gatewayapi.Translate(objects)
	parent := gatewayapi.GatewayParent("infra", "shared")
	spec := result.DataPlanes()[0].Spec
	if len(spec.Listeners) != 2 || spec.Listeners[0].Name != "http" || spec.Listeners[1].Port != 443 || len(spec.Listeners[1].TLS.CertificateRefs) != appv1.MaxMounted {
		t.Errorf("our own Gateway has %d listeners, want one for each of the ports 80 and 443, with the certificates that there is room for", len(spec.Listeners))
	}
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared", OwnerReferences: ownedBy("shared")}, Spec: *spec}
	agents := gatewayapi.AttachedTo(own, result.Attachments(parent, gatewayapi.WatchedResources))
	objects.Each(func(_ string, object metav1.Object) { agents.AddAttached(object) })
	agent := gatewayapi.Translate(agents).For(own)
	for who, plane := range map[string]*struct{ listeners, routes int }{
		"operator": {len(result.Planes[parent].Listeners), result.Planes[parent].Routes.Len()}, "agents": {len(agent.Listeners), agent.Routes.Len()},
	} {
		if plane.listeners != 4*sets+1 || plane.routes != sets {
			t.Errorf("%s: there are %d listeners and %d routes, want %d and %d", who, plane.listeners, plane.routes, 4*sets+1, sets)
		}
	}
	status := result.Status(nil, allLive{})
	if got := *status.Gateways[types.NamespacedName{Namespace: "infra", Name: "shared"}].AttachedListenerSets; got != sets {
		t.Errorf("the Gateway has %d ListenerSets, want %d", got, sets)
	}
	for name, set := range status.ListenerSets {
		if !meta.IsStatusConditionTrue(set.Conditions, "Programmed") || len(set.Listeners) != 4 || set.Listeners[3].AttachedRoutes != 1 ||
			!meta.IsStatusConditionTrue(set.Listeners[3].Conditions, "Programmed") {
			t.Fatalf("ListenerSet %s: got the status %+v", name, set)
		}
	}
}

// TestMorePortsThanThereMayBe: the listeners of the 65th port are refused, whoever brings them, and others of an
// earlier port are not.
func TestMorePortsThanThereMayBe(t *testing.T) {
	objects := withSets(1)
	set := objects.ListenerSets[0]
	set.Spec.Listeners = nil
	for port := range int32(64) {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprintf("tcp-%d", 1000+port)), Port: 1000 + port, Protocol: gatewayv1.TCPProtocolType,
		})
	}
	objects.Gateways[0].Spec.Listeners = append(objects.Gateways[0].Spec.Listeners, gatewayv1.Listener{
		Name: "more", Port: 80, Hostname: ptr.To(gatewayv1.Hostname("more.example.com")), Protocol: gatewayv1.HTTPProtocolType,
	})
	status := gatewayapi.Translate(objects).Status(nil, allLive{}).ListenerSets[types.NamespacedName{Namespace: "team-0", Name: "site-0"}]
	for i, listener := range status.Listeners {
		c := meta.FindStatusCondition(listener.Conditions, "Accepted")
		if isLast := i == 63; (c.Status == metav1.ConditionFalse) != isLast || isLast && (c.Reason != "PortUnavailable" || !strings.Contains(c.Message, "at most 64 ports")) {
			t.Errorf("listener %s: got %+v", listener.Name, c)
		}
	}
}

// TestMoreCertificatesThanPodsMount: what the pods do not mount is named in the status of who asks for it. What they
// mount goes on, and so does a listener that names a mounted certificate again.
func TestMoreCertificatesThanPodsMount(t *testing.T) {
	objects := withSets(3)
	objects.MaxCertificates = 6
	objects.ListenerSets[2].Spec.Listeners[3].TLS.CertificateRefs[0] = gatewayv1.SecretObjectReference{
		Name: "tls-0-0", Namespace: ptr.To(gatewayv1.Namespace("team-0")),
	}
	status := gatewayapi.Translate(objects).Status(nil, allLive{})
	for i, want := range []string{"TTTT", "TTFF", "FFFT"} {
		got := ""
		for _, listener := range status.ListenerSets[types.NamespacedName{Namespace: "team-0", Name: fmt.Sprintf("site-%d", i)}].Listeners {
			resolved := meta.FindStatusCondition(listener.Conditions, "ResolvedRefs")
			got += string(resolved.Status[:1])
			isWrong := resolved.Status == metav1.ConditionFalse
			if isWrong && !strings.Contains(resolved.Message, "mount at most 6 certificates") || isWrong == meta.IsStatusConditionTrue(listener.Conditions, "Programmed") {
				t.Errorf("ListenerSet site-%d, listener %s: got %+v", i, listener.Name, listener.Conditions)
			}
		}
		if got != want {
			t.Errorf("ListenerSet site-%d: ResolvedRefs of its listeners is %s, want %s", i, got, want)
		}
	}
}

// TestOnePortOfListeners: a port of our own Gateway has the certificates of all its listeners, and terminates TLS if
// any of them does: it may have HTTP/3.
func TestOnePortOfListeners(t *testing.T) {
	objects := withSets(0)
	https := func(name string, secrets ...string) gatewayv1.Listener {
		l := gatewayv1.Listener{
			Name: gatewayv1.SectionName(name), Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: ptr.To(gatewayv1.Hostname(name + ".example.com")),
			TLS: &gatewayv1.ListenerTLSConfig{},
		}
		for _, secret := range secrets {
			l.TLS.CertificateRefs = append(l.TLS.CertificateRefs, gatewayv1.SecretObjectReference{Name: gatewayv1.ObjectName(secret)})
		}
		return l
	}
	passed := gatewayv1.Listener{
		Name: "passed", Port: 443, Protocol: gatewayv1.TLSProtocolType, Hostname: ptr.To(gatewayv1.Hostname("passed.example.com")),
		TLS: &gatewayv1.ListenerTLSConfig{Mode: ptr.To(gatewayv1.TLSModePassthrough)},
	}
	objects.Gateways[0].Spec.Listeners = []gatewayv1.Listener{passed, https("empty"), https("a", "one", "two"), https("b", "two", "four")}
	ports := gatewayapi.Translate(objects).DataPlanes()[0].Spec.Listeners
	want := []appv1.ObjectReference{{Name: "four"}, {Name: "one"}, {Name: "two"}}
	if len(ports) != 1 || ports[0].Name != "passed" || ports[0].Protocol != appv1.ProtocolHTTPS || !slices.Equal(ports[0].TLS.CertificateRefs, want) || ports[0].Hostname != "" {
		t.Errorf("got the ports %+v, want 443 for HTTPS with the certificates %v", ports, want)
	}
}
