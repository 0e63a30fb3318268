// Package plan finds the way from HAProxy's running configuration to another one: commands to the running process, or a
// reload with its reason. It is pure.
//
// No request sees a mixture of both. Contents and lists are named after their content: new ones are added before
// anything refers to them, and old ones stay until no request can refer to them (see Collect). A request finds them by
// one lookup, in hosts.map. Entries there change one by one, in an order in which each lookup finds the old or the new
// result.
package plan

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/tree"
)

// Plan is the way from the running configuration to the desired one, in this order.
type Plan struct {
	// Reload is the reason why a reload of the desired files is needed, one of ir's Reload constants. Then everything
	// else but After is empty. "": the rest of the plan does it.
	Reload string
	// Authorities are files with CA certificates to add, by name.
	Authorities map[string][]byte
	// Backends are backends to add, with their servers.
	Backends []Backend
	// AddServers are servers to add to other backends.
	AddServers []Server
	// Entries are entries to add to map files, by file.
	Entries map[string][]ir.MapEntry
	// Conditions are what ConditionsFile is to hold; nil: it stays as it is.
	Conditions []ir.MapEntry
	// Edits are changes of entries of map files, one by one.
	Edits []Edits
	// AddCertificates are lines to add to lists of certificates, RemoveCertificates are lines to remove, by file. Of two
	// lines for a name, HAProxy takes the older one.
	AddCertificates, RemoveCertificates map[string][]ir.CertificateLine
	// RemoveServers are servers to remove.
	RemoveServers []Server
	// Switches reports whether After holds names that were not held before: see listeners.go.
	Switches bool
	// After is the configuration that HAProxy runs once the plan is carried out: the desired one, and unused parts of the
	// earlier one.
	After ir.Config
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	return !p.changesMore() && len(p.AddServers)+len(p.RemoveServers) == 0
}

// OnlyServers reports whether the plan only adds and removes servers.
func (p Plan) OnlyServers() bool {
	return !p.changesMore() && len(p.AddServers)+len(p.RemoveServers) > 0
}

// changesMore reports whether the plan does anything besides adding and removing servers.
func (p Plan) changesMore() bool {
	return p.Reload != "" || p.Conditions != nil ||
		len(p.Backends)+len(p.Entries)+len(p.Edits)+len(p.Authorities)+len(p.AddCertificates)+len(p.RemoveCertificates) > 0
}

// Summary names what the plan changes. It is a label of a metric.
func (p Plan) Summary() string {
	switch {
	case len(p.AddCertificates)+len(p.RemoveCertificates) > 0:
		return "certificates"
	case p.OnlyServers():
		return "endpoints"
	case len(p.AddServers)+len(p.RemoveServers) > 0:
		return "endpoints and routes"
	}
	return "routes"
}

// Backend is a backend to add.
type Backend struct {
	Name string
	*ir.Backend
}

// Server is a server to add to a backend, or to remove from it.
type Server struct {
	Backend  string
	Server   ir.Server
	Settings ir.ServerSettings
}

// Edits are changes of entries of a map file.
type Edits struct {
	File  string
	Edits []Edit
}

// Edit is a change of one entry of a map: Old is "" for one that is added, New for one that is deleted.
type Edit struct{ Key, Old, New string }

// reasons are the reasons of sections, the most telling one first. The first key of tokens comes with settings for its
// readers.
var reasons = []string{
	ir.ReloadCache, ir.ReloadPorts, ir.ReloadKeys, ir.ReloadSettings, ir.ReloadDefaults, ir.ReloadLimits, ir.ReloadNames,
}

// Diff returns the plan that makes HAProxy, which runs one configuration, run another. The zero Config stands for a
// HAProxy that runs none.
//
// Sections that are no longer needed, and lines in those that remain, stay until the next reload: they do no harm, and
// are there when they are needed again.
func Diff(desired, running ir.Config) Plan { return Change(running, desired, running, false) }

// Change is Diff for a HAProxy that runs all of a configuration, and besides what has been used before. It looks only
// at what that configuration and the desired one do not share. settled reports whether the handshakes have ended that
// names were held for.
func Change(before, desired, running ir.Config, settled bool) Plan {
	reason := reloadReason(desired, running)
	names, conflict := held(desired, running, settled)
	if reason == "" && conflict {
		reason = ir.ReloadCertificates
	}
	if reason != "" {
		return Plan{Reload: reason, After: desired}
	}
	plan := Plan{
		Entries: map[string][]ir.MapEntry{}, Authorities: map[string][]byte{}, After: running,
		AddCertificates: missingLines(desired, running), RemoveCertificates: missingLines(running, desired),
	}
	plan.After.Maps, plan.After.Certificates, plan.After.Demands = desired.Maps, desired.Certificates, desired.Demands
	plan.addAuthorities(desired, running)
	backends, contents, lists := running.Backends.Edit(), running.Contents.Edit(), running.Lists.Edit()
	for change := range tree.Changes(before.Backends, desired.Backends) {
		if change.Has {
			plan.changeBackend(change.Key, change.New, running.Backends.Value(change.Key))
			backends.Set(change.Key, change.New)
		}
	}
	for change := range tree.Changes(before.Contents, desired.Contents) {
		if !change.Has {
			continue
		}
		if _, ok := running.Contents.Get(change.Key); !ok {
			plan.Entries[change.New.File] = append(plan.Entries[change.New.File], change.New.Entries...)
		}
		contents.Set(change.Key, change.New)
	}
	for change := range tree.Changes(before.Lists, desired.Lists) {
		if change.Has {
			lists.Set(change.Key, change.New)
		}
	}
	plan.After.Backends, plan.After.Contents, plan.After.Lists = backends.Map(), contents.Map(), lists.Map()
	if plan.After.Lists.Len() > running.Lists.Len() {
		plan.Conditions = ir.ConditionEntries(plan.After.Lists)
	}
	for _, file := range []string{ir.NamesFile, ir.HSTSFile, ir.KeySetsFile, ir.HostsFile} {
		if edits := mapEdits(desired.Maps[file], running.Maps[file]); len(edits) > 0 {
			plan.Edits = append(plan.Edits, Edits{File: file, Edits: edits})
		}
	}
	plan.hold(names, running)
	plan.Edits = slices.DeleteFunc(plan.Edits, func(file Edits) bool { return len(file.Edits) == 0 })
	return plan
}

// addAuthorities adds files that HAProxy does not have. Others stay until the next reload: see keepsMany.
func (p *Plan) addAuthorities(desired, running ir.Config) {
	p.After.Authorities = running.Authorities
	for name, content := range desired.Authorities {
		if _, ok := running.Authorities[name]; !ok {
			p.Authorities[name] = content
		}
	}
	if len(p.Authorities) > 0 {
		p.After.Authorities = maps.Clone(p.Authorities)
		maps.Copy(p.After.Authorities, running.Authorities)
	}
}

func (p *Plan) changeBackend(name string, desired, running *ir.Backend) {
	if running == nil {
		p.Backends = append(p.Backends, Backend{Name: name, Backend: desired})
		return
	}
	p.AddServers = append(p.AddServers, missing(name, desired, running)...)
	p.RemoveServers = append(p.RemoveServers, missing(name, running, desired)...)
}

// missing returns the servers that one backend has and the other has not.
func missing(name string, has, hasNot *ir.Backend) []Server {
	var servers []Server
	for _, server := range has.Servers {
		if _, found := slices.BinarySearchFunc(hasNot.Servers, server, ir.CompareServers); !found {
			servers = append(servers, Server{Backend: name, Server: server, Settings: has.Settings})
		}
	}
	return servers
}

// mapEdits returns the edits from one content of a map to another: additions and changes first, the longest key first,
// then deletions, the shortest key first. Every request is looked up by the longest key that its own begins with. So at
// each moment it finds the old or the new result.
func mapEdits(desired, running tree.Map[string]) []Edit {
	var edits, deleted []Edit
	for change := range tree.Changes(running, desired) {
		if edit := (Edit{Key: change.Key, Old: change.Old, New: change.New}); change.Has {
			edits = append(edits, edit)
		} else {
			deleted = append(deleted, edit)
		}
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(len(b.Key), len(a.Key)) })
	slices.SortStableFunc(deleted, func(a, b Edit) int { return cmp.Compare(len(a.Key), len(b.Key)) })
	return append(edits, deleted...)
}

// reloadReason returns why commands cannot turn one running configuration into another, "" if they can.
func reloadReason(desired, running ir.Config) string {
	if len(running.Sections) == 0 {
		return ir.ReloadFirst
	}
	found, left := map[string]bool{}, map[string]ir.Section{}
	for _, section := range running.Sections {
		left[section.Header] = section
	}
	for _, section := range desired.Sections {
		found[sectionReason(section, left[section.Header])] = true
		delete(left, section.Header)
	}
	for _, section := range left {
		found[section.Reason] = found[section.Reason] || !section.MayStay
	}
	for _, reason := range reasons {
		if found[reason] {
			return reason
		}
	}
	for name, content := range desired.Files {
		if file, ok := running.Files[name]; !ok || !bytes.Equal(file, content) {
			return ir.ReloadCertificates
		}
	}
	for name, list := range desired.Certificates {
		if !canChangeList(list, running.Certificates[name]) {
			return ir.ReloadCertificates
		}
	}
	if keepsMany(desired.Authorities, running.Authorities) {
		return ir.ReloadCertificates
	}
	return ""
}

// HAProxy keeps CA certificates that nobody uses any more until the next reload. There is one beyond so many files, or
// bytes: otherwise, edits would take ever more memory.
const (
	mostUnused      = 32
	mostUnusedBytes = 4 << 20
)

// keepsMany reports whether HAProxy keeps too much that is not desired.
func keepsMany(desired, running map[string][]byte) bool {
	unused, size := 0, 0
	for name, content := range running {
		if _, ok := desired[name]; !ok {
			unused++
			size += len(content)
		}
	}
	return unused > mostUnused || size > mostUnusedBytes
}

// canChangeList reports whether commands can change a list. HAProxy keeps a first line that is for no name.
func canChangeList(desired, running ir.CertificateList) bool {
	return desired.First == nil || running.First != nil && desired.First.String() == running.First.String()
}

// missingLines returns the lines of one configuration's lists that the other's lack, by file.
func missingLines(has, hasNot ir.Config) map[string][]ir.CertificateLine {
	missing := map[string][]ir.CertificateLine{}
	for name, list := range has.Certificates {
		other := hasNot.Certificates[name]
		if list.First != nil && (other.First == nil || list.First.String() != other.First.String()) {
			missing[name] = append(missing[name], *list.First)
		}
		for change := range tree.Changes(other.Lines, list.Lines) {
			if !change.Had {
				missing[name] = append(missing[name], *change.New)
			}
		}
	}
	return missing
}

// sectionReason returns why the running section with the same header does not satisfy a desired one, "" if it does. The
// required lines must be the same. Of the others, there may be more, in the same order.
func sectionReason(desired, running ir.Section) string {
	if desired.Header != running.Header || !slices.Equal(exact(desired.Lines), exact(running.Lines)) {
		return desired.Reason
	}
	rest := running.Lines
	for _, line := range desired.Lines {
		i := slices.Index(rest, line)
		if i < 0 {
			return cmp.Or(line.Reason, desired.Reason)
		}
		rest = rest[i+1:]
	}
	return ""
}

// exact returns the required lines.
func exact(lines []ir.Line) []ir.Line {
	return slices.DeleteFunc(slices.Clone(lines), func(line ir.Line) bool { return line.Reason != "" })
}
