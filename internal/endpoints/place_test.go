package endpoints

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"gateway/internal/routing"
)

// TestHints: endpoints that hints leave to other places are backups, if hints can be followed at all.
func TestHints(t *testing.T) {
	near := Place{Node: "node-a", Zone: "zone-a"}
	for name, test := range map[string]struct {
		place Place
		// hints of 10.0.0.1, 10.0.0.2, ...: names of nodes and zones with spaces between them; "": none.
		hints   []string
		backups string
	}{
		"a zone":                              {near, []string{"zone-a", "zone-b", "zone-b zone-a"}, "10.0.0.2"},
		"a node":                              {near, []string{"node-a zone-a", "node-b zone-a", "node-c zone-b"}, "10.0.0.2 10.0.0.3"},
		"a node without an endpoint":          {near, []string{"node-b zone-a", "node-c zone-b"}, "10.0.0.2"},
		"not all have a hint for a node":      {near, []string{"node-a zone-a", "zone-a", "zone-b"}, "10.0.0.3"},
		"one has no hint":                     {near, []string{"zone-a", "zone-b", ""}, ""},
		"a zone without an endpoint":          {near, []string{"zone-b", "zone-c"}, ""},
		"a proxy that does not know its zone": {Place{Node: "node-a"}, []string{"zone-a", "zone-b"}, ""},
		"a proxy that knows its zone only":    {Place{Zone: "zone-a"}, []string{"node-a zone-a", "node-b zone-b"}, "10.0.0.2"},
		"no hints at all":                     {near, []string{"", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			slice := newSlice("api", 8080)
			for i, hints := range test.hints {
				endpoint := newReady("10.0.0." + string(rune('1'+i)))
				for _, hint := range strings.Fields(hints) {
					if endpoint.Hints == nil {
						endpoint.Hints = &discoveryv1.EndpointHints{}
					}
					if strings.HasPrefix(hint, "node") {
						endpoint.Hints.ForNodes = append(endpoint.Hints.ForNodes, discoveryv1.ForNode{Name: hint})
					} else {
						endpoint.Hints.ForZones = append(endpoint.Hints.ForZones, discoveryv1.ForZone{Name: hint})
					}
				}
				slice.Endpoints = append(slice.Endpoints, endpoint)
			}
			kept := StripSlice(slice)
			backend := routing.Backend{Service: "api", Port: 80}
			servers := States([]routing.Backend{backend}, nil, Cluster{
				Service: func(string, string) *corev1.Service { return newService("api") },
				Slices: func(string, string) []*discoveryv1.EndpointSlice {
					return []*discoveryv1.EndpointSlice{kept}
				},
				Place: test.place,
			})[backend].Servers
			var backups []string
			for _, server := range servers {
				if server.Backup {
					backups = append(backups, server.Address)
				}
			}
			if len(servers) != len(test.hints) || !slices.Equal(backups, strings.Fields(test.backups)) {
				t.Errorf("the backups of %v are %v, want %s", servers, backups, test.backups)
			}
		})
	}
}
