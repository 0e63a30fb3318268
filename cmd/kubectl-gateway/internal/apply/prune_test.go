package apply

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// TestPruneStaysInItsNamespaces has objects everywhere that were applied before and are not in the files any more: those of other
// namespaces, and cluster-scoped ones, are not the files' to delete.
func TestPruneStaysInItsNamespaces(t *testing.T) {
	core := schema.GroupVersion{Version: "v1"}
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{core, appv1.SchemeGroupVersion})
	kinds.Add(core.WithKind("Namespace"), meta.RESTScopeRoot)
	kinds.Add(core.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	kinds.Add(appv1.SchemeGroupVersion.WithKind("Gateway"), meta.RESTScopeNamespace)
	applied := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(namespace)
		object.SetName(name)
		object.SetLabels(map[string]string{"site": "shop"})
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: cli.FieldManager, Operation: metav1.ManagedFieldsOperationApply}})
		return object
	}
	namespace, configMap := core.WithKind("Namespace"), core.WithKind("ConfigMap")
	files := []*unstructured.Unstructured{applied(namespace, "", "shop"), applied(configMap, "shop", "wanted")}
	live := []runtime.Object{
		files[0], files[1], applied(configMap, "shop", "old"), applied(configMap, "other", "old"), applied(namespace, "", "other"),
		applied(appv1.SchemeGroupVersion.WithKind("Gateway"), "shop", "old"),
	}
	c := &command{prune: true, selectorText: "site=shop", mapper: kinds, client: fake.NewSimpleDynamicClient(runtime.NewScheme(), live...)}
	var items []*item
	for _, object := range files {
		mapping, err := kinds.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, &item{Document: cli.Document{Object: object}, mapping: mapping})
	}
	old, err := c.superfluous(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range old {
		got = append(got, o.mapping.GroupVersionKind.Kind+" "+o.namespace+"/"+o.name)
	}
	if want := []string{"ConfigMap shop/old", "Gateway shop/old"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
