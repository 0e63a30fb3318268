package agent

import (
	"slices"

	"gateway/internal/proxypod"
)

// manyRefusals is how often the API server must refuse to list RouteFilters or BackendPolicies, after it has listed the
// routes of the namespace, before the pod counts as having no access. Access to all comes at the same time. A request
// may have been under way.
const manyRefusals = 2

// guards are the resources of the Gateway API that can be guards.
var guards = []string{resourcePolicies, proxypod.ResourceFilters, proxypod.ResourceBackendPolicies}

// guard is a resource that must be listed before objects of its namespace count.
//
// Without BackendTLSPolicies, traffic that must use TLS would be sent in plain text. So nothing counts before they are
// listed, unless the API server does not know the resource. Without RouteFilters, requests that need one would get 500.
// Without BackendPolicies, endpoints would get too many requests, or no PROXY protocol. So nothing counts before they
// are listed either, unless this pod may not list them. The same is true of Services and EndpointSlices.
type guard struct {
	*watched
	resource string
	// refusals is how often they had been refused when the guarded objects were seen; -1: those were not seen yet.
	refusals int64
}

// guard makes newly added resources wait for what else is in the namespace, which may be new, too.
func (n *namespaceWatch) guard(added []string) {
	for _, resource := range added {
		if slices.Contains(guards, resource) {
			continue
		}
		for _, of := range guards {
			if informer := n.resources[of]; informer != nil {
				n.resources[resource].guards = append(n.resources[resource].guards, &guard{informer, of, -1})
			}
		}
		n.resources[resource].guards = append(n.resources[resource].guards, &guard{n.services, "services", -1}, &guard{n.slices, "endpointslices", -1})
	}
}

// isGuarded reports whether a guard must be listed first. A guard that was passed once is not asked again.
func (w *watched) isGuarded() bool {
	w.guards = slices.DeleteFunc(w.guards, (*guard).isPassed)
	return len(w.guards) > 0
}

// isPassed is called when the guarded objects are seen.
func (g *guard) isPassed() bool {
	refusals := g.watched.refusals.Load()
	if g.refusals < 0 {
		g.refusals = refusals
	}
	if g.HasSynced() || g.missing.Load() || g.stopped {
		return true
	}
	return g.resource != resourcePolicies && refusals-g.refusals >= manyRefusals
}
