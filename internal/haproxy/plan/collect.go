package plan

import (
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
)

// Unused is the part of the running configuration that nothing refers to, by name.
type Unused struct {
	Backends, Contents, Lists map[string]bool
}

// FindUnused returns the part of the running configuration that is not desired.
func FindUnused(desired, running ir.Config) Unused {
	return Unused{
		Backends: minus(running.Backends, desired.Backends),
		Contents: minus(running.Contents, desired.Contents),
		Lists:    minus(running.Lists, desired.Lists),
	}
}

// IsEmpty reports whether nothing is unused.
func (u Unused) IsEmpty() bool { return len(u.Backends)+len(u.Contents)+len(u.Lists) == 0 }

// minus returns the names that are in one map only.
func minus[V, W any](all map[string]V, without map[string]W) map[string]bool {
	names := map[string]bool{}
	for name := range all {
		if _, ok := without[name]; !ok {
			names[name] = true
		}
	}
	return names
}

// Without returns what is still unused by a newly desired configuration.
func (u Unused) Without(desired ir.Config) Unused {
	return Unused{Backends: minus(u.Backends, desired.Backends), Contents: minus(u.Contents, desired.Contents), Lists: minus(u.Lists, desired.Lists)}
}

// Removal is what to delete from a running HAProxy, in this order.
type Removal struct {
	// Keys are the keys of entries to delete from map files, by file.
	Keys map[string][]string
	// Conditions are what ConditionsFile is to hold; nil: it stays as it is.
	Conditions []ir.MapEntry
	// Backends are backends to delete, with their servers, by name. HAProxy deletes none that still has streams.
	Backends map[string]*ir.Backend
	// After is what runs then, with the backends.
	After ir.Config
}

// Collect returns how to delete what is unused, once no request can refer to it.
func Collect(unused Unused, running ir.Config) Removal {
	removal := Removal{Keys: map[string][]string{}, Backends: map[string]*ir.Backend{}, After: running}
	removal.After.Contents, removal.After.Lists = maps.Clone(running.Contents), maps.Clone(running.Lists)
	for _, id := range slices.Sorted(maps.Keys(unused.Contents)) {
		content := running.Contents[id]
		for _, entry := range content.Entries {
			removal.Keys[content.File] = append(removal.Keys[content.File], entry.Key)
		}
		delete(removal.After.Contents, id)
	}
	if len(unused.Lists) > 0 {
		maps.DeleteFunc(removal.After.Lists, func(name string, _ []string) bool { return unused.Lists[name] })
		if removal.Conditions = ir.ConditionEntries(removal.After.Lists); removal.Conditions == nil {
			removal.Conditions = []ir.MapEntry{}
		}
	}
	for name := range unused.Backends {
		removal.Backends[name] = running.Backends[name]
	}
	return removal
}
