package render

import (
	"slices"
	"strconv"
	"strings"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Names of backends that answer requests. Names of Service ports have a "_".
const (
	noRoute   = "no-route"
	noBackend = "no-backend"
	tooLong   = "too-long"
	answered  = "answer"
)

// tooLongHit is the hit of a request with something that is too long to be compared.
const tooLongHit = "|-|-|" + tooLong

// exactEnd is at the end of exact paths in keys, after a slash. A path that requests are compared by has none.
const exactEnd = "/>"

// addHosts adds what leads from the hosts of a port to rules.
func (r *renderer) addHosts(port int32) {
	// names are those of the contents of each listener's hosts.
	names := map[*routing.Listener]map[string]string{}
	var patterns []string
	for i := range r.in.Table.Listeners {
		listener := &r.in.Table.Listeners[i]
		if listener.Port != port {
			continue
		}
		patterns = append(patterns, listener.Hostname)
		names[listener] = make(map[string]string, len(listener.Hosts))
		for _, host := range listener.Hosts {
			names[listener][host.Name] = r.addHost(listener, host)
			if pattern := narrower(listener.Hostname, host.Name); pattern != listener.Hostname {
				patterns = append(patterns, pattern)
			}
		}
		if tls := listener.TLS; tls != nil && tls.HSTS != "" {
			r.config.Maps[ir.HSTSFile][listenerName(listener)] = ir.Quote(tls.HSTS, "%;"+ir.InConfig)
		}
	}
	mixed := isMixed(r.in.Table, port)
	for _, pattern := range patterns {
		if listener := r.in.Table.ListenerFor(port, pattern); listener != nil {
			chain := chain(names[listener], pattern)
			r.chain = max(r.chain, len(chain))
			value := strings.Join(append([]string{listenerName(listener)}, chain...), "|")
			r.config.Maps[ir.HostsFile][ir.Quote(hostKey(itoa(port), pattern), ir.InMap)] = value
			if mixed {
				if !passesThrough(listener) {
					value = opened
				}
				r.config.Maps[ir.HostsFile][ir.Quote(hostKey(entrance(port), pattern), ir.InMap)] = value
			}
		}
	}
}

// narrower returns the narrower of two hostnames that overlap.
func narrower(a, b string) string {
	if len(b) > len(a) || b != "" && !isWildcard(b) {
		return b
	}
	return a
}

// chain returns the names of the contents that requests for a hostname, exact or a wildcard, are looked up in, in this
// order: those of the hostname itself, then those of wildcards that include it, the longest first, then those of all
// hosts.
func chain(names map[string]string, hostname string) []string {
	var all []string
	add := func(hostname string) {
		if name, ok := names[hostname]; ok {
			all = append(all, name)
		}
	}
	rest := hostname
	if rest != "" {
		add(rest)
		_, rest, _ = strings.Cut(strings.TrimPrefix(rest, "*."), ".")
		for ; rest != ""; _, rest, _ = strings.Cut(rest, ".") {
			add("*." + rest)
		}
	}
	add("")
	return all
}

// hostKey returns the key of a hostname of a frontend: reversed, so that the longest key that a host begins with is
// that of the most specific hostname. That of an exact one ends in "!".
func hostKey(frontend, hostname string) string {
	key := frontend + "/"
	switch {
	case hostname == "":
		return key
	case isWildcard(hostname):
		return key + reverse(hostname[1:])
	}
	return key + reverse(hostname) + "!"
}

func reverse(s string) string {
	bytes := []byte(s)
	slices.Reverse(bytes)
	return string(bytes)
}

// addHost adds the content of a host and returns its name. What it was rendered to before is used again.
func (r *renderer) addHost(listener *routing.Listener, host *routing.Host) string {
	kind := hostKind{host, isConnection(listener), passesThrough(listener)}
	f := r.in.Cache.hosts[kind]
	if f != nil && r.isCurrent(f) {
		r.add(f)
	} else {
		f = &fragment{}
		end := r.record(f)
		f.name = r.renderHost(listener, host)
		end()
	}
	r.kept[kind] = f
	return f.name
}

// renderHost adds the content of a host and returns its name. Its entries are in the order of precedence: exact paths,
// then regular expressions, then prefixes, the longest first.
func (r *renderer) renderHost(listener *routing.Listener, host *routing.Host) string {
	var entries []ir.MapEntry
	add := func(path, value string) { entries = append(entries, entry(path, value)) }
	var regexes, prefixes []routing.Entry
	for group := range groups(host.Entries) {
		switch group[0].PathType {
		case routing.Exact:
			add(group[0].Path+exactEnd, r.value(listener, group))
		case routing.Regex:
			regexes = append(regexes, group...)
		default:
			prefixes = append(prefixes, group...)
		}
	}
	if len(regexes) > 0 {
		add("~", r.list(listener, regexes))
	}
	for i := range prefixes {
		if i > 0 && samePath(&prefixes[i-1], &prefixes[i]) {
			continue
		}
		value := r.value(listener, withFallbacks(prefixes, i))
		if len(regexes) > 0 && value[0] != '?' {
			// Regular expressions come before prefixes, so no prefix ends the search before they are tried.
			value = r.list(listener, withFallbacks(prefixes, i))
		}
		add(prefixes[i].Path, value)
	}
	name, content := ir.NewContent(ir.PathsFile, entries)
	r.addContent(ir.PathsFile, name, func() []ir.MapEntry { return content.Entries })
	return name
}

// groups returns the entries of each path.
func groups(entries []routing.Entry) func(yield func([]routing.Entry) bool) {
	return func(yield func([]routing.Entry) bool) {
		for len(entries) > 0 {
			n := 1
			for n < len(entries) && samePath(&entries[0], &entries[n]) {
				n++
			}
			if !yield(entries[:n:n]) {
				return
			}
			entries = entries[n:]
		}
	}
}

func samePath(a, b *routing.Entry) bool { return a.PathType == b.PathType && a.Path == b.Path }

// withFallbacks returns the entries of the prefix at an index. Where a request may pass by all of them, those of the
// shorter prefixes that include it follow.
func withFallbacks(prefixes []routing.Entry, i int) []routing.Entry {
	n := 1
	for i+n < len(prefixes) && samePath(&prefixes[i], &prefixes[i+n]) {
		n++
	}
	group := prefixes[i : i+n : i+n]
	for j := i + n; j < len(prefixes) && group[len(group)-1].Conditional(); j++ {
		if strings.HasPrefix(prefixes[i].Path, prefixes[j].Path) {
			group = append(group, prefixes[j])
		}
	}
	return group
}

// value returns what stands for the entries of a path, of which a request takes the first whose conditions it meets: a
// hit, or a list.
func (r *renderer) value(listener *routing.Listener, entries []routing.Entry) string {
	if !entries[0].Conditional() {
		return r.hit(listener, &entries[0])
	}
	return r.list(listener, entries)
}

// list adds a list of entries and the hits of each, and returns what names both: "?LIST|HITS".
func (r *renderer) list(listener *routing.Listener, entries []routing.Entry) string {
	list := make([]*routing.Entry, len(entries))
	for i := range entries {
		list[i] = &entries[i]
	}
	expressions := longExpressions(list)
	hits := slices.Repeat([]string{tooLongHit}, len(expressions))
	for _, entry := range list {
		expressions, hits = append(expressions, conditionExpression(entry)), append(hits, r.hit(listener, entry))
	}
	end := ""
	if slices.ContainsFunc(entries, func(e routing.Entry) bool { return len(e.Query) > 0 }) {
		end = asksQuery
	}
	name := r.addList(expressions, end) + "|" + ir.ContentName(strings.Join(hits, "\n"))
	r.addContent(ir.ListsFile, name, func() []ir.MapEntry { return numbered(name, hits) })
	return name
}

// numbered returns entries with the keys 0NAME, 1NAME and so on.
func numbered(name string, values []string) []ir.MapEntry {
	entries := make([]ir.MapEntry, len(values))
	for i, value := range values {
		entries[i] = entry(strconv.Itoa(i)+name, value)
	}
	return entries
}

// hitKey tells hits apart.
type hitKey struct {
	rule *routing.Rule
	// connections says that the rule is for connections, not for requests, passthrough that their TLS is not touched.
	connections, passthrough bool
	// cut is how many bytes a prefix has that is replaced.
	cut int
}

// hit returns what a request meets with an entry: FILTERS|ROUTE|RULE|BACKEND, or, where weights choose among several
// such, %WEIGHTS|TARGETS.
func (r *renderer) hit(listener *routing.Listener, entry *routing.Entry) string {
	key := hitKey{rule: entry.Rule, connections: isConnection(listener), passthrough: passesThrough(listener)}
	if entry.PathType == routing.Prefix && filters.CutsPrefix(entry.Rule) {
		key.cut = len(entry.Path) - len("/")
	}
	hit := r.hits[key]
	if hit == nil {
		hit = &fragment{}
		end := r.record(hit)
		hit.name = r.makeHit(key)
		end()
		r.hits[key] = hit
	}
	r.recording.hits = append(r.recording.hits, hit)
	return hit.name
}

func (r *renderer) makeHit(key hitKey) string {
	rule := key.rule
	switch {
	case rule.Redirect != nil || rule.Response != nil:
		return r.targetHit(key, nil, answered)
	case len(rule.Targets) == 0:
		return r.targetHit(key, nil, noBackend)
	case len(rule.Targets) == 1:
		return r.targetHit(key, &rule.Targets[0], r.use(key, rule.Targets[0].Backend))
	}
	hits := make([]string, len(rule.Targets))
	for i := range rule.Targets {
		hits[i] = r.targetHit(key, &rule.Targets[i], r.use(key, rule.Targets[i].Backend))
	}
	proportion := proportions(rule.Targets)
	weights := "%" + joinWeights(proportion)
	r.addContent(ir.SplitsFile, weights, func() []ir.MapEntry {
		var entries []ir.MapEntry
		for _, share := range shares(proportion) {
			entries = append(entries, entry(weights+"/"+share.Prefix, strconv.Itoa(share.Index)))
		}
		return entries
	})
	split := weights + "|" + ir.ContentName(strings.Join(hits, "\n"))
	r.addContent(ir.SplitsFile, split, func() []ir.MapEntry { return numbered(split, hits) })
	return split
}

// targetHit returns the hit of a rule whose requests go to a backend.
func (r *renderer) targetHit(key hitKey, target *routing.Target, backend string) string {
	rule, name := key.rule, ""
	if !key.connections {
		list := func(expressions []string) string { return r.addList(expressions, "") }
		backendFor := func(backend routing.Backend) string {
			if used := r.use(hitKey{rule: &routing.Rule{}}, backend); used != noBackend {
				return used
			}
			return ""
		}
		value := filters.Encode(filters.Input{Rule: rule, Target: target, Cut: key.cut, List: list, Content: r.addNamed, BackendFor: backendFor})
		if value != "" {
			name = ir.ContentName(value)
			r.addContent(ir.FiltersFile, name, func() []ir.MapEntry { return []ir.MapEntry{entry(name, value)} })
		}
	}
	return strings.Join([]string{name, ir.Quote(rule.LogName(), ir.InField), itoa(rule.Index), backend}, "|")
}

// addNamed adds entries of a map, which a rule has together, and returns their name.
func (r *renderer) addNamed(file string, entries func() []ir.MapEntry) string {
	name, content := ir.NewContent(file, entries())
	r.addContent(file, name, func() []ir.MapEntry { return content.Entries })
	return name
}

// listenerName returns how a listener is named in maps.
func listenerName(listener *routing.Listener) string { return ir.Quote(listener.Name, ir.InField) }
