package plan

import (
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/tree"
)

// Unused is the part of the running configuration that nothing refers to, by name.
type Unused struct {
	Backends, Contents, Lists map[string]bool
}

// FindUnused returns the part of the running configuration that is not desired.
func FindUnused(desired, running ir.Config) Unused {
	return Unused{
		Backends: undesired(running.Backends, desired.Backends),
		Contents: undesired(running.Contents, desired.Contents),
		Lists:    undesired(running.Lists, desired.Lists),
	}
}

// IsEmpty reports whether nothing is unused.
func (u Unused) IsEmpty() bool { return len(u.Backends)+len(u.Contents)+len(u.Lists) == 0 }

// undesired returns the names of what runs and is not desired.
func undesired[V comparable](running, desired tree.Map[V]) map[string]bool {
	names := map[string]bool{}
	for change := range tree.Changes(desired, running) {
		if !change.Had {
			names[change.Key] = true
		}
	}
	return names
}

// Without returns what is still unused by a newly desired configuration.
func (u Unused) Without(desired ir.Config) Unused {
	return Unused{
		Backends: without(u.Backends, desired.Backends), Contents: without(u.Contents, desired.Contents), Lists: without(u.Lists, desired.Lists),
	}
}

// without returns the names that are no keys of a map.
func without[V comparable](names map[string]bool, desired tree.Map[V]) map[string]bool {
	names = maps.Clone(names)
	maps.DeleteFunc(names, func(name string, _ bool) bool {
		_, ok := desired.Get(name)
		return ok
	})
	return names
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
	contents, lists := running.Contents.Edit(), running.Lists.Edit()
	for _, id := range slices.Sorted(maps.Keys(unused.Contents)) {
		content := running.Contents.Value(id)
		for _, entry := range content.Entries {
			removal.Keys[content.File] = append(removal.Keys[content.File], entry.Key)
		}
		contents.Delete(id)
	}
	for name := range unused.Lists {
		lists.Delete(name)
	}
	removal.After.Contents, removal.After.Lists = contents.Map(), lists.Map()
	if len(unused.Lists) > 0 {
		if removal.Conditions = ir.ConditionEntries(removal.After.Lists); removal.Conditions == nil {
			removal.Conditions = []ir.MapEntry{}
		}
	}
	for name := range unused.Backends {
		removal.Backends[name] = running.Backends.Value(name)
	}
	return removal
}
