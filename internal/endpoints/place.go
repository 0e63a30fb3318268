package endpoints

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"gateway/internal/haproxy/ir"
)

// Place is where a proxy runs.
type Place struct {
	// Node is the name of the node, Zone the value of its label topology.kubernetes.io/zone; "": unknown.
	Node, Zone string
}

// prefer makes backups of those servers that the hints of their endpoints leave to proxies of other places. It reads
// hints as kube-proxy does (topologyModeFromHints in k8s.io/kubernetes/pkg/proxy): all endpoints must have a hint of
// the kind, and one of them must be for this place. The controller of EndpointSlices gives hints to Services with
// trafficDistribution.
func (p Place) prefer(servers []ir.Server, hints []*discoveryv1.EndpointHints) {
	for _, places := range []func(*discoveryv1.EndpointHints) (names []string, own string){
		func(h *discoveryv1.EndpointHints) ([]string, string) {
			return names(h.ForNodes, func(n discoveryv1.ForNode) string { return n.Name }), p.Node
		},
		func(h *discoveryv1.EndpointHints) ([]string, string) {
			return names(h.ForZones, func(z discoveryv1.ForZone) string { return z.Name }), p.Zone
		},
	} {
		isOwn, all := make([]bool, len(hints)), true
		for i, hint := range hints {
			if hint == nil {
				return
			}
			found, own := places(hint)
			all = all && len(found) > 0
			isOwn[i] = own != "" && slices.Contains(found, own)
		}
		if all && slices.Contains(isOwn, true) {
			for i := range servers {
				servers[i].Backup = !isOwn[i]
			}
			return
		}
	}
}

func names[T any](places []T, name func(T) string) []string {
	found := make([]string, len(places))
	for i, place := range places {
		found[i] = name(place)
	}
	return found
}
