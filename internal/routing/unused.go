package routing

import (
	"fmt"
	"iter"

	appv1 "gateway/api/app/v1"
)

// The kinds of routes, as messages name them.
const (
	HTTPRoute = "route"
	TCPRoute  = "TCP route"
	TLSRoute  = "TLS route"
)

// Reference is a route's use of a Service port.
type Reference struct {
	// Kind is HTTPRoute, TCPRoute or TLSRoute.
	Kind    string
	Route   appv1.Name
	Backend Backend
}

// References returns what the routes of a spec refer to, also with weight zero: that is about to be used. One comes as often as it is
// in the spec.
func References(spec *appv1.GatewaySpec) iter.Seq[Reference] {
	return func(yield func(Reference) bool) {
		goOn := true
		connections := func(kind string, route appv1.Name, rules []appv1.ConnectionRule) {
			for i := range rules {
				for _, ref := range rules[i].BackendRefs {
					goOn = goOn && yield(Reference{kind, route, Backend{Service: ref.Name, Port: ref.Port}})
				}
			}
		}
		for i := range spec.Routes {
			for j := range spec.Routes[i].Rules {
				refs := spec.Routes[i].Rules[j].BackendRefs
				for k := range refs {
					goOn = goOn && yield(Reference{HTTPRoute, spec.Routes[i].Name, Backend{Service: refs[k].Name, Port: refs[k].Port}})
				}
			}
		}
		for i := range spec.TCPRoutes {
			connections(TCPRoute, spec.TCPRoutes[i].Name, spec.TCPRoutes[i].Rules)
		}
		for i := range spec.TLSRoutes {
			connections(TLSRoute, spec.TLSRoutes[i].Name, spec.TLSRoutes[i].Rules)
		}
	}
}

// UnusedBackends returns the places of the entries of spec.backends that no route refers to.
func UnusedBackends(spec *appv1.GatewaySpec) []int {
	if len(spec.Backends) == 0 {
		return nil
	}
	used := make(map[Backend]bool, len(spec.Backends))
	for i := range spec.Backends {
		used[entryOf(&spec.Backends[i])] = false
	}
	left := len(used)
	for ref := range References(spec) {
		if isUsed, isEntry := used[ref.Backend]; isEntry && !isUsed {
			used[ref.Backend] = true
			left--
		}
		if left == 0 {
			return nil
		}
	}
	var unused []int
	for i := range spec.Backends {
		if !used[entryOf(&spec.Backends[i])] {
			unused = append(unused, i)
		}
	}
	return unused
}

func entryOf(entry *appv1.Backend) Backend { return Backend{Service: entry.Name, Port: entry.Port} }

// refuseUnnamed refuses what may have lost its tls by a typo. An entry with tls that no route refers to may be meant for each Service port
// without an entry that has the same Service or the same port. Nothing goes there: it would be in plain text. Where TLS is passed through,
// it is not.
func (c *compiler) refuseUnnamed(spec *appv1.GatewaySpec) {
	services, ports := map[string]bool{}, map[int32]bool{}
	for _, i := range UnusedBackends(spec) {
		if entry := &spec.Backends[i]; entry.TLS != nil {
			services[entry.Name], ports[entry.Port] = true, true
		}
	}
	if len(services) == 0 {
		return
	}
	var refused []Backend
	for ref := range References(spec) {
		backend := ref.Backend
		if _, known := c.table.Policies[backend]; !known && ref.Kind != TLSRoute && (services[backend.Service] || ports[backend.Port]) {
			c.table.Policies[backend] = BackendPolicy{Refused: true}
			refused = append(refused, backend)
		}
	}
	if len(refused) == 0 {
		return
	}
	others := ""
	if n := len(refused) - 1; n > 0 {
		others = fmt.Sprintf(" and to %d more Service ports", n)
	}
	c.problems = append(c.problems, Problem{InBackends: true, Message: fmt.Sprintf("nothing is sent to port %d of Service %s%s: an entry of "+
		"spec.backends that has tls and the same Service or port may be meant for it, as no route refers to that entry",
		refused[0].Port, refused[0].Service, others)})
}
