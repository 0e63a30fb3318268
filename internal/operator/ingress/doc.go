// Package ingress serves the Ingresses of our IngressClasses: it keeps the objects of the Gateway API that
// internal/source/ingress makes of them, writes the address of their Gateway into their status, and tells by events
// what differs from ingress-nginx.
//
// What is made of a class carries the label source.LabelClass. An object without the label belongs to somebody else,
// and what is made gets another name. Only for a Gateway and its GatewayConfig there is none: then the class waits.
// Objects that no Ingress needs any more are deleted. Routes and RouteFilters in the namespace of their Ingresses are
// owned by these, so they go with them while no operator runs, too.
//
// All Ingresses are looked at together, as any may share a host with any other, at most once per interval.
package ingress
