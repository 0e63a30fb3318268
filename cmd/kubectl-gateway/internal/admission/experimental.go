package admission

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"
)

// experimental are the fields that the Gateway API's standard channel lacks, by kind. A test compares them with the
// CRDs.
var experimental = map[string][]string{
	"GRPCRoute": {"spec.rules[].sessionPersistence", "spec.useDefaultGateways"},
	"Gateway":   {"spec.addresses[].routability", "spec.defaultScope", "spec.listeners[].filters"},
	"HTTPRoute": {
		"spec.rules[].backendRefs[].filters[].externalAuth", "spec.rules[].filters[].externalAuth",
		"spec.rules[].sessionPersistence", "spec.useDefaultGateways",
	},
	"ListenerSet": {"spec.listeners[].filters"},
	"TCPRoute":    {"spec.useDefaultGateways"},
	"TLSRoute":    {"spec.useDefaultGateways"},
	"UDPRoute":    {"spec.useDefaultGateways"},
}

// Experimental returns the fields of an object that only CRDs of the Gateway API's experimental channel have, such as
// spec.rules[0].sessionPersistence; "" stands for the kind itself.
func Experimental(object *unstructured.Unstructured) []string {
	kind := object.GroupVersionKind()
	switch kind.Group {
	case v1alpha1.GroupName:
		return []string{""}
	case gatewayv1.GroupName:
		var all []string
		for _, path := range experimental[kind.Kind] {
			all = append(all, find(object.Object, path, "")...)
		}
		return all
	}
	return nil
}

// find returns the fields of a value that a path stands for. at is the value's own field.
func find(value any, path, at string) []string {
	name, rest, isMore := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(name, "[]")
	object, _ := value.(map[string]any)
	field, ok := object[name]
	at = strings.TrimPrefix(at+"."+name, ".")
	switch {
	case !ok:
		return nil
	case !isMore:
		return []string{at}
	case !isList:
		return find(field, rest, at)
	}
	var all []string
	list, _ := field.([]any)
	for i, element := range list {
		all = append(all, find(element, rest, fmt.Sprintf("%s[%d]", at, i))...)
	}
	return all
}
