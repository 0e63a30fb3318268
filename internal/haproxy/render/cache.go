package render

import (
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Cache keeps what hosts were rendered to, for the next configuration that has some of them: an edit of one route costs
// little for the hosts of others. The zero value is empty.
type Cache struct {
	hosts    map[hostKind]*fragment
	backends map[string]keptBackend
}

// keptBackend is a backend and the servers that it was made of, in their order.
type keptBackend struct {
	*ir.Backend
	from []ir.Server
}

// hostKind is a host, and what of its listener decides what it is rendered to.
type hostKind struct {
	host                     *routing.Host
	connections, passthrough bool
}

// fragment is what a host, or the hit of a rule, adds to a configuration.
type fragment struct {
	// name is that of the content of the host, or the hit.
	name     string
	contents []namedContent
	lists    []namedList
	uses     []use
	// hits are those of the rules of a host.
	hits []*fragment
}

type namedContent struct {
	id string
	ir.Content
}

type namedList struct {
	name        string
	expressions []string
}

// use is a Service port that requests are sent to, and the name of its backend.
type use struct {
	key hitKey
	ref routing.Backend
	// optional says that there is no name if it is not usable.
	optional bool
	name     string
}

// record notes in a fragment what is rendered until the function that it returns is called.
func (r *renderer) record(f *fragment) (end func()) {
	outer := r.recording
	r.recording = f
	return func() { r.recording = outer }
}

// use returns the name of the backend of a Service port, and records it.
func (r *renderer) use(u use) string {
	u.name = r.backendOf(u)
	r.recording.uses = append(r.recording.uses, u)
	return u.name
}

// backendOf returns the name of the backend of a Service port as it is now, and adds the backend.
func (r *renderer) backendOf(u use) string {
	if u.optional && !Usable(r.in, u.ref, false) {
		return ""
	}
	return r.backend(u.key, u.ref)
}

// isCurrent says whether a fragment would be rendered in the same way: its Service ports are what they were.
func (r *renderer) isCurrent(f *fragment) bool {
	for _, u := range f.uses {
		if r.backendOf(u) != u.name {
			return false
		}
	}
	for _, hit := range f.hits {
		if !r.isCurrent(hit) {
			return false
		}
	}
	return true
}

// add adds a fragment to the configuration. Its backends are there already.
func (r *renderer) add(f *fragment) {
	for _, content := range f.contents {
		r.config.Contents[content.id] = content.Content
	}
	for _, list := range f.lists {
		r.config.Lists[list.name] = list.expressions
	}
	for _, hit := range f.hits {
		r.add(hit)
	}
}

// keepBackend returns a backend with these servers. If it is as it was before, it is the same pointer.
func (r *renderer) keepBackend(name string, backend ir.Backend, servers []ir.Server) *ir.Backend {
	kept := r.in.Cache.backends[name]
	if kept.Backend == nil || kept.Defaults != backend.Defaults || kept.Mode != backend.Mode || kept.Settings != backend.Settings ||
		!isSame(kept.from, servers) {
		backend.Servers = ir.SortServers(servers)
		kept = keptBackend{&backend, servers}
	}
	r.keptBackends[name] = kept
	return kept.Backend
}

// isSame says whether two slices are one.
func isSame(a, b []ir.Server) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
