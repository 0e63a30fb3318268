package render

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Render makes the configuration of one Gateway. The same Input, in whatever order its parts are, gives the same
// configuration.
func Render(in Input) ir.Config {
	if in.Cache == nil {
		in.Cache = &Cache{}
	}
	in.Cache.prepare(&in)
	last := &in.Cache.last
	r := renderer{in: in, hits: map[hitKey]*fragment{}, defaults: map[string]ir.Section{}, config: ir.Config{
		Backends: make(map[string]*ir.Backend, len(last.Backends)), Contents: make(map[string]ir.Content, len(last.Contents)),
		Lists: make(map[string][]string, len(last.Lists)), Files: map[string][]byte{}, Certificates: map[string]ir.CertificateList{},
		Maps: map[string]map[string]string{
			ir.HostsFile: make(map[string]string, len(last.Maps[ir.HostsFile])), ir.NamesFile: {}, ir.HSTSFile: {}, ir.KeySetsFile: {}, ir.PodsFile: {ir.PodsKey: ir.PodID("")},
		},
	}}
	r.kept = make(map[hostKind]*fragment, len(in.Cache.hosts))
	for _, port := range r.ports() {
		r.addHosts(port)
		r.addCertificates(port)
	}
	r.addAuthorities()
	r.addSections()
	in.Cache.hosts, in.Cache.last = r.kept, r.config
	return r.config
}

// renderer collects the parts of a configuration.
type renderer struct {
	in     Input
	config ir.Config
	// defaults are the sections that backends take their settings from, beside those that are always there, by name.
	defaults map[string]ir.Section
	// hits are the hits of rules, which several entries share.
	hits map[hitKey]*fragment
	// recording notes what is added, and kept are the hosts for the Cache.
	recording *fragment
	kept      map[hostKind]*fragment
	// frontend are lines of features for all frontends.
	frontend []string
	// chain is the length of the longest chain of hosts.
	chain int
}

// ports returns the ports of all listeners, sorted, each once.
func (r *renderer) ports() []int32 {
	var all []int32
	for i := range r.in.Table.Listeners {
		all = append(all, r.in.Table.Listeners[i].Port)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// addContent adds entries under the name that begins their keys, unless they exist. The name identifies their content.
func (r *renderer) addContent(file, name string, entries func() []ir.MapEntry) {
	id := file + " " + name
	content, ok := r.config.Contents[id]
	if !ok {
		content = ir.Content{File: file, Entries: entries()}
		r.config.Contents[id] = content
	}
	r.recording.contents = append(r.recording.contents, namedContent{id, content})
}

// addList adds a list of regular expressions and returns its name, with this at the end.
func (r *renderer) addList(expressions []string, end string) string {
	name := "?" + ir.ContentName(strings.Join(expressions, "\n")) + end
	r.config.Lists[name] = expressions
	r.recording.lists = append(r.recording.lists, namedList{name, expressions})
	return name
}

func entry(key, value string) ir.MapEntry {
	return ir.MapEntry{Key: ir.Quote(key, ir.InMap), Value: ir.Quote(value, ir.InMap)}
}

func isConnection(listener *routing.Listener) bool {
	return listener.Protocol == "TCP" || listener.Protocol == "TLS"
}

// requiresClient reports whether a client of a listener must have a certificate.
func requiresClient(listener *routing.Listener) bool {
	return listener.TLS != nil && len(listener.TLS.ClientCAs) > 0 && listener.TLS.ClientRequired
}

func isWildcard(hostname string) bool { return strings.HasPrefix(hostname, "*.") }

func hasTLS(table routing.Table) bool {
	return slices.ContainsFunc(table.Listeners, func(l routing.Listener) bool { return l.TLS != nil })
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

func itoa[T ~int | ~int32](n T) string { return strconv.Itoa(int(n)) }
