package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// secureHost is an Ingress with a host that has a certificate.
func secureHost(namespace, host, annotations string) string {
	text := pathOf(namespace, label(host, maxLabel), host, "/", annotations)
	return strings.Replace(text, "spec: {", fmt.Sprintf("spec: {tls: [{hosts: [%q], secretName: tls}], ", host), 1)
}

// takeOver adds to the next translation what this one has made.
func takeOver(in *Input, result *Result) {
	in.Gateways, in.ListenerSets = nil, nil
	for _, object := range objects[*gatewayv1.Gateway](result) {
		in.Gateways = append(in.Gateways, ReadGateway(object))
	}
	for _, set := range objects[*gatewayv1.ListenerSet](result) {
		in.ListenerSets = append(in.ListenerSets, ReadListenerSet(set))
	}
}

// placesOf are the ListenerSets of hosts, with the Gateway.
func placesOf(result *Result) map[string]string {
	all := map[string]string{}
	for _, set := range objects[*gatewayv1.ListenerSet](result) {
		for i := range set.Spec.Listeners {
			all[string(*set.Spec.Listeners[i].Hostname)] += fmt.Sprintf("%s/%s at %s ", set.Namespace, set.Name, set.Spec.ParentRef.Name)
		}
	}
	return all
}

// parentsOf are the parents of routes, by host.
func parentsOf(result *Result) map[string]string {
	all := map[string]string{}
	for _, route := range objects[*gatewayv1.HTTPRoute](result) {
		for _, ref := range route.Spec.ParentRefs {
			all[string(route.Spec.Hostnames[0])] += fmt.Sprintf("%s %s ", ptr.Deref(ref.Kind, "Gateway"), ref.Name)
		}
	}
	return all
}

func hostsOf(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("h%03d.test", i))
	}
	return all
}

// TestMoreHostsThanListeners: a class has one Gateway for any number of hosts with certificates. A ListenerSet has up
// to 64 of them.
func TestMoreHostsThanListeners(t *testing.T) {
	var text strings.Builder
	for _, host := range hostsOf(0, 200) {
		text.WriteString(secureHost("b", host, ""))
	}
	result := convertText(t, text.String())
	gateways, sets := objects[*gatewayv1.Gateway](result), objects[*gatewayv1.ListenerSet](result)
	if len(gateways) != 1 || len(sets) != 4 {
		t.Fatalf("got %d Gateways and %d ListenerSets", len(gateways), len(sets))
	}
	for i, set := range sets {
		want := fmt.Sprintf("ingress-%02d", i+1)
		if n := len(set.Spec.Listeners); n > maxListeners || set.Name != want && i > 0 || set.Spec.ParentRef.Name != "ingress" {
			t.Errorf("ListenerSet %s at %s has %d listeners, want %s", set.Name, set.Spec.ParentRef.Name, n, want)
		}
	}
	places, parents := placesOf(result), parentsOf(result)
	for _, host := range hostsOf(0, 200) {
		set, _, _ := strings.Cut(strings.TrimPrefix(places[host], "b/"), " ")
		if want := "Gateway ingress ListenerSet " + set + " "; parents[host] != want {
			t.Errorf("%s has the parents %s, want %s", host, parents[host], want)
		}
	}
	if len(result.Notes) != 0 {
		t.Errorf("got the notes %q", result.Notes)
	}
}

// TestHostsStay: no host changes its ListenerSet when others come and go.
func TestHostsStay(t *testing.T) {
	var in Input
	translate := func(hosts []string) *Result {
		var text strings.Builder
		for _, host := range hosts {
			text.WriteString(secureHost("b", host, ""))
		}
		next := parseText(t, text.String())
		next.Serving, next.Gateways, next.ListenerSets = true, in.Gateways, in.ListenerSets
		result := Translate(next)
		takeOver(&in, result)
		return result
	}
	before := placesOf(translate(hostsOf(0, 140)))
	for _, hosts := range [][]string{hostsOf(30, 140), hostsOf(30, 190), slices.Concat(hostsOf(0, 1), hostsOf(30, 300))} {
		after := placesOf(translate(hosts))
		for host, place := range after {
			if before[host] != "" && before[host] != place {
				t.Errorf("with %d hosts, %s moves from %s to %s", len(hosts), host, before[host], place)
			}
		}
		if len(after) != len(hosts) {
			t.Errorf("%d of %d hosts have listeners", len(after), len(hosts))
		}
		before = after
	}
	if len(in.Gateways) != 1 || len(in.ListenerSets) > 5 {
		t.Errorf("there are %d Gateways and %d ListenerSets", len(in.Gateways), len(in.ListenerSets))
	}
}

// TestAuthoritiesStay: the Gateway for an authority keeps its name when hosts of others go.
func TestAuthoritiesStay(t *testing.T) {
	clients := func(namespace, verify string) string {
		return secureHost(namespace, namespace+verify+".test", fmt.Sprintf("%[1]sauth-tls-secret: %[2]s/ca, %[1]sauth-tls-verify-client: %[3]q", Prefix, namespace, verify))
	}
	in := parseText(t, clients("b", "on")+clients("c", "on")+clients("c", "optional"))
	before := Translate(in)
	places := placesOf(before)
	rest := parseText(t, clients("c", "on")+clients("c", "optional")+clients("d", "on"))
	takeOver(&rest, before)
	after := Translate(rest)
	got := placesOf(after)
	for _, host := range []string{"con.test", "coptional.test"} {
		if got[host] != places[host] {
			t.Errorf("%s moves from %s to %s", host, places[host], got[host])
		}
	}
	if want := "d/ingress-05 at ingress-05 "; got["don.test"] != want {
		t.Errorf("another authority is at %s, want %s", got["don.test"], want)
	}
	if len(after.Earlier) > 0 {
		t.Errorf("Gateways are of an earlier release: %q", after.Earlier)
	}
}

// TestEarlierGateways: hosts of further Gateways, which an earlier release made, are at the one Gateway, too. They
// leave the others when these are deleted.
func TestEarlierGateways(t *testing.T) {
	text := secureHost("b", "one.test", "") + secureHost("b", "two.test", "") + secureHost("c", "three.test", Prefix+"ssl-passthrough: 'true'") + secureHost("c", "new.test", "")
	in := parseText(t, text)
	at := func(namespace, gateway string, hostnames ...string) MadeListenerSet {
		return MadeListenerSet{types.NamespacedName{Namespace: namespace, Name: gateway}, gateway, hostnames}
	}
	in.Gateways = []MadeGateway{{Name: "ingress-03"}, {Name: "ingress"}, {Name: "ingress-02"}, {Name: "ingress-04", Authority: "ca"}}
	in.ListenerSets = []MadeListenerSet{at("b", "ingress", "one.test"), at("b", "ingress-02", "two.test"), at("c", "ingress-03", "three.test"), at("c", "ingress-04", "new.test")}
	result := Translate(in)
	want := map[string]string{
		"one.test": "b/ingress at ingress ", "two.test": "b/ingress at ingress b/ingress-02 at ingress-02 ",
		"three.test": "c/ingress at ingress c/ingress-03 at ingress-03 ", "new.test": "c/ingress at ingress ",
	}
	if got := placesOf(result); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := parentsOf(result)["two.test"], "Gateway ingress Gateway ingress-02 ListenerSet ingress ListenerSet ingress-02 "; got != want {
		t.Errorf("the parents are %s, want %s", got, want)
	}
	if routes := objects[*gatewayv1.TLSRoute](result); len(routes) != 1 || len(routes[0].Spec.ParentRefs) != 2 {
		t.Errorf("got the routes %+v", routes)
	}
	if !slices.Equal(result.Earlier, []string{"ingress-02", "ingress-03"}) || len(objects[*gatewayv1.Gateway](result)) != 3 {
		t.Errorf("Gateways of an earlier release are %q", result.Earlier)
	}
	wantNote := fmt.Sprintf(earlierGateway, "ingress")
	if notes := result.Notes; len(notes) < 2 || notes[0].Text != wantNote || notes[0].Object != (Subject{"Gateway", home, "ingress-02"}) {
		t.Errorf("got the notes %q", notes)
	}
	in = parseText(t, text)
	takeOver(&in, result)
	in.Gateways = in.Gateways[:1]
	result = Translate(in)
	want["two.test"], want["three.test"] = "b/ingress at ingress ", "c/ingress at ingress "
	if got := placesOf(result); fmt.Sprint(got) != fmt.Sprint(want) || len(result.Earlier) > 0 {
		t.Errorf("once they are deleted, got %v, and %q", got, result.Earlier)
	}
}

// BenchmarkTranslate measures what hosts with certificates cost, of 500 namespaces.
func BenchmarkTranslate(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint("hosts=", hosts), func(b *testing.B) {
			in := Input{Name: "ingress", Namespace: home, Serving: true}
			for i, host := range hostsOf(0, hosts) {
				in.Ingresses = append(in.Ingresses, ingressOf(fmt.Sprintf("n%d", i%500), host))
			}
			for b.Loop() {
				Translate(in)
			}
		})
	}
}

// ingressOf is an Ingress of a host with a certificate.
func ingressOf(namespace, host string) *networkingv1.Ingress {
	kind := networkingv1.PathTypePrefix
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: &kind, Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
	}}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: label(host, maxLabel)}}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "tls"}}
	ingress.Spec.Rules = []networkingv1.IngressRule{{
		Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}},
	}}
	return ingress
}
