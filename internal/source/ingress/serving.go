package ingress

import "strings"

const (
	// Controller is the controller of the IngressClasses whose Ingresses the operator serves.
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

// Kinds are what Ingresses become, Gateways first: without them, the operator leaves the other objects of a class
// alone.
var Kinds = strings.Fields("Gateway GatewayConfig ListenerSet HTTPRoute TLSRoute RouteFilter BackendPolicy BackendTLSPolicy ReferenceGrant")
