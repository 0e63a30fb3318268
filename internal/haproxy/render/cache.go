package render

import (
	"reflect"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// Cache keeps what hosts were rendered to, for the next configuration that has some of them: an edit of one route costs
// little for the hosts of others. The zero value is empty.
type Cache struct {
	basis basis
	hosts map[hostKind]*fragment
	// last is the configuration that they are in.
	last ir.Config
}

// basis is what everything depends on that is kept.
type basis struct {
	policies              map[routing.Backend]routing.BackendPolicy
	authorities           map[string][]byte
	backendCertificate    string
	hasBackendCertificate bool
	errorPages            map[int32]model.ErrorPage
	paths                 ir.Paths
}

// prepare forgets what depends on another basis.
func (c *Cache) prepare(in *Input) {
	now := basis{in.Table.Policies, in.Authorities, in.Table.BackendCertificate, in.HasBackendCertificate, in.Table.ErrorPages, in.Paths}
	if !reflect.DeepEqual(c.basis, now) {
		*c = Cache{basis: now}
	}
}

// hostKind is a host with the settings of its listener that it is rendered with.
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

// use is a Service port that requests are sent to, and its backend.
type use struct {
	ref routing.Backend
	// exists and appProtocol are what was observed of it.
	exists      bool
	appProtocol string
	// name is that of the backend. It is noBackend, and backend is nil, if there can be none.
	name    string
	backend *ir.Backend
	// defaults is the section that the backend takes its settings from; nil: one that is always there.
	defaults *ir.Section
}

// record notes in a fragment what is rendered until the function that it returns is called.
func (r *renderer) record(f *fragment) (end func()) {
	outer := r.recording
	r.recording = f
	return func() { r.recording = outer }
}

// use returns the name of the backend that gets what a rule has for a Service port, adds it, and records that.
func (r *renderer) use(key hitKey, ref routing.Backend) string {
	state := r.in.Backends[ref]
	u := use{ref: ref, exists: state.Exists, appProtocol: state.AppProtocol, name: noBackend}
	if Usable(r.in, ref, key.rule.Kind, key.connections) {
		r.makeBackend(&u, key)
	}
	r.recording.uses = append(r.recording.uses, u)
	r.addBackend(&u)
	return u.name
}

// isCurrent reports whether a fragment would be rendered in the same way: its Service ports are what they were.
func (r *renderer) isCurrent(f *fragment) bool {
	for i := range f.uses {
		u := &f.uses[i]
		if state := r.in.Backends[u.ref]; state.Exists != u.exists || state.AppProtocol != u.appProtocol {
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

// add adds a fragment to the configuration.
func (r *renderer) add(f *fragment) {
	for i := range f.uses {
		r.addBackend(&f.uses[i])
	}
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

// addBackend adds the backend of a Service port with the servers that it has now. If it is as it was before, it is the
// same pointer.
func (r *renderer) addBackend(u *use) {
	if u.backend == nil || r.config.Backends[u.name] != nil {
		return
	}
	servers := r.in.Backends[u.ref].Servers
	backend := r.in.Cache.last.Backends[u.name]
	if backend == nil || !isSame(backend.Servers, servers) {
		backend = u.backend.WithServers(u.name, servers)
	}
	r.config.Backends[u.name] = backend
	if u.defaults != nil {
		r.defaults[u.backend.Defaults] = *u.defaults
	}
}

// isSame reports whether two slices are one.
func isSame(a, b []ir.Server) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
