package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
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
	w := &watcher{namespace: "web", attachments: &attachments{sent: map[string]*appv1.GatewayAttachment{}}}
	a := w.attachments
	expect := func(what string, isNew bool, version, namespaces string) {
		t.Helper()
		if got := a.takeIn(gateway); got != isNew {
			t.Errorf("%s: it is new: %v", what, got)
		}
		reported := ""
		for _, line := range w.versions().Exceptions {
			if reported = line.ResourceVersion; line.Resource != "gatewayattachments" || line.Namespace != "web" {
				t.Errorf("%s: it reports %+v", what, line)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(a.namespaces)), " "); got != namespaces || reported != version {
			t.Errorf("%s: it follows %q and reports %q, want %q and %q", what, got, reported, namespaces, version)
		}
	}
	expect("at first", true, "", "")
	a.note(newAttachment(gateway, "a", "9"), true)
	expect("a namespace", true, "9", "a")
	unbound := newAttachment(gateway, "b", "100")
	unbound.Status.Conditions[0].Status = metav1.ConditionFalse
	a.note(unbound, true)
	expect("one that it may not read", false, "100", "a")
	a.note(newAttachment(&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "uid-0"}}, "c", "101"), true)
	expect("one of an earlier Gateway of that name", false, "101", "a")
	a.note(newAttachment(gateway, "b", "102"), true)
	expect("it may read it", true, "102", "a b")
	a.note(cache.DeletedFinalStateUnknown{}, false)
	a.note(newAttachment(gateway, "a", "103"), false)
	expect("one is gone", true, "103", "b")

	// The operator of the release before wrote a list, which counts as long as it is there.
	old := gateway.DeepCopy()
	old.Status.Attachments = &appv1.Attachments{Namespaces: []appv1.AttachedNamespace{{Name: "b", Resources: []string{"tcproutes"}}, {Name: "d"}}}
	gateway = old
	expect("a list", true, "103", "b d")
	if got := a.namespaces["b"].Resources; !slices.Equal(got, []string{"httproutes"}) {
		t.Errorf("in namespace b, it follows %q, want what the GatewayAttachment says", got)
	}
}
