package appv1

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// The kinds of routes.
const (
	HTTPRoute = "HTTPRoute"
	TCPRoute  = "TCPRoute"
	TLSRoute  = "TLSRoute"
	// Listener is in place of a kind of routes for what the filters of a listener refer to.
	Listener = "Listener"
)

// References returns the references of a Gateway's routes and listeners, including backups and references of weight
// zero, which may be used soon. It returns each as often as it is in the spec.
func References(gateway *appv1.Gateway) iter.Seq[model.Reference] {
	spec := &gateway.Spec
	return func(yield func(model.Reference) bool) {
		goOn, backups := true, map[model.Backend]*appv1.BackupService{}
		for i := range spec.Backends {
			backups[model.Backend{Namespace: gateway.Namespace, Service: spec.Backends[i].Name, Port: spec.Backends[i].Port}] = spec.Backends[i].Backup
		}
		refer := func(kind string, route appv1.Name, service string, port int32) {
			ref := model.Reference{Kind: kind, Route: string(route), Backend: model.Backend{Namespace: gateway.Namespace, Service: service, Port: port}}
			goOn = goOn && yield(ref)
			if backup := backups[ref.Backend]; backup != nil {
				ref.Backend.Service, ref.Backend.Port, ref.IsBackup = backup.Name, backup.Port, true
				goOn = goOn && yield(ref)
			}
		}
		connections := func(kind string, route appv1.Name, rules []appv1.ConnectionRule) {
			for i := range rules {
				for _, ref := range rules[i].BackendRefs {
					refer(kind, route, ref.Name, ref.Port)
				}
			}
		}
		filters := func(kind string, name appv1.Name, filters []appv1.RuleFilter) {
			for i := range filters {
				if auth := filters[i].ExternalAuth; auth != nil {
					refer(kind, name, auth.BackendRef.Name, auth.BackendRef.Port)
				}
				if override := filters[i].ResponseOverride; override != nil {
					for _, response := range override.Responses {
						if ref := response.BackendRef; ref != nil {
							refer(kind, name, ref.Name, ref.Port)
						}
					}
				}
				if mirror := filters[i].RequestMirror; mirror != nil {
					for _, ref := range mirror.BackendRefs {
						refer(kind, name, ref.Name, ref.Port)
					}
				}
			}
		}
		for i := range spec.Routes {
			for j := range spec.Routes[i].Rules {
				refs := spec.Routes[i].Rules[j].BackendRefs
				for k := range refs {
					refer(HTTPRoute, spec.Routes[i].Name, refs[k].Name, refs[k].Port)
				}
				filters(HTTPRoute, spec.Routes[i].Name, spec.Routes[i].Rules[j].Filters)
			}
		}
		for i := range spec.Listeners {
			filters(Listener, spec.Listeners[i].Name, spec.Listeners[i].Filters)
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
func UnusedBackends(gateway *appv1.Gateway) []int {
	unused := map[model.Backend]int{}
	for i, entry := range gateway.Spec.Backends {
		unused[model.Backend{Namespace: gateway.Namespace, Service: entry.Name, Port: entry.Port}] = i
	}
	for ref := range References(gateway) {
		if len(unused) == 0 {
			break
		}
		delete(unused, ref.Backend)
	}
	return slices.Sorted(maps.Values(unused))
}

// meant is why something is refused.
const meant = "an entry of spec.backends that has tls and the same Service, or the same port and almost the same name, may be meant for it"

// refuseUnnamed refuses backends that may have lost their tls by a typo. An entry with tls that no route refers to
// counts as meant for each Service port without an entry that has the same Service, or the same port and a similar
// name. Such ports get no traffic, which would be in plain text. It does not apply to TLS passthrough. The status names
// all other entries that no route refers to.
func (t *translator) refuseUnnamed(gateway *appv1.Gateway) {
	var unused []*appv1.Backend
	for _, i := range UnusedBackends(gateway) {
		if entry := &t.spec.Backends[i]; entry.TLS != nil {
			unused = append(unused, entry)
		}
	}
	if len(unused) == 0 {
		return
	}
	var refused []model.Backend
	for ref := range References(gateway) {
		backend := ref.Backend
		isMeant := func(entry *appv1.Backend) bool {
			return entry.Name == backend.Service || entry.Port == backend.Port && isMistyped(entry.Name, backend.Service)
		}
		if _, known := t.to.Policies[backend]; !known && ref.Kind != TLSRoute && slices.ContainsFunc(unused, isMeant) {
			t.to.Policies[backend] = model.BackendPolicy{Refused: meant}
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
	t.problem(model.ReasonUnusedBackend, &model.Route{}, "", "backends", "nothing is sent to port %d of Service %s%s: %s, as no route refers to that entry",
		refused[0].Port, refused[0].Service, others, meant)
}

// isMistyped reports whether two names differ by one inserted, deleted or changed character, or by two swapped ones.
// Names that differ by a digit are often two versions.
func isMistyped(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if strings.ContainsAny(a+b, "0123456789") {
		return false
	}
	return max(len(a), len(b)) == 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}
