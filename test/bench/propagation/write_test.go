package propagation

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/test/internal/testenv"
)

// anything is a kind whose objects the API server does not look into.
const anything = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "anythings.example.com"}, "spec": {
	"group": "example.com", "scope": "Namespaced", "names": {"plural": "anythings", "singular": "anything", "kind": "Anything", "listKind": "AnythingList"},
	"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

// BenchmarkWrite measures what the API server takes for an edit of one route among many, with nobody watching: of a
// Gateway, and of an object of the same content that has no schema.
func BenchmarkWrite(b *testing.B) {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	var crd unstructured.Unstructured
	must(b, crd.UnmarshalJSON([]byte(anything)))
	_, err := server.Dynamic.Resource(crds).Create(b.Context(), &crd, metav1.CreateOptions{})
	must(b, err)
	for _, routes := range []int{10, 1000, 3000} {
		for kind, resource := range map[string]schema.GroupVersionResource{
			"Gateway":  appv1.SchemeGroupVersion.WithResource("gateways"),
			"Anything": {Group: "example.com", Version: "v1", Resource: "anythings"},
		} {
			b.Run(fmt.Sprintf("routes=%d/%s", routes, kind), func(b *testing.B) {
				content, err := json.Marshal((&world{routes: routes, port: 80}).gateway())
				must(b, err)
				var object unstructured.Unstructured
				must(b, json.Unmarshal(content, &object.Object))
				object.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
				object.SetName(fmt.Sprintf("web-%d", routes))
				unstructured.RemoveNestedField(object.Object, "status")
				client := server.Dynamic.Resource(resource).Namespace("default")
				testenv.Eventually(b, soon, "the kind is served", func(ctx context.Context) error {
					_, err := client.Create(ctx, &object, metav1.CreateOptions{})
					return err
				})
				for i := 0; b.Loop(); i++ {
					patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/routes/1/rules/0/backendRefs/0/weight","value":%d}]`, i%2)
					_, err := client.Patch(b.Context(), object.GetName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
					must(b, err)
				}
				must(b, client.Delete(b.Context(), object.GetName(), metav1.DeleteOptions{}))
			})
		}
	}
}
