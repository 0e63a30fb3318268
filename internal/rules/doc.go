// Package rules translates the rules of routes to the model: matches, filters, backendRefs, timeouts, retries and
// sessions. It knows one form of a rule, an HTTPRoute's. Filters that the Gateway API lacks come in a RouteFilter.
// internal/source makes these two of GRPCRoutes and of our own kind, and resolves references.
//
// Each filter has a file. One that the Gateway API lacks registers itself there, and is in no list.
//
// What cannot be done is not left out: the rule is refused, and its requests are answered with 500.
//
// The package is pure.
package rules
