package agent

import (
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestTheNewestAttachmentsAreReported, by the numbers of their versions.
func TestTheNewestAttachmentsAreReported(t *testing.T) {
	gateway := &appv1.Gateway{}
	w := &watcher{namespace: "web"}
	if got := w.versions(gateway).Exceptions; len(got) > 0 {
		t.Errorf("without attachments, got %+v", got)
	}
	gateway.Status.Attachments = &appv1.Attachments{Namespaces: []appv1.AttachedNamespace{
		{Name: "a", Since: "9"}, {Name: "b", Since: "100"}, {Name: "c"},
	}}
	want := appv1.ProxiedResource{Resource: "attachments", Namespace: "web", ResourceVersion: "100"}
	if got := w.versions(gateway).Exceptions; len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
