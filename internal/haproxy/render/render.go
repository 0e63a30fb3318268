package render

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/internal/few"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// Render makes the configuration of one Gateway. The same Input, in whatever order its parts are, gives the same
// configuration.
func Render(in Input) ir.Config { return new(Renderer).Render(in) }

// Renderer makes configurations of a Gateway one after the other. What a configuration has in common with the one
// before is the same pointers. It looks only at hosts that are new, and at those that may use Service ports that
// changed. A configuration is what Render makes of the same Input.
type Renderer struct {
	in Input
	// Everything depends on basis. policies are the policies of Service ports.
	basis    Input
	policies map[routing.Backend]routing.BackendPolicy
	// listed are the listeners, and known the same by name. secured are the ones that terminate TLS, and signers the CA
	// certificates for their clients, by the names of the ConfigMaps.
	listed  []routing.Listener
	known   map[string]*knownListener
	secured map[string]*secured
	signers map[string][]byte
	// mixed are the ports where TLS is passed through, too, and ofPorts those where it is terminated.
	mixed   map[int32]bool
	ofPorts map[int32]*tlsPort
	// contributions are what listeners have of certificates, names, hsts and demands what comes of that, and signed how
	// often each file of CA certificates is used.
	contributions map[string]*contribution
	names, hsts   tree.Editor[string]
	demands       map[string]ir.Demands
	signed        map[string]int
	// hosts are what the hosts of listeners were rendered to.
	hosts map[place]*fragment
	// users are the places with rules for a Service port.
	users map[routing.Backend]few.Counts[place]
	// The following fields are the sum of the fragments.
	contents    tree.Counted[*ir.Content]
	lists       tree.Counted[*ir.List]
	backends    tree.Counted[*ir.Backend]
	needs       tree.Counted[*routing.Rule]
	conditions  tree.Counted[bool]
	defaults    tree.Counted[*ir.Section]
	authorities tree.Counted[string]
	// patterns are the hostnames in hosts.map, and entries what is there. chains are how many entries lead to a number of
	// contents.
	patterns tree.Counted[pattern]
	entries  tree.Editor[string]
	chains   map[int]int
	// causes are what the sections were made for, and sections these and everything that comes with them.
	causes   causes
	sections ir.Config
	// hits are the hits of rules, which several hosts share, while one configuration is made. recording notes what is
	// added.
	hits      map[hitKey]*fragment
	recording *fragment
	// frontend are lines of features for all frontends.
	frontend []string
}

// place is a host, by the name of its listener and its key there.
type place struct{ listener, host string }

// causes are what sections depend on, beside the basis.
type causes struct {
	needs       tree.Map[*routing.Rule]
	conditions  tree.Map[bool]
	defaults    tree.Map[*ir.Section]
	authorities tree.Map[string]
	chain       int
}

// Render makes the configuration. changed are the Service ports whose state is another one than in the Input before.
func (r *Renderer) Render(in Input, changed ...routing.Backend) ir.Config {
	basis := in
	basis.Backends, basis.Certificates, basis.Certified = nil, nil, nil
	basis.Table.Policies, basis.Table.Uses, basis.Table.Listeners = nil, routing.Uses{}, nil
	isNew := r.known == nil || !reflect.DeepEqual(basis, r.basis)
	if isNew {
		r.reset(basis)
	}
	r.in, r.hits = in, map[hitKey]*fragment{}
	listeners := r.updateListeners()
	if mixed := r.mixedPorts(&listeners); !maps.Equal(mixed, r.mixed) {
		isNew = true
		r.reset(basis)
		r.in, r.hits, r.mixed = in, map[hitKey]*fragment{}, mixed
		listeners = r.updateListeners()
	}
	r.updateCertificates(listeners.changed)
	r.addHosts(&listeners, changed)
	now := causes{r.needs.Map(), r.conditions.Map(), r.defaults.Map(), r.authorities.Map(), r.longestChain()}
	if isNew || len(listeners.changed) > 0 || now != r.causes {
		r.causes = now
		r.makeSections()
	}
	made := r.sections
	made.Backends, made.Contents, made.Lists = r.backends.Map(), r.contents.Map(), r.lists.Map()
	made.Maps = maps.Clone(made.Maps)
	made.Maps[ir.HostsFile] = r.entries.Map()
	return made
}

// reset forgets everything.
func (r *Renderer) reset(basis Input) {
	*r = Renderer{
		basis: basis, known: map[string]*knownListener{}, secured: map[string]*secured{}, signers: map[string][]byte{}, hosts: map[place]*fragment{},
		users: map[routing.Backend]few.Counts[place]{}, chains: map[int]int{}, ofPorts: map[int32]*tlsPort{},
		contributions: map[string]*contribution{}, demands: map[string]ir.Demands{}, signed: map[string]int{},
	}
}

// mixedPorts returns the ports where TLS is terminated, or not spoken, and passed through as well.
func (r *Renderer) mixedPorts(listeners *changedListeners) map[int32]bool {
	if len(listeners.changed) == 0 {
		return r.mixed
	}
	mixed, all := map[int32]bool{}, r.in.Table.Listeners
	for i := 1; i < len(all); i++ {
		if all[i].Port == all[i-1].Port && passesThrough(&all[i]) != passesThrough(&all[i-1]) {
			mixed[all[i].Port] = true
		}
	}
	return mixed
}

// ports returns the ports of all listeners, sorted, each once.
func (r *Renderer) ports() []int32 {
	var all []int32
	for i := range r.in.Table.Listeners {
		all = append(all, r.in.Table.Listeners[i].Port)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// addContent adds entries under the name that begins their keys. The name identifies their content.
func (r *Renderer) addContent(file, name string, entries func() []ir.MapEntry) {
	id := ir.ContentKey(file, name)
	content, ok := r.contents.Get(id)
	if !ok {
		content = &ir.Content{File: file, Entries: entries()}
	}
	r.recording.contents = append(r.recording.contents, named[*ir.Content]{id, content})
}

// addList adds a list of regular expressions and returns its name, with this at the end.
func (r *Renderer) addList(list ir.List, end string) string {
	name := "?" + ir.ContentName(strings.Join(list.Expressions, "\n")+list.Value) + end
	r.recording.lists = append(r.recording.lists, named[*ir.List]{name, &list})
	return name
}

func entry(key, value string) ir.MapEntry {
	return ir.MapEntry{Key: ir.Quote(key, ir.InMap), Value: ir.Quote(value, ir.InMap)}
}

func isConnection(listener *routing.Listener) bool {
	return listener.Protocol == "TCP" || listener.Protocol == "TLS"
}

func isWildcard(hostname string) bool { return strings.HasPrefix(hostname, "*.") }

func hasTLS(table routing.Table) bool {
	return slices.ContainsFunc(table.Listeners, func(l routing.Listener) bool { return l.TLS != nil })
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

func itoa[T ~int | ~int32](n T) string { return strconv.Itoa(int(n)) }
