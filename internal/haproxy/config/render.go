package config

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// Values of TARGET, see doc.go. Neither can be the name of a backend section, which starts with a letter.
const (
	targetNone  = "500"
	targetSplit = "%"
)

// Render makes the configuration of one Gateway.
func Render(in Input) Config {
	return Config{
		Skeleton: renderSkeleton(in),
		Map:      renderMap(in),
		Servers:  renderServers(in),
	}
}

// BackendName returns the name of the backend section of a Service port.
func BackendName(b routing.Backend) string {
	return quote(b.Service, inConfig) + "_" + strconv.Itoa(int(b.Port))
}

// renderServers returns the servers of every backend section. A Service that does not exist has none.
func renderServers(in Input) map[string][]Server {
	servers := map[string][]Server{}
	for _, backend := range in.Table.Backends() {
		state := in.Backends[backend]
		if !state.Exists {
			state.Servers = nil
		}
		sorted := slices.Clone(state.Servers)
		slices.SortFunc(sorted, compareServers)
		servers[BackendName(backend)] = slices.Compact(sorted)
	}
	return servers
}

func compareServers(a, b Server) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
}

// mapBuilder collects map entries. Rules share the entries of splits, so splits holds the keys of those already there.
type mapBuilder struct {
	in      Input
	entries []MapEntry
	splits  map[string]bool
}

func renderMap(in Input) []MapEntry {
	b := &mapBuilder{in: in, splits: map[string]bool{}}
	for _, listener := range in.Table.Listeners {
		b.add("l/"+strconv.Itoa(int(listener.Port))+"/"+hostKey(listener.Hostname), listener.Name)
		for _, entry := range listener.Entries {
			kind := "p/"
			if entry.PathType == routing.Exact {
				kind = "e/"
			}
			b.add(kind+listener.Name+"/"+hostKey(entry.Hostname)+entry.Path,
				entry.Route+"|"+strconv.Itoa(entry.Rule)+"|"+b.target(entry.Targets))
		}
	}
	slices.SortFunc(b.entries, compareEntries)
	version := MapEntry{Key: "version", Value: strconv.FormatInt(in.Generation, 10) + "|" + hash(b.entries)}
	i, _ := slices.BinarySearchFunc(b.entries, version, compareEntries)
	return slices.Insert(b.entries, i, version)
}

func (b *mapBuilder) add(key, value string) {
	b.entries = append(b.entries, MapEntry{Key: quote(key, inMap), Value: quote(value, inMap)})
}

// hostKey returns how a hostname is written in keys.
func hostKey(hostname string) string {
	if hostname == "" {
		return "*"
	}
	return hostname
}

// target returns the TARGET of a rule's targets, and adds the entries of a split.
func (b *mapBuilder) target(targets []routing.Target) string {
	switch len(targets) {
	case 0:
		return targetNone
	case 1:
		return b.section(targets[0].Backend)
	}
	sections := make([]string, len(targets))
	for i, target := range targets {
		sections[i] = b.section(target.Backend)
	}
	backends := strings.Join(sections, ",")
	if b.once("t/" + backends) {
		for i, section := range sections {
			b.add("t/"+backends+"/"+strconv.Itoa(i), section)
		}
	}
	proportion := proportions(targets)
	weights := joinWeights(proportion)
	if b.once("w/" + weights) {
		for _, share := range shares(proportion) {
			b.add("w/"+weights+"/"+share.Prefix, strconv.Itoa(share.Index))
		}
	}
	return targetSplit + "|" + weights + "|" + backends
}

// section returns the backend section that gets the requests for a backend, or targetNone if the Service does not exist.
func (b *mapBuilder) section(backend routing.Backend) string {
	if !b.in.Backends[backend].Exists {
		return targetNone
	}
	return BackendName(backend)
}

// once says whether it is called with this key for the first time.
func (b *mapBuilder) once(key string) bool {
	if b.splits[key] {
		return false
	}
	b.splits[key] = true
	return true
}

func compareEntries(a, b MapEntry) int { return strings.Compare(a.Key, b.Key) }

// hash returns a short name for the content of a map.
func hash(entries []MapEntry) string {
	h := fnv.New64a()
	for _, entry := range entries {
		// Writing to a hash never fails.
		_, _ = h.Write([]byte(entry.Key + " " + entry.Value + "\n"))
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
