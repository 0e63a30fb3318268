package queue

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestOnChange(t *testing.T) {
	var got []string
	handler := OnChange(func(obj any, priority Priority) {
		name := obj.(metav1.Object).GetName()
		if priority == Low {
			name += " (low)"
		}
		got = append(got, name)
	})
	version := func(name, version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Name: name, ResourceVersion: version}
	}
	handler.OnAdd(version("found", "1"), true)
	handler.OnAdd(version("added", "1"), false)
	handler.OnUpdate(version("resynced", "1"), version("resynced", "1"))
	handler.OnUpdate(version("before", "1"), version("after", "2"))
	handler.OnDelete(version("deleted", "1"))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: version("missed", "1")})
	if want := []string{"found (low)", "added", "before", "after", "deleted", "missed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
