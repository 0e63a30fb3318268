package ingress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gateway/internal/must"
	"gateway/internal/operator/children"
	source "gateway/internal/source/ingress"
)

// class is the IngressClass of a fixture.
func (f *fixture) class() *networkingv1.IngressClass {
	return list[*networkingv1.IngressClass](f.classes)[0]
}

// TestWhatWaitsStays: nothing of a class changes while it waits, or after it was adopted, whatever its Ingresses say.
func TestWhatWaitsStays(t *testing.T) {
	for name, wait := range map[string]func(class *networkingv1.IngressClass){
		"without its ConfigMap": func(class *networkingv1.IngressClass) {
			class.Spec.Parameters = &networkingv1.IngressClassParametersReference{Kind: "ConfigMap", Name: "none", Namespace: new(home)}
		},
		"adopted": func(class *networkingv1.IngressClass) {
			class.Annotations = map[string]string{source.AnnotationAdopted: ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			one, two := f.addIngress("a", "one", limit, "/"), f.addIngress("a", "two", nil, "/")
			f.sync()
			wait(f.class())
			must.Do(t, f.ingresses.GetStore().Delete(one))
			two.Spec.Rules[0].HTTP.Paths[0].Path = "/new"
			f.addIngress("a", "three", nil, "/")
			for range 2 {
				f.expectWrites()
				later := f.now().Add(2 * settling)
				f.now = func() time.Time { return later }
			}
			if events := f.events(); !strings.Contains(events, "Warning Waiting ") {
				t.Errorf("the events are\n%s", events)
			}
		})
	}
}

// TestObjectsOfOthers: what somebody else has by the name of a route or of a Gateway is left alone.
func TestObjectsOfOthers(t *testing.T) {
	for _, test := range []struct {
		foreign source.Subject
		want    string
	}{
		{source.Subject{Kind: "HTTPRoute", Namespace: "a", Name: "web-one-test"}, "apply HTTPRoute a/web-one-test-02"},
		{source.Subject{Kind: "Gateway", Namespace: home, Name: "web"}, ""},
	} {
		f := newFixture(t)
		must.Get(f.kube.NetworkingV1().IngressClasses().Create(t.Context(), f.class(), metav1.CreateOptions{}))(t)
		f.addIngress("a", "one", nil, "/")
		foreign := &unstructured.Unstructured{}
		foreign.SetResourceVersion("3")
		f.objects[test.foreign] = foreign
		if err := f.Controller.sync(t.Context()); !errors.Is(err, children.ErrOutdated) {
			t.Errorf("%s: got the error %v", test.foreign, err)
		}
		f.writes = nil
		if writes := f.sync(); test.want != "" && !slices.Contains(writes, test.want) || test.want == "" && len(writes) > 0 {
			t.Errorf("%s: it writes %q", test.foreign, writes)
		}
		if f.objects[test.foreign] != foreign {
			t.Errorf("%s: it is overwritten", test.foreign)
		}
	}
}

// TestAddresses: an Ingress has the address of its Gateway as long as its class is ours. That of another controller is
// left alone.
func TestAddresses(t *testing.T) {
	f := newFixture(t)
	var statuses []string
	f.kube.(*kubefake.Clientset).PrependReactor("patch", "ingresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		statuses = append(statuses, string(action.(clienttesting.PatchAction).GetPatch()))
		return true, &networkingv1.Ingress{}, nil
	})
	address := []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
	expect := func(want string) {
		t.Helper()
		f.sync()
		if got := strings.Join(statuses, ""); want == "" && got != "" || !strings.Contains(got, want) || len(statuses) > 1 {
			t.Errorf("it writes %q, want %q", statuses, want)
		}
		statuses = nil
	}
	one := f.addIngress("a", "one", nil, "/")
	expect("")
	f.cached(source.Subject{Kind: "Gateway", Namespace: home, Name: "web"}).addresses = address
	expect(`"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`)
	one.Status.LoadBalancer.Ingress, one.ManagedFields = address, []metav1.ManagedFieldsEntry{{Manager: fieldManager}}
	expect("")
	one.Spec.IngressClassName = new("other")
	expect(`"status":{}`)
	one.ManagedFields = nil
	expect("")
}

// TestOpen: the IngressClass names annotations that close no paths.
func TestOpen(t *testing.T) {
	f := newFixture(t)
	f.addIngress("a", "one", map[string]string{source.Prefix + "auth-type": "digest", "example.com/allowed": "staff"}, "/")
	for open, isClosed := range map[string]bool{
		"": true, "example.com/allowed": true, source.Prefix + "auth-type, example.com/allowed": false, "auth-type": true,
	} {
		f.class().Annotations = map[string]string{source.AnnotationOpen: open}
		f.sync()
		events := f.events()
		if isUnused := open == "auth-type"; strings.Contains(events, "Warning Closed annotation auth-type: ") != isClosed ||
			strings.Contains(events, "Warning Differs auth-type is to be open, but closes nothing") != isUnused {
			t.Errorf("open by %q, the events are\n%s", open, events)
		}
		f.told = nil
	}
}

// TestEarlierGateways: an Ingress at a Gateway of an earlier release has its address until all proxies run its routes
// at both. The Gateway stays until somebody deletes it.
func TestEarlierGateways(t *testing.T) {
	f := newFixture(t)
	var statuses []string
	f.kube.(*kubefake.Clientset).PrependReactor("patch", "ingresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		statuses = append(statuses, string(action.(clienttesting.PatchAction).GetPatch()))
		return true, &networkingv1.Ingress{}, nil
	})
	one := f.addIngress("a", "one", nil, "/")
	one.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"one.test"}, SecretName: "tls"}}
	one.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.2"}}
	f.make("Gateway", home, "web-02", map[string]any{"gatewayClassName": "gateway"})
	f.make("ListenerSet", "a", "web-02", map[string]any{
		"parentRef": map[string]any{"name": "web-02"}, "listeners": []any{map[string]any{"name": "one-test", "hostname": "one.test"}},
	})
	f.sync()
	f.cached(source.Subject{Kind: "Gateway", Namespace: home, Name: "web"}).addresses = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
	if f.sync(); len(statuses) > 0 {
		t.Errorf("before its routes are programmed, it writes %q", statuses)
	}
	for _, name := range []string{"web-one-test", "web-one-test-redirect"} {
		f.cached(source.Subject{Kind: "HTTPRoute", Namespace: "a", Name: name}).programmed = true
	}
	if f.sync(); len(statuses) != 1 || !strings.Contains(statuses[0], `"ingress":[{"ip":"192.0.2.1"}]`) {
		t.Errorf("then it writes %q", statuses)
	}
	if events := f.events(); !strings.Contains(events, "delete this one once nobody uses its address") {
		t.Errorf("the events are\n%s", events)
	}
	later := f.now().Add(2 * settling)
	f.now = func() time.Time { return later }
	f.expectWrites()
	f.remove("Gateway", home, "web-02")
	f.expectWrites("apply HTTPRoute a/web-one-test", "apply HTTPRoute a/web-one-test-redirect")
	later = later.Add(2 * settling)
	f.expectWrites("delete ListenerSet a/web-02")
}

// TestHostsStayWhileCachesLag: a host stays in its ListenerSet though the cache does not show it yet, and older ones
// come.
func TestHostsStayWhileCachesLag(t *testing.T) {
	f := newFixture(t)
	add := func(name string, created time.Time) {
		ingress := f.addIngress("a", name, nil, "/")
		ingress.CreationTimestamp = metav1.NewTime(created)
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{name + ".test"}, SecretName: "tls"}}
	}
	for i := range 64 {
		add(fmt.Sprint("h", i), f.now())
	}
	f.sync()
	add("last", f.now())
	first, _, err := f.ingresses.GetStore().GetByKey("a/h0")
	if err != nil {
		t.Fatal(err)
	}
	f.sync()
	must.Do(t, f.ingresses.GetStore().Delete(first))
	f.sync()
	name := source.Subject{Kind: "ListenerSet", Namespace: "a", Name: "web-02"}
	before := fmt.Sprint(f.objects[name].Object["spec"])
	must.Do(t, f.made["ListenerSet"].GetStore().Delete(f.cached(name)))
	f.sync()
	if after := fmt.Sprint(f.objects[name].Object["spec"]); after != before || !strings.Contains(after, "last.test") {
		t.Errorf("it was %s, and is %s", before, after)
	}
	if set := f.objects[source.Subject{Kind: "ListenerSet", Namespace: "a", Name: "web"}]; strings.Contains(fmt.Sprint(set.Object), "last.test") {
		t.Errorf("it moves to %v", set.Object["spec"])
	}
}
