package ingress

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"gateway/internal/must"
	source "gateway/internal/source/ingress"
)

// panicking makes the translation of an Ingress panic.
func (f *fixture) panicking(faulty *networkingv1.Ingress) {
	f.translate = func(in source.Input) *source.Result {
		if slices.Contains(in.Ingresses, faulty) {
			panic("a test")
		}
		return source.Translate(in)
	}
}

// TestFaultyIngressKeepsItsHost: without a path that has guards, its requests would reach another Ingress of the host.
func TestFaultyIngressKeepsItsHost(t *testing.T) {
	f := newFixture(t)
	admin := f.addIngress("a", "admin", limit, "/admin")
	site, other := f.addIngress("a", "site", nil, "/"), f.addIngress("b", "other", nil, "/")
	site.Spec.Rules[0].Host = admin.Spec.Rules[0].Host
	f.sync()
	guarded := f.specs()
	f.panicking(admin)
	f.expectWrites()
	events := f.events()
	for _, want := range []string{"it makes the operator panic, and what was made of it stays", "Waiting another Ingress of its host makes the operator panic"} {
		if !strings.Contains(events, want) {
			t.Errorf("no event has %q:\n%s", want, events)
		}
	}
	// An edit of the host has to wait; others do not.
	site.Spec.Rules[0].HTTP.Paths[0].Path = "/admin"
	other.Spec.Rules[0].HTTP.Paths[0].Path = "/new"
	f.expectWrites("apply HTTPRoute b/web-other-test")
	if got := f.specs(); got["a/web-admin-test"] != guarded["a/web-admin-test"] || got["b/web-other-test"] == guarded["b/web-other-test"] {
		t.Errorf("got %v, where it was %v", got, guarded)
	}
	// The objects that the host needs stay, whatever becomes of its other Ingresses.
	for range 2 {
		must.Do(t, f.ingresses.GetStore().Delete(site))
		later := f.now().Add(2 * settling)
		f.now = func() time.Time { return later }
		f.expectWrites()
	}
	f.translate = source.Translate
	f.expectWrites("apply HTTPRoute a/web-admin-test")
}

// TestFaultyIngressKeepsListeners: so do the certificates of its hosts, and what others need of it.
func TestFaultyIngressKeepsListeners(t *testing.T) {
	f := newFixture(t)
	one, two := f.addIngress("a", "one", nil, "/"), f.addIngress("b", "two", nil, "/two")
	one.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"one.test"}, SecretName: "one-tls"}}
	two.Spec.Rules[0].Host = "one.test"
	three := f.addIngress("a", "three", nil, "/")
	three.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"three.test"}, SecretName: "three-tls"}}
	f.sync()
	for _, faulty := range []*networkingv1.Ingress{one, two} {
		f.panicking(faulty)
		f.expectWrites()
	}
	// A host with a name that is written in the same way takes none of its objects.
	f.panicking(one)
	same := f.addIngress("a", "same", nil, "/")
	same.Spec.Rules[0].Host = "one-test"
	f.expectWrites()
}

// TestFaultyIngressBesideGateways: a class with several Gateways goes on, and each host stays at its own.
func TestFaultyIngressBesideGateways(t *testing.T) {
	f := newFixture(t)
	add := func(namespace, name string) *networkingv1.Ingress {
		ingress := f.addIngress(namespace, name, map[string]string{source.Prefix + "auth-tls-secret": namespace + "/ca"}, "/")
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{name + ".test"}, SecretName: "tls"}}
		return ingress
	}
	two, one := add("b", "two"), add("a", "one")
	f.sync()
	before := f.specs()
	for _, faulty := range []*networkingv1.Ingress{one, two} {
		f.panicking(faulty)
		f.expectWrites()
	}
	f.panicking(one)
	two.Spec.Rules[0].HTTP.Paths[0].Path = "/new"
	f.expectWrites("apply HTTPRoute b/web-two-test")
	add("c", "three")
	f.expectWrites("apply Gateway gateways/web-04", "apply HTTPRoute c/web-three-test", "apply HTTPRoute c/web-three-test-redirect", "apply ListenerSet c/web-04")
	for name, spec := range f.specs() {
		if name != home+"/web" && name != "b/web-two-test" && before[name] != "" && before[name] != spec { // two objects are web
			t.Errorf("%s was %s, and is %s", name, before[name], spec)
		}
	}
}
