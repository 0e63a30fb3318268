package config

import (
	"bytes"
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
	// Lists are the lists of certificates to change: what they have more before Maps, what they have less after them.
	Lists []ListChange
	// Maps are the maps to change, one after the other.
	Maps []MapChange
	// Remove are servers to remove, last.
	Remove []ServerChange
	// After is what runs once the plan is carried out: the running configuration of the next Diff. It is the desired one,
	// with the running skeleton where that is kept though it holds more than is needed, and spares in place of what it lacks.
	After Config
}

// Empty says whether there is nothing to do.
func (p Plan) Empty() bool {
	return p.Reload == "" && len(p.Lists) == 0 && len(p.Maps) == 0 && len(p.Add) == 0 && len(p.Remove) == 0
}

// ServerChange is a server to add to or remove from a backend section, which may be a spare.
type ServerChange struct {
	Backend  string
	Server   Server
	Settings ServerSettings
}

// MapChange is how the content of a map file, which is given by its name in Paths.ConfigDir, becomes the new one.
type MapChange struct {
	File string
	// Edits, in this order, make it that, at less expense than a swap. None: it has to be swapped.
	Edits []MapEdit
	// Entries are the content to swap it for, if there are no Edits.
	Entries []MapEntry
}

// Why a reload is needed. These are values of a metric label.
const (
	ReloadFirst        = "first load"
	ReloadPorts        = "listener ports changed"
	ReloadBackends     = "a backend was added"
	ReloadPolicies     = "settings of a backend changed"
	ReloadCertificates = "certificates changed"
	// ReloadKinds: the table has something of a kind that the skeleton has no rules for yet: wildcard hostnames with another
	// number of labels, a condition on or a change of a header of another name, another fixed answer.
	ReloadKinds = "something of a new kind was added"
	// ReloadSettings is anything else of the skeleton, as after an upgrade of the agent.
	ReloadSettings = "settings changed"
)

// Diff returns the plan that makes HAProxy, which runs one configuration, run another. The zero Config stands for a
// HAProxy that runs none.
//
// What is no longer needed of the skeleton, backends and rules, stays until the next reload: it does no harm, and is there
// when it is needed again.
func Diff(desired, running Config) Plan {
	spares, reason := reloadReason(desired, running)
	lists, static := listChanges(desired, running)
	if reason == "" && !maps.EqualFunc(used(desired.Static, static), desired.Static, bytes.Equal) {
		reason = ReloadCertificates
	}
	if reason != "" {
		return Plan{Reload: reason, After: desired}
	}
	plan := Plan{After: desired}
	plan.Lists = lists
	plan.After.Skeleton, plan.After.Static = running.Skeleton, static
	if desired.Skeleton != running.Skeleton {
		plan.After.covers = desired.Skeleton
	}
	plan.After.useSpares(spares, running)
	plan.Maps = mapChanges(plan.After, running)
	for _, section := range mayDiffer(desired.Servers, running.Servers) {
		plan.Add = append(plan.Add, missing(section, plan.After, running)...)
		plan.Remove = append(plan.Remove, missing(section, running, desired)...)
	}
	return plan
}

// used returns those of the files that are wanted.
func used(wanted, files map[string][]byte) map[string][]byte {
	all := map[string][]byte{}
	for name := range wanted {
		if content, ok := files[name]; ok {
			all[name] = content
		}
	}
	return all
}

// mapChanges returns how to get from some maps to others without a request that meets a mixture. MapFile says which lists of
// conditions count. So before it changes, the new lists are added, and when it has, the old ones are removed: a request
// that was told of a list which is gone sees that the version has changed, and looks again. Spares are there first, too.
func mapChanges(desired, running Config) []MapChange {
	var before, after []MapChange
	if !slices.Equal(desired.Maps[SparesFile], running.Maps[SparesFile]) {
		before = append(before, MapChange{File: SparesFile, Entries: desired.Maps[SparesFile]})
	}
	for i := range conditionFiles {
		file := conditionFile(i)
		want, have := desired.Maps[file], running.Maps[file]
		if slices.Equal(want, have) {
			continue
		}
		both := union(want, have)
		if !slices.Equal(both, have) {
			before = append(before, MapChange{File: file, Entries: both})
		}
		if !slices.Equal(both, want) {
			after = append(after, MapChange{File: file, Entries: want})
		}
	}
	changes := before
	if !desired.Routes.equal(running.Routes) {
		change := MapChange{File: MapFile, Edits: mapEdits(desired.Routes, running.Routes)}
		if len(change.Edits) == 0 {
			change.Entries = desired.Routes.Entries()
		}
		changes = append(changes, change)
	}
	return append(changes, after...)
}

// union returns entries and those of others that are not among them.
func union(entries, others []MapEntry) []MapEntry {
	all := slices.Clone(entries)
	seen := make(map[MapEntry]bool, len(entries))
	for _, entry := range entries {
		seen[entry] = true
	}
	for _, entry := range others {
		if !seen[entry] {
			all = append(all, entry)
		}
	}
	return all
}

// missing returns the servers of a section that one configuration has and the other has not.
func missing(section string, has, hasNot Config) []ServerChange {
	var changes []ServerChange
	want, _ := has.Servers.Of(section)
	have, _ := hasNot.Servers.Of(section)
	for _, server := range want {
		if _, found := slices.BinarySearchFunc(have, server, compareServers); !found {
			changes = append(changes, ServerChange{Backend: has.runningSection(section), Server: server, Settings: has.Settings[section]})
		}
	}
	return changes
}

// reloadReason returns why a process that runs one skeleton cannot do what another says, or the spares that it needs to do it.
func reloadReason(desired, running Config) (spares []MapEntry, reason string) {
	spares = running.Maps[SparesFile]
	switch {
	case running.Skeleton == "":
		return nil, ReloadFirst
	case desired.Skeleton == running.Skeleton, desired.Skeleton == running.covers:
		return spares, ""
	}
	want, have := sections(desired.Skeleton), sections(running.Skeleton)
	if !slices.Equal(frontends(want), frontends(have)) {
		return nil, ReloadPorts
	}
	reasons := map[string]bool{}
	for _, header := range slices.Sorted(maps.Keys(want)) {
		reason := sectionReason(header, want[header], have)
		if name, _ := backendSection(header); reason == ReloadBackends && canUseSpare(want[header]) {
			var ok bool
			if spares, ok = assignSpare(spares, name, desired, running); ok {
				reason = ""
			}
		}
		reasons[reason] = true
	}
	for _, reason := range []string{ReloadSettings, ReloadPorts, ReloadPolicies, ReloadBackends, ReloadKinds} {
		if reasons[reason] {
			return nil, reason
		}
	}
	return spares, ""
}

// sectionReason returns why sections that a process runs do not do for one that is wanted, or "".
func sectionReason(header, body string, have map[string]string) string {
	existing, ok := have[header]
	_, isBackend := backendSection(header)
	switch {
	case ok && existing == body:
		return ""
	case isBackend && !ok:
		return ReloadBackends
	case isBackend:
		return ReloadPolicies
	case !ok && !isLimited(strings.TrimPrefix(header, defaultsPrefix)):
		// The first listener of a protocol: there is a frontend more, too.
		return ReloadPorts
	case strings.HasPrefix(header, "frontend ") && bindings(body) != bindings(existing):
		return ReloadPorts
	case strings.HasPrefix(header, "frontend ") && isWithin(body, existing):
		return ""
	case strings.HasPrefix(header, "frontend "):
		return ReloadKinds
	case !strings.HasPrefix(header, defaultsPrefix+"rout"):
		return ReloadSettings
	case isWithin(body, existing):
		return ""
	}
	return ReloadKinds
}

// isWithin says whether a section has all lines of another, in the same order: then it does what the other does, and what
// it has beside is for things that are not there, but for the rules that cannot stay.
func isWithin(body, existing string) bool {
	want, have := strings.Split(body, "\n"), strings.Split(existing, "\n")
	for _, line := range have {
		if len(want) > 0 && want[0] == line {
			want = want[1:]
		} else if strings.HasPrefix(line, trustedRanges) || strings.Contains(line, " reject") {
			return false
		}
	}
	return len(want) == 0
}

// bindings returns the lines that bind a port, and say what connections begin with.
func bindings(body string) string {
	var all strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "    bind ") || line == expectProxy {
			all.WriteString(line)
		}
	}
	return all.String()
}

// sections returns the lines of each section of a skeleton by its first line. What a backend gets its rules from is not
// in that but in the other lines, so that it is the same backend if that changes.
func sections(skeleton string) map[string]string {
	all := map[string]string{}
	for section := range strings.SplitSeq(skeleton, "\n\n") {
		header, body, _ := strings.Cut(section, "\n")
		if name, ok := backendSection(header); ok {
			header, body = backendPrefix+name, strings.TrimPrefix(section, backendPrefix+name)
		}
		all[header] = strings.TrimSuffix(body, "\n")
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
