package convert

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// attachment says whether a listener lets a route belong to it.
type attachment int

const (
	refused attachment = iota
	allowed
	// unknown: the files do not say.
	unknown
)

func (c *gatewayConverter) attachment(listener *gatewayv1.Listener, route *apiRoute) attachment {
	from := or(listener.AllowedRoutes, gatewayv1.AllowedRoutes{})
	isKind := func(kind gatewayv1.RouteGroupKind) bool {
		return or(kind.Group, gatewayv1.GroupName) == gatewayv1.GroupName && string(kind.Kind) == route.kind
	}
	if len(from.Kinds) > 0 && !slices.ContainsFunc(from.Kinds, isKind) {
		return refused
	}
	namespaces := or(from.Namespaces, gatewayv1.RouteNamespaces{})
	switch or(namespaces.From, gatewayv1.NamespacesFromSame) {
	case gatewayv1.NamespacesFromAll:
		return allowed
	case gatewayv1.NamespacesFromSelector:
		return c.selects(namespaces.Selector, route.GetNamespace())
	case gatewayv1.NamespacesFromSame:
		if route.GetNamespace() == c.source.Namespace {
			return allowed
		}
	}
	return refused
}

// selects says whether a selector takes a namespace in. One that is not in the input has its name as a label, and nobody
// knows which others.
func (o *objects) selects(source *metav1.LabelSelector, namespace string) attachment {
	selector, err := metav1.LabelSelectorAsSelector(source)
	if err != nil {
		return unknown
	}
	set, isHere := o.namespaces[namespace]
	if isHere {
		if selector.Matches(set) {
			return allowed
		}
		return refused
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return refused
	}
	result := allowed
	for _, requirement := range requirements {
		if requirement.Key() != corev1.LabelMetadataName {
			result = unknown
		} else if !requirement.Matches(labels.Set{corev1.LabelMetadataName: namespace}) {
			return refused
		}
	}
	return result
}

// isGranted says whether a ReferenceGrant lets a route refer to a Service in another namespace.
func (o *objects) isGranted(route *apiRoute, namespace, service string) bool {
	isFrom := func(from gatewayv1.ReferenceGrantFrom) bool {
		return from.Group == gatewayv1.GroupName && string(from.Kind) == route.kind && string(from.Namespace) == route.GetNamespace()
	}
	isTo := func(to gatewayv1.ReferenceGrantTo) bool {
		return to.Group == corev1.GroupName && to.Kind == "Service" && string(or(to.Name, gatewayv1.ObjectName(service))) == service
	}
	return slices.ContainsFunc(o.grants, func(grant *gatewayv1.ReferenceGrant) bool {
		return grant.Namespace == namespace && slices.ContainsFunc(grant.Spec.From, isFrom) && slices.ContainsFunc(grant.Spec.To, isTo)
	})
}
