package agent

import (
	"slices"

	"gateway/internal/proxypod"
)

// manyRefusals is how often the API server must refuse to list RouteFilters or BackendPolicies, after it has listed the
// routes of the namespace, before the pod counts as having no access. Access to all comes at the same time. A request
// may have been under way.
const manyRefusals = 2

// guards are the resources that can be guards.
var guards = []string{resourcePolicies, proxypod.ResourceFilters, proxypod.ResourceBackendPolicies, proxypod.ResourceImports, resourceServices, resourceSlices}

// guard is a resource that must be listed before objects of its namespace count.
//
// Without BackendTLSPolicies, traffic that must use TLS would be sent in plain text. So nothing counts before they are
// listed, unless the API server does not know the resource. Without RouteFilters, requests that need one would get 500.
// Without BackendPolicies, endpoints would get too many requests, or no PROXY protocol. So nothing counts before they
// are listed either, unless this pod may not list them. The same is true of Services, ServiceImports and
// EndpointSlices.
type guard struct {
	*share
	// refusals is how often they had been refused when the guarded objects were seen; -1: those were not seen yet.
	refusals int
}

// guard makes newly added resources wait for what else is in the namespace, which may be new, too.
func (n *namespaceShares) guard(added []string) {
	for _, resource := range added {
		if slices.Contains(guards, resource) {
			continue
		}
		for _, of := range guards {
			if share := n.shares[of]; share != nil {
				n.shares[resource].guards = append(n.shares[resource].guards, &guard{share, -1})
			}
		}
	}
}

// isGuarded reports whether a guard must be listed first. A guard that was passed once is not asked again.
func (s *share) isGuarded() bool {
	s.guards = slices.DeleteFunc(s.guards, (*guard).isPassed)
	return len(s.guards) > 0
}

// isPassed is called when the guarded objects are seen.
func (g *guard) isPassed() bool {
	if g.refusals < 0 {
		g.refusals = g.of.refusals
	}
	if g.of.isListed || g.of.isMissing || g.stopped {
		return true
	}
	return g.resource != resourcePolicies && g.of.refusals-g.refusals >= manyRefusals
}
