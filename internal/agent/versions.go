package agent

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	appv1 "gateway/api/app/v1"
)

const (
	// notListed is the version of a resource in a namespace whose objects have not been listed yet, or may not be.
	notListed = "0"
	// maxExceptions is the most exceptions that a report lists.
	maxExceptions = 1024
)

// Versions are up to which version the objects of the Gateway API were taken in.
type Versions struct {
	// Base is the version up to which all that is followed was taken in, except Exceptions; "": nobody knows.
	Base string
	// Exceptions are resources and namespaces of which more than that was taken in, or of which nothing is known.
	Exceptions []appv1.ProxiedResource
	// Edits counts the changes that somebody may wait for. Versions that differ in nothing else are reported with the next
	// change: they come from status writes, and from an API server that tells that nothing happened.
	Edits int64
}

// newVersions returns the versions of what is followed. of has the version up to which each resource and namespace was
// taken in, by its list, its events and bookmarks; "": it has not been listed.
func newVersions(of []appv1.ProxiedResource, edits int64) Versions {
	versions := Versions{Edits: edits}
	for _, one := range of {
		if isVersion(one.ResourceVersion) && (versions.Base == "" || compareVersions(one.ResourceVersion, versions.Base) < 0) {
			versions.Base = one.ResourceVersion
		}
	}
	var newer []appv1.ProxiedResource
	for _, one := range of {
		switch {
		case !isVersion(one.ResourceVersion):
			one.ResourceVersion = notListed
			versions.Exceptions = append(versions.Exceptions, one)
		case one.ResourceVersion != versions.Base:
			newer = append(newer, one)
		}
	}
	if len(versions.Exceptions) > maxExceptions { // a base would claim too much without them
		versions.Base, versions.Exceptions = "", nil
	}
	// The newest are those that somebody waits for. The others wait for the base.
	slices.SortFunc(newer, func(a, b appv1.ProxiedResource) int { return compareVersions(b.ResourceVersion, a.ResourceVersion) })
	versions.Exceptions = append(versions.Exceptions, newer[:min(len(newer), maxExceptions-len(versions.Exceptions))]...)
	slices.SortFunc(versions.Exceptions, func(a, b appv1.ProxiedResource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
	})
	return versions
}

// isVersion reports whether a version can be compared.
func isVersion(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

// compareVersions compares versions that can be compared.
func compareVersions(a, b string) int {
	order, _ := resourceversion.CompareResourceVersion(a, b)
	return order
}
