package agent

import (
	"cmp"
	"slices"
	"strconv"

	appv1 "gateway/api/app/v1"
)

// maxExceptions is the most exceptions that a report lists.
const maxExceptions = 1024

// Versions are up to which version the objects of the Gateway API were taken in.
type Versions struct {
	// Base is the version up to which all that is followed was taken in, except Exceptions; "": unknown.
	Base string
	// Exceptions are resources and namespaces of which more than that was taken in, or of which nothing is known.
	Exceptions []appv1.ProxiedResource
	// Watch is how the pod watches: Cluster if it needs no permission for single namespaces.
	Watch appv1.WatchMode
	// Edits counts the changes that somebody may wait for. Versions that differ in nothing else are reported with the next
	// change: they come from status writes, and from an API server that tells that nothing happened.
	Edits int64
}

// progress is up to which version the objects of a resource and namespace were taken in: by its list, its events and
// bookmarks; 0: that is not known. last is the version of the newest event among them.
type progress struct {
	resource, namespace string
	seen, last          uint64
}

func (p progress) exception() appv1.ProxiedResource {
	return appv1.ProxiedResource{Resource: p.resource, Namespace: p.namespace, ResourceVersion: strconv.FormatUint(p.last, 10)}
}

// newVersions returns the versions of what is followed.
func newVersions(of []progress) Versions {
	base := uint64(0)
	for _, one := range of {
		if one.seen > 0 && (base == 0 || one.seen < base) {
			base = one.seen
		}
	}
	var behind, newer []progress
	for _, one := range of {
		switch {
		case one.seen == 0:
			behind = append(behind, one)
		case one.last > base:
			newer = append(newer, one)
		}
	}
	var versions Versions
	if len(behind) > maxExceptions { // a base would claim too much without them
		base, behind = 0, nil
	}
	if base > 0 {
		versions.Base = strconv.FormatUint(base, 10)
	}
	// The newest are those that somebody waits for. The others wait for the base.
	slices.SortFunc(newer, func(a, b progress) int { return cmp.Compare(b.last, a.last) })
	for _, one := range slices.Concat(behind, newer[:min(len(newer), maxExceptions-len(behind))]) {
		versions.Exceptions = append(versions.Exceptions, one.exception())
	}
	slices.SortFunc(versions.Exceptions, func(a, b appv1.ProxiedResource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
	})
	return versions
}

// versionOf reads a resourceVersion; 0: it cannot be compared.
func versionOf(version string) uint64 {
	number, _ := strconv.ParseUint(version, 10, 64)
	return number
}
