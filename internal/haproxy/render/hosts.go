package render

import (
	"cmp"
	"reflect"
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

// pattern is a hostname of a port in hosts.map.
type pattern struct {
	port     int32
	hostname string
}

func (p pattern) key() string { return itoa(p.port) + "/" + routing.HostKey(p.hostname) }

// addHosts renders the hosts that are new, and those with rules for Service ports that changed.
func (r *Renderer) addHosts(listeners *changedListeners, changed []routing.Backend) {
	stale := listeners.stale
	others := r.changedPolicies()
	for _, backend := range slices.Concat(changed, others) {
		for at := range r.users[backend].All() {
			if _, ok := stale[at]; !ok && r.hosts[at] != nil && (slices.Contains(others, backend) || !r.isCurrent(r.hosts[at])) {
				stale[at] = r.known[at.listener].Hosts.Value(at.host)
			}
		}
	}
	r.replace(listeners)
	for _, backend := range changed {
		for name, before := range r.backends.Map().Prefix(BackendName(backend)) {
			if before.Of == backend {
				r.backends.Set(name, before.WithServers(r.in.Backends[backend].Servers))
			}
		}
	}
}

// changedPolicies returns the Service ports with another policy than before.
func (r *Renderer) changedPolicies() []routing.Backend {
	var changed []routing.Backend
	before, now := r.policies, r.in.Table.Policies
	if reflect.ValueOf(before).Pointer() == reflect.ValueOf(now).Pointer() {
		return nil
	}
	for backend, policy := range now {
		if old, ok := before[backend]; !ok || !reflect.DeepEqual(old, policy) {
			changed = append(changed, backend)
		}
	}
	for backend := range before {
		if _, ok := now[backend]; !ok {
			changed = append(changed, backend)
		}
	}
	r.policies = now
	return changed
}

// replace renders hosts. Then hosts.map leads to them.
func (r *Renderer) replace(listeners *changedListeners) {
	replaced, touched := make(map[place]*fragment, len(listeners.stale)), listeners.touched
	for at, host := range listeners.stale {
		replaced[at] = r.hosts[at]
		if delete(r.hosts, at); host != nil {
			r.hosts[at] = r.renderHost(&r.known[at.listener].Listener, host)
		}
	}
	for at, before := range replaced {
		// Parts that both have are added before they are removed, and so stay.
		after := r.hosts[at]
		if after != nil {
			r.count(after, at, 1)
			r.touch(&r.known[at.listener].Listener, before, after, touched)
		}
	}
	for at, before := range replaced {
		if before != nil {
			r.count(before, at, -1)
			if r.hosts[at] == nil {
				r.touch(&r.known[at.listener].Listener, before, nil, touched)
			}
		}
	}
	for _, gone := range listeners.gone {
		r.count(gone.fragment, gone.at, -1)
		r.touch(&gone.of.Listener, gone.fragment, nil, touched)
	}
	for _, p := range listeners.wide { // now that all patterns are known
		r.touchWithin(p, touched)
	}
	for key, p := range touched {
		_, ok := r.patterns.Get(key)
		r.lead(p, ok)
	}
}

// touch notes the patterns of hosts.map that lead to a host: its own, and the ones that a wildcard includes. Patterns
// of other listeners lead to the hosts of these.
func (r *Renderer) touch(listener *routing.Listener, before, after *fragment, touched map[string]pattern) {
	if before != nil && after != nil && before.name == after.name && before.prerouting == after.prerouting {
		return
	}
	hostname := ""
	if after != nil {
		hostname = after.hostname
	} else {
		hostname = before.hostname
	}
	own := pattern{listener.Port, narrower(listener.Hostname, hostname)}
	touched[own.key()] = own
	switch {
	case before == nil:
		r.patterns.Count(own.key(), own, 1)
	case after == nil:
		r.patterns.Count(own.key(), own, -1)
	}
	r.touchWithin(own, touched)
}

// touchWithin notes the patterns that a wildcard includes.
func (r *Renderer) touchWithin(wider pattern, touched map[string]pattern) {
	if wider.hostname == "" || isWildcard(wider.hostname) {
		for key, p := range r.patterns.Map().Prefix(wider.key()) {
			touched[key] = p
		}
	}
}

// lead lets hosts.map lead from a pattern, if it exists, to its listener and the contents of its hosts.
func (r *Renderer) lead(p pattern, exists bool) {
	value, entered := "", opened
	if listener := r.in.Table.ListenerFor(p.port, p.hostname); listener != nil && exists {
		contents, prerouting := r.chain(listener, p.hostname)
		field := ir.ListenerField(ir.Quote(listener.Name, ir.InField), r.identity(listener.Name), prerouting)
		value = strings.Join(append([]string{field}, contents...), "|")
		if passesThrough(listener) {
			entered = value
		}
	}
	r.setEntry(hostKey(itoa(p.port), p.hostname), value)
	if r.isMixed(p.port) {
		if value == "" {
			entered = ""
		}
		r.setEntry(hostKey(entrance(p.port), p.hostname), entered)
	}
}

// setEntry sets the value of a key in hosts.map; "" stands for none.
func (r *Renderer) setEntry(key, value string) {
	key = ir.Quote(key, ir.InMap)
	if before, ok := r.entries.Get(key); ok {
		if n := strings.Count(before, "|"); r.chains[n] == 1 {
			delete(r.chains, n)
		} else {
			r.chains[n]--
		}
	}
	if value == "" {
		r.entries.Delete(key)
		return
	}
	r.chains[strings.Count(value, "|")]++
	r.entries.Set(key, value)
}

// longestChain returns how many contents a value of hosts.map has at most.
func (r *Renderer) longestChain() int {
	longest := 0
	for n := range r.chains {
		longest = max(longest, n)
	}
	return longest
}

// narrower returns the narrower of two hostnames that overlap.
func narrower(a, b string) string {
	if len(b) > len(a) || b != "" && !isWildcard(b) {
		return b
	}
	return a
}

// chain returns the names of the contents in which requests for a hostname, exact or a wildcard, are looked up. The
// order is: the hostname's own, the wildcards' that include it, the longest first, and the contents for all hosts.
// prerouting is the name of what happens before; "": nothing does.
func (r *Renderer) chain(listener *routing.Listener, hostname string) (all []string, prerouting string) {
	add := func(hostname string) {
		if f := r.hosts[place{listener.Name, routing.HostKey(hostname)}]; f != nil {
			all, prerouting = append(all, f.name), cmp.Or(prerouting, f.prerouting)
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
	return all, prerouting
}

// hostKey returns the key of a hostname of a frontend. A host is looked up reversed and with "!" at its end. The
// longest key that it begins with belongs to the most specific hostname.
func hostKey(frontend, hostname string) string { return frontend + "/" + routing.HostKey(hostname) }

// renderHost renders a host. Its entries are in the order of precedence: exact paths, then regular expressions, then
// prefixes, the longest first.
func (r *Renderer) renderHost(listener *routing.Listener, host *routing.Host) *fragment {
	f := &fragment{hostname: host.Name}
	defer r.record(f)()
	f.note(host)
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
		if i > 0 && prefixes[i].SamePath(&prefixes[i-1]) {
			continue
		}
		value := r.value(listener, withFallbacks(prefixes, i))
		if len(regexes) > 0 && value[0] != '?' {
			// Regular expressions come before prefixes, so no prefix ends the search before they are tried.
			value = r.list(listener, withFallbacks(prefixes, i))
		}
		add(prefixes[i].Path, value)
	}
	var content *ir.Content
	f.name, content = ir.NewContent(ir.PathsFile, entries)
	r.addContent(ir.PathsFile, f.name, func() []ir.MapEntry { return content.Entries })
	if i := slices.IndexFunc(host.Entries, func(e routing.Entry) bool { return e.Rule.PreRouting != nil }); i >= 0 {
		f.prerouting = r.addFilters(filters.EncodePreRouting(r.filtersOf(hitKey{rule: host.Entries[i].Rule}, nil)))
	}
	return f
}

// groups returns the entries of each path.
func groups(entries []routing.Entry) func(yield func([]routing.Entry) bool) {
	return func(yield func([]routing.Entry) bool) {
		for len(entries) > 0 {
			n := 1
			for n < len(entries) && entries[n].SamePath(&entries[0]) {
				n++
			}
			if !yield(entries[:n:n]) {
				return
			}
			entries = entries[n:]
		}
	}
}

// withFallbacks returns the entries of the prefix at an index. If a request may pass by all of them, the entries of
// the shorter prefixes that include it follow.
func withFallbacks(prefixes []routing.Entry, i int) []routing.Entry {
	n := 1
	for i+n < len(prefixes) && prefixes[i+n].SamePath(&prefixes[i]) {
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
func (r *Renderer) value(listener *routing.Listener, entries []routing.Entry) string {
	if !entries[0].Conditional() {
		return r.hit(listener, &entries[0])
	}
	return r.list(listener, entries)
}

// list adds a list of entries and the hits of each, and returns what names both: "?LIST|HITS".
func (r *Renderer) list(listener *routing.Listener, entries []routing.Entry) string {
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
	name := r.addList(ir.List{Expressions: expressions}, end) + "|" + ir.ContentName(strings.Join(hits, "\n"))
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

// hitKey identifies hits.
type hitKey struct {
	rule *routing.Rule
	// connections reports whether the rule is for connections, not for requests, passthrough whether their TLS is not
	// touched.
	connections, passthrough bool
	// cut is how many bytes a prefix has that is replaced.
	cut int
}

// hit returns what a request meets with an entry: FILTERS|ROUTE|RULE|BACKEND, or, where weights choose among several
// such, %WEIGHTS|TARGETS.
func (r *Renderer) hit(listener *routing.Listener, entry *routing.Entry) string {
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

func (r *Renderer) makeHit(key hitKey) string {
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
func (r *Renderer) targetHit(key hitKey, target *routing.Target, backend string) string {
	rule, name := key.rule, ""
	if !key.connections {
		name = r.addFilters(filters.Encode(r.filtersOf(key, target)))
	}
	return strings.Join([]string{name, ir.Quote(rule.LogName(), ir.InField), itoa(rule.Index), backend}, "|")
}

// filtersOf returns what the filters of a rule, with one of its targets, are encoded from.
func (r *Renderer) filtersOf(key hitKey, target *routing.Target) filters.Input {
	backendFor := func(backend routing.Backend) string {
		if used := r.use(hitKey{rule: &routing.Rule{Action: &routing.Action{}}}, backend); used != noBackend {
			return used
		}
		return ""
	}
	list := func(list ir.List) string { return r.addList(list, "") }
	return filters.Input{Rule: key.rule, Target: target, Cut: key.cut, List: list, Content: r.addNamed, BackendFor: backendFor}
}

// addFilters adds encoded filters, and returns their name; "" if there are none.
func (r *Renderer) addFilters(value string) string {
	if value == "" {
		return ""
	}
	name := ir.ContentName(value)
	r.addContent(ir.FiltersFile, name, func() []ir.MapEntry { return []ir.MapEntry{entry(name, value)} })
	return name
}

// addNamed adds entries of a map, which a rule has together, and returns their name.
func (r *Renderer) addNamed(file string, entries func() []ir.MapEntry) string {
	name, content := ir.NewContent(file, entries())
	r.addContent(file, name, func() []ir.MapEntry { return content.Entries })
	return name
}
