package ingress

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

const (
	// Controller is that of the IngressClasses whose Ingresses the operator serves.
	Controller = "app.example.com/ingress"
	// LabelClass is on everything that the operator makes of Ingresses; its value is the name of their class.
	LabelClass = "app.example.com/ingress-class"
	// AnnotationApplied is on it, too: the digest of what was applied.
	AnnotationApplied = "app.example.com/applied"
	// AnnotationAdopted is on an IngressClass whose Ingresses the operator does not look at any more, with any value: what
	// it made of them belongs to the users.
	AnnotationAdopted = "app.example.com/adopted"
	// AnnotationOpen is on an IngressClass. Its value names what may be lost though it may keep clients out, with commas:
	// annotations and keys of the ConfigMap.
	AnnotationOpen = "app.example.com/open"
)

// Made is a kind of object that Ingresses become.
type Made struct {
	Kind     string
	Resource schema.GroupVersionResource
}

// Kinds returns what Ingresses become, Gateways first: without them, the operator leaves the other objects of a class
// alone.
func Kinds() []Made {
	api, own := schema.GroupVersion(gatewayv1.GroupVersion), appv1.SchemeGroupVersion
	return []Made{
		{"Gateway", api.WithResource("gateways")},
		{"GatewayConfig", own.WithResource("gatewayconfigs")},
		{"ListenerSet", api.WithResource("listenersets")},
		{"HTTPRoute", api.WithResource("httproutes")},
		{"TLSRoute", api.WithResource("tlsroutes")},
		{"RouteFilter", own.WithResource("routefilters")},
		{"BackendPolicy", own.WithResource("backendpolicies")},
		{"BackendTLSPolicy", api.WithResource("backendtlspolicies")},
		{"ReferenceGrant", api.WithResource("referencegrants")},
	}
}
