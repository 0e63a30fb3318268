// Package ingress makes objects of the Gateway API, with RouteFilters and BackendPolicies, of Ingresses as
// ingress-nginx reads them: a Gateway for each class, and ListenerSets and HTTPRoutes in the namespaces of the
// Ingresses. Notes tell what differs. What may keep clients out and cannot be carried over closes its paths: they
// answer 503.
//
// In: Ingresses, the Services and ConfigMaps that they refer to, and the ConfigMap of the controller. Two tables have
// what becomes of each annotation and each key of the ConfigMap: annotations.go and configuration.go.
//
// The package is pure: the same objects always give the same result.
package ingress
