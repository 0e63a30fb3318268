package cli

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/source/ingress"
)

// routedKinds are the kinds of objects that requests come by. Of other objects, policies for these say what becomes of
// requests.
var routedKinds = []string{"Ingress", "GatewayClass", "Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "Service"}

// ignored names what other controllers read in files, and the proxies do not: policies for routes and the like, and
// annotations of objects of the Gateway API.
func ignored(documents []Document) []string {
	var all []string
	for _, document := range documents {
		kind := document.Object.GroupVersionKind()
		if kind.Group == gatewayv1.GroupName {
			for _, annotation := range slices.Sorted(maps.Keys(document.Object.GetAnnotations())) {
				if ingress.IsController(annotation) {
					all = append(all, fmt.Sprintf("%s: %s: annotation %s has no effect here, as it is for another controller", document.Source, document, annotation))
				}
			}
		}
		if kind.Group == appv1.GroupName || admission.Knows(kind.GroupKind()) {
			continue
		}
		if kind.Kind == "XListenerSet" {
			all = append(all, fmt.Sprintf("%s: %s has no effect here: use the kind ListenerSet of %s", document.Source, document, gatewayv1.GroupVersion))
		}
		targets := 0
		spec, _, _ := unstructured.NestedMap(document.Object.Object, "spec")
		for _, field := range []string{"targetRef", "targetRefs", "targetReference", "targetSelectors"} {
			for _, target := range Maps(spec[field]) {
				targets++
				if kind, _ := target["kind"].(string); slices.Contains(routedKinds, kind) {
					all = append(all, fmt.Sprintf("%s: %s has no effect here, although it is for the kind %s (spec.%s)", document.Source, document, kind, field))
				}
			}
		}
		if targets == 0 && IsIstioPolicy(document) {
			all = append(all, fmt.Sprintf("%s: %s has no effect here, although it is for the namespace", document.Source, document))
		}
	}
	return all
}

// IsIstioPolicy reports whether an object is a policy of Istio's, which may be for all of its namespace.
func IsIstioPolicy(document Document) bool {
	kind := document.Object.GroupVersionKind()
	return kind.Group == "security.istio.io" || kind.Group == "extensions.istio.io" || kind.Group == "networking.istio.io" && kind.Kind == "EnvoyFilter"
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
