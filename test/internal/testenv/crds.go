package testenv

import (
	"path"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DeleteCRDs deletes CRDs and all their objects. args are arguments of kubectl delete such as "-f", DIR. It does not
// wait for the finalizer, by which the API server deletes the objects: if somebody else writes the CRD meanwhile, the
// API server looks at it again only with its next resync, up to five minutes later.
func (s *Server) DeleteCRDs(t testing.TB, args ...string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(s.Kubectl(t, append([]string{"get", "-o", "name"}, args...)...)) {
		names = append(names, path.Base(strings.TrimSpace(line)))
	}
	s.Kubectl(t, "delete", strings.Join(names, ","), "--all", "--all-namespaces")
	s.Kubectl(t, append([]string{"delete", "--wait=false"}, args...)...)
	crds := s.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, name := range names {
		_, err := crds.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}
