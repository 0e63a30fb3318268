package config

import (
	"maps"
	"slices"
	"strings"
)

// Plan says how to get from the running configuration to the desired one.
type Plan struct {
	// Reload is the reason why a reload of the desired files is needed, one of the Reload constants. Then everything else
	// is empty. "": the rest of the plan does it.
	Reload string
	// Add are servers to add, before anything else: no request may be routed to a server that is not there yet.
	Add []ServerChange
	// ReplaceMap says whether to replace the map, by Map.
	ReplaceMap bool
	Map        []MapEntry
	// Remove are servers to remove, last.
	Remove []ServerChange
	// After is what runs once the plan is carried out: the running configuration of the next Diff. It is the desired one,
	// with the running skeleton where that is kept though it holds more than is needed.
	After Config
}

// Empty says whether there is nothing to do.
func (p Plan) Empty() bool {
	return p.Reload == "" && !p.ReplaceMap && len(p.Add) == 0 && len(p.Remove) == 0
}

// ServerChange is a server to add to or remove from a backend section.
type ServerChange struct {
	Backend string
	Server  Server
}

// Why a reload is needed. These are values of a metric label.
const (
	ReloadFirst    = "first load"
	ReloadPorts    = "listener ports changed"
	ReloadBackends = "a backend was added"
	// ReloadWildcards: the rules look up wildcard hostnames by their number of labels, and there is one of a new number.
	ReloadWildcards = "a wildcard hostname of another depth was added"
	// ReloadSettings is anything else of the skeleton, as after an upgrade of the agent.
	ReloadSettings = "settings changed"
)

// Diff returns the plan that makes HAProxy, which runs one configuration, run another. The zero Config stands for a
// HAProxy that runs none.
//
// What is no longer needed of the skeleton, backends and rules for wildcards of some depth, stays until the next reload:
// it does no harm, and is there when it is needed again.
func Diff(desired, running Config) Plan {
	if reason := reloadReason(desired.Skeleton, running.Skeleton); reason != "" {
		return Plan{Reload: reason, After: desired}
	}
	plan := Plan{After: desired}
	plan.After.Skeleton = running.Skeleton
	if !slices.Equal(desired.Map, running.Map) {
		plan.ReplaceMap, plan.Map = true, desired.Map
	}
	for _, backend := range slices.Sorted(maps.Keys(desired.Servers)) {
		plan.Add = append(plan.Add, missing(backend, desired, running)...)
	}
	for _, backend := range slices.Sorted(maps.Keys(running.Servers)) {
		plan.Remove = append(plan.Remove, missing(backend, running, desired)...)
	}
	return plan
}

// missing returns the servers of a backend that one configuration has and the other has not.
func missing(backend string, has, hasNot Config) []ServerChange {
	var changes []ServerChange
	for _, server := range has.Servers[backend] {
		if _, found := slices.BinarySearchFunc(hasNot.Servers[backend], server, compareServers); !found {
			changes = append(changes, ServerChange{Backend: backend, Server: server})
		}
	}
	return changes
}

// reloadReason returns why a process that runs one skeleton cannot do what another says, or "".
func reloadReason(desired, running string) string {
	switch {
	case running == "":
		return ReloadFirst
	case desired == running:
		return ""
	}
	want, have := sections(desired), sections(running)
	if !slices.Equal(frontends(want), frontends(have)) {
		return ReloadPorts
	}
	backends, wildcards := false, false
	for header, body := range want {
		existing, ok := have[header]
		_, isBackend := backendSection(header)
		switch {
		case ok && existing == body:
		case isBackend && !ok:
			backends = true
		case header == routingHeader && withoutWildcards(body) == withoutWildcards(existing):
			wildcards = wildcards || hasOtherWildcards(body, existing)
		default:
			return ReloadSettings
		}
	}
	switch {
	case backends:
		return ReloadBackends
	case wildcards:
		return ReloadWildcards
	}
	return ""
}

const routingHeader = "defaults routing from common\n"

// sections returns the lines of each section of a skeleton by its first line.
func sections(skeleton string) map[string]string {
	all := map[string]string{}
	for section := range strings.SplitSeq(skeleton, "\n\n") {
		header, body, _ := strings.Cut(section, "\n")
		all[header+"\n"] = strings.TrimSuffix(body, "\n")
	}
	return all
}

func frontends(sections map[string]string) []string {
	var headers []string
	for header := range sections {
		if strings.HasPrefix(header, "frontend ") {
			headers = append(headers, header)
		}
	}
	slices.Sort(headers)
	return headers
}

// The rules for wildcard hostnames of one number of labels are the lines that name this variable. They are the same
// whatever others there are.
const wildcardVar = "txn.below"

// withoutWildcards returns the lines of the routing section that are there for every Gateway.
func withoutWildcards(body string) string {
	var kept strings.Builder
	for line := range strings.Lines(body) {
		if !strings.Contains(line, wildcardVar) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// hasOtherWildcards says whether a routing section has rules for wildcards that another has not.
func hasOtherWildcards(body, other string) bool {
	for line := range strings.Lines(body) {
		if strings.Contains(line, wildcardVar) && !strings.Contains(other, line) {
			return true
		}
	}
	return false
}
