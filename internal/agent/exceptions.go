package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
)

// HAProxy shows a client the certificate of a wildcard before one of the name itself, if only the former has a key of a
// better type. The line of the wildcard excepts such names. HAProxy reads lines of some length alone, so these bound
// what a line excepts: names, and their bytes.
const (
	mostExceptions     = 1000
	mostExceptionBytes = 12 << 10
)

// keyTypes are the key types of all certificates. hasWildcard reports whether one is for a wildcard.
type keyTypes struct {
	types       map[string]bool
	hasWildcard bool
}

func (k *keyTypes) add(found []render.Certificate) {
	for _, certificate := range found {
		if !k.types[certificate.KeyType] {
			k.types = maps.Clone(k.types)
			if k.types == nil {
				k.types = map[string]bool{}
			}
			k.types[certificate.KeyType] = true
		}
		k.hasWildcard = k.hasWildcard || slices.ContainsFunc(certificate.Names, func(name string) bool { return strings.HasPrefix(name, "*.") })
	}
}

// mayBeExcepted reports whether a name may have no certificate with a key of the type that a wildcard's has.
func (k *keyTypes) mayBeExcepted() bool { return k.hasWildcard && len(k.types) > 1 }

// keyAt is a name of a port, and the type of a key.
type keyAt struct {
	port          int32
	name, keyType string
}

// excepted counts what the line of a wildcard excepts.
type excepted struct{ names, bytes int }

// limitExceptions leaves out certificates whose names are too many for the lines of their wildcards. It begins with
// the youngest listeners, so that a new listener takes no certificate from an older one.
func (c *collector) limitExceptions(table *routing.Table) {
	for _, found := range c.certificates {
		c.keys.add(found)
	}
	if !c.keys.mayBeExcepted() {
		return
	}
	types := c.keys.types
	has, wildcards := map[keyAt]bool{}, map[keyAt]*excepted{}
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		for _, certificate := range c.certificates[listener.Name] {
			for _, name := range certificate.Names {
				key := keyAt{listener.Port, name, certificate.KeyType}
				if has[key] = true; strings.HasPrefix(name, "*.") {
					wildcards[key] = &excepted{}
				}
			}
		}
	}
	for _, listener := range byAge(table) {
		kept := c.certificates[listener.Name]
		for _, certificate := range kept {
			if wildcard := tooMany(listener.Port, certificate, types, has, wildcards); wildcard != "" {
				c.problem(listener.Name, kindSecret, certificate.Secret, fmt.Sprintf(
					"too many names have no certificate with a key of the type of that for %s: use such a key", wildcard))
				kept = slices.DeleteFunc(slices.Clone(kept), func(other render.Certificate) bool { return other.Secret == certificate.Secret })
			}
		}
		if c.certificates[listener.Name] = kept; len(kept) == 0 {
			delete(c.certificates, listener.Name)
		}
	}
}

// byAge returns the listeners of a table, the oldest first.
func byAge(table *routing.Table) []*routing.Listener {
	all := make([]*routing.Listener, len(table.Listeners))
	for i := range table.Listeners {
		all[i] = &table.Listeners[i]
	}
	slices.SortFunc(all, func(a, b *routing.Listener) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// tooMany adds the names of a certificate to those that wildcards except. It returns a wildcard with too many.
func tooMany(port int32, certificate render.Certificate, types map[string]bool, has map[keyAt]bool, wildcards map[keyAt]*excepted) string {
	for _, name := range certificate.Names {
		_, below, _ := strings.Cut(name, ".")
		if strings.HasPrefix(name, "*.") {
			continue
		}
		for keyType := range types {
			line := wildcards[keyAt{port, "*." + below, keyType}]
			if line == nil || has[keyAt{port, name, keyType}] {
				continue
			}
			if line.names++; line.names > mostExceptions || line.bytes+len(name)+2 > mostExceptionBytes {
				return "*." + below
			}
			line.bytes += len(name) + 2
		}
	}
	return ""
}
