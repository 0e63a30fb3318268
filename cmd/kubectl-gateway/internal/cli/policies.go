package cli

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// RoutedKinds are the kinds of objects that requests come by. Of other objects, policies for these say what becomes of
// requests.
var RoutedKinds = []string{"Ingress", "GatewayClass", "Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "Service"}

// ignoredPolicies says which objects of files are for routes and the like, although proxies do not go by them.
func ignoredPolicies(documents []Document) []string {
	var all []string
	for _, document := range documents {
		if kind := document.Object.GroupVersionKind(); kind.Group == gatewayv1.GroupName && kind.Kind == "BackendTLSPolicy" {
			continue
		}
		spec, _, _ := unstructured.NestedMap(document.Object.Object, "spec")
		for _, field := range []string{"targetRef", "targetRefs", "targetReference", "targetSelectors"} {
			for _, target := range Maps(spec[field]) {
				if kind, _ := target["kind"].(string); slices.Contains(RoutedKinds, kind) {
					all = append(all, fmt.Sprintf("%s: %s has no effect here, although it is for the kind %s (spec.%s)", document.Source, document, kind, field))
				}
			}
		}
	}
	return all
}

// Maps returns the objects of a list, or the one that is there alone.
func Maps(value any) []map[string]any {
	var all []map[string]any
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	for _, element := range list {
		if object, ok := element.(map[string]any); ok {
			all = append(all, object)
		}
	}
	return all
}
