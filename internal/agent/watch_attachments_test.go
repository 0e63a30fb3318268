package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
)

// newAttachment returns a GatewayAttachment that says that a namespace has HTTPRoutes of a Gateway.
func newAttachment(gateway *appv1.Gateway, namespace, version string) *appv1.GatewayAttachment {
	return &appv1.GatewayAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: gateway.Namespace, Name: gateway.Name + "." + namespace, ResourceVersion: version,
			OwnerReferences: []metav1.OwnerReference{{Kind: "Gateway", Name: gateway.Name, UID: gateway.UID, Controller: new(true)}},
		},
		Spec:   appv1.GatewayAttachmentSpec{GatewayName: gateway.Name, Namespace: namespace, Resources: []string{"httproutes"}},
		Status: appv1.GatewayAttachmentStatus{Conditions: []metav1.Condition{{Type: appv1.ConditionBound, Status: metav1.ConditionTrue}}},
	}
}

// TestAttachments: an agent follows the namespaces that it may read, and reports the newest version.
func TestAttachments(t *testing.T) {
	gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-1"}}
	w := newWatcher(Options{Namespace: "web", Gateway: "shop", Core: kubefake.NewClientset(), Gateways: gatewayfake.NewClientset(), Routes: routesfake.NewClientset()})
	for _, of := range []*watched{w.gateways, w.attachments, w.share("web", testServices).of, w.share("web", testSlices).of} {
		_ = of.Replace(nil, "1")
	}
	_ = w.gateways.Add(gateway)
	a := w.attachments
	expect := func(what string, isNew bool, version, namespaces string) {
		t.Helper()
		w.isStale = false
		if w.follow(gateway); w.isStale != isNew {
			t.Errorf("%s: it is new: %v", what, w.isStale)
		}
		reported := ""
		for _, line := range w.versions().Exceptions {
			if line.Resource == "gatewayattachments" && line.Namespace == "web" {
				reported = line.ResourceVersion
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(w.attached)), " "); got != namespaces || w.versions().Base != version || reported != "" {
			t.Errorf("%s: it follows %q and reports %+v, want %q and %q", what, got, w.versions(), namespaces, version)
		}
	}
	expect("at first", true, "1", "")
	_ = a.Add(newAttachment(gateway, "a", "9"))
	expect("a namespace", true, "9", "a")
	unbound := newAttachment(gateway, "b", "100")
	unbound.Status.Conditions[0].Status = metav1.ConditionFalse
	_ = a.Add(unbound)
	expect("one that it may not read", false, "100", "a")
	_ = a.Add(newAttachment(&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "uid-0"}}, "c", "101"))
	expect("one of an earlier Gateway of that name", false, "101", "a")
	_ = a.Add(newAttachment(gateway, "b", "102"))
	expect("it may read it", true, "102", "a b")
	_ = a.Delete(newAttachment(gateway, "a", "103"))
	expect("one is gone", true, "103", "b")

	// The operator of the release before wrote a list, which counts as long as it is there.
	old := gateway.DeepCopy()
	old.Status.Attachments = &appv1.Attachments{Namespaces: []appv1.AttachedNamespace{{Name: "b", Resources: []string{"tcproutes"}}, {Name: "d"}}}
	gateway = old
	_ = w.gateways.Add(gateway)
	expect("a list", true, "103", "b d")
	if got := w.attached["b"].Resources; !slices.Equal(got, []string{"httproutes"}) {
		t.Errorf("in namespace b, it follows %q, want what the GatewayAttachment says", got)
	}
}
