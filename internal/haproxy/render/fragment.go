package render

import (
	"gateway/internal/few"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// fragment is what a host, or the hit of a rule, adds to a configuration.
type fragment struct {
	// name is the name of the host's content, or the hit. hostname is the host's.
	name     string
	hostname string
	// prerouting is the name in filters.map of what happens to requests of the host's listener before a rule is chosen.
	prerouting string
	contents   []named[*ir.Content]
	lists      []named[*ir.List]
	uses       []use
	// needs are what the rules of a host need in haproxy.cfg, and conditions what its entries test.
	needs      []named[*routing.Rule]
	conditions []string
	// hits are the hits of the rules of a host.
	hits []*fragment
}

type named[V any] struct {
	name  string
	value V
}

// use is a Service port that requests are sent to, and its backend.
type use struct {
	ref routing.Backend
	// exists and appProtocol are the observed state of the Service port.
	exists      bool
	appProtocol string
	// name is the backend's name. It is noBackend, and backend is nil, if there can be none.
	name    string
	backend *ir.Backend
	// defaults is the section that the backend takes its settings from; nil: one that is always there.
	defaults *ir.Section
	// authority has the CA certificates that its servers are verified by; "": they are not.
	authority string
}

// record notes in a fragment what is rendered until the function that it returns is called.
func (r *Renderer) record(f *fragment) (end func()) {
	outer := r.recording
	r.recording = f
	return func() { r.recording = outer }
}

// use returns the name of the backend that gets what a rule has for a Service port, and records that.
func (r *Renderer) use(key hitKey, ref routing.Backend) string {
	state := r.in.Backends[ref]
	u := use{ref: ref, exists: state.Exists, appProtocol: state.AppProtocol, name: noBackend}
	if Usable(r.in, ref, key.rule.Kind, key.connections) {
		r.makeBackend(&u, key)
	}
	r.recording.uses = append(r.recording.uses, u)
	return u.name
}

// note records what the entries of a host need beside their contents.
func (f *fragment) note(host *routing.Host) {
	seen := map[string]bool{}
	isNew := func(name string) bool {
		known := seen[name]
		seen[name] = true
		return !known
	}
	var last *routing.Rule
	for i := range host.Entries {
		entry := &host.Entries[i]
		for _, condition := range headerConditions(entry) {
			if name := onHeader + condition.Name; isNew(name) {
				f.conditions = append(f.conditions, name)
			}
		}
		for _, condition := range entry.Query {
			if name := onQuery + condition.Name; isNew(name) {
				f.conditions = append(f.conditions, name)
			}
		}
		if entry.Rule == last {
			continue
		}
		last = entry.Rule
		if needs := filters.Needs(last); needs != "" && isNew("\n"+needs) {
			f.needs = append(f.needs, named[*routing.Rule]{needs, last})
		}
	}
}

// isCurrent reports whether a fragment would be rendered in the same way: its Service ports are what they were.
func (r *Renderer) isCurrent(f *fragment) bool {
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

// count adds n to how often a fragment, which is at a place, is in the configuration.
func (r *Renderer) count(f *fragment, at place, n int) {
	for _, content := range f.contents {
		r.contents.Count(content.name, content.value, n)
	}
	for _, list := range f.lists {
		r.lists.Count(list.name, list.value, n)
	}
	for _, needs := range f.needs {
		r.needs.Count(needs.name, needs.value, n)
	}
	for _, condition := range f.conditions {
		r.conditions.Count(condition, true, n)
	}
	for i := range f.uses {
		u := &f.uses[i]
		few.In(r.users, u.ref, at, n)
		if u.backend == nil {
			continue
		}
		r.backends.CountNew(u.name, n, func() *ir.Backend { return u.backend.WithServers(r.in.Backends[u.ref].Servers) })
		if n > 0 { // many have the same
			u.backend, _ = r.backends.Get(u.name)
		}
		if u.defaults != nil {
			r.defaults.Count(u.backend.Defaults, u.defaults, n)
		}
		if u.authority != "" {
			r.authorities.Count(authorityName([]byte(u.authority)), u.authority, n)
		}
	}
	for _, hit := range f.hits {
		r.count(hit, at, n)
	}
}
