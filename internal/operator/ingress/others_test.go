package ingress

import (
	"errors"
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
			if err := f.ingresses.GetStore().Delete(one); err != nil {
				t.Fatal(err)
			}
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
		if _, err := f.kube.NetworkingV1().IngressClasses().Create(t.Context(), f.class(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
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
