package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// Values of TARGET, see doc.go, beside the names of sections for Services, which start with a letter and hold a "_".
const (
	targetNone    = "no-backend"
	targetTooLong = "too-long"
	targetAnswer  = "answer"
	targetSplit   = "%"
)

// exactEnd is at the end of exact paths in keys, after a slash. A path that requests are compared by has none.
const exactEnd = "/>"

// tooLongHit is the HIT of a list for a request that has a value too long for it.
const tooLongHit = moreToSay + `-","rule":"-","listener":"` + anyListener + `","backend":"` + targetTooLong

// moreToSay begins a HIT that does not tell all.
const moreToSay = "+"

// anyListener is in place of the name of a listener in lists, which listeners share.
const anyListener = "-"

// versionKey is the key of the entry that tells one content of the map from another.
const versionKey = "version"

// Render makes the configuration of one Gateway.
func Render(in Input) Config { return Config{}.Next(in) }

// Next makes the same as Render, and shares with an earlier configuration of the Gateway what is as it was.
func (c Config) Next(in Input) Config {
	change := newHostChange(in.Table, c.hosts)
	sections := renderSections(in, c.sections, change)
	if !sections.serves(change.before.sections) {
		change = newHostChange(in.Table, nil)
	}
	files := renderMaps(in, sections, change)
	next := Config{
		Routes:   change.set.routes,
		Maps:     files,
		Static:   renderCertificateLists(in),
		Settings: sections.settings,
		Servers:  sections.servers(in, c),
		sections: sections,
		hosts:    change.set,
	}
	maps.Copy(next.Static, usedAuthorities(in, sections))
	in.Table = change.set.withoutPlain(in.Table)
	next.head = c.head.next(in, sections.limits)
	next.Skeleton = c.Skeleton
	if c.sections == nil || next.head.text != c.head.text || sections.text != c.sections.text {
		next.Skeleton = next.head.text + sections.text
	}
	return next
}

func compareServers(a, b Server) int {
	return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
}

// mapBuilder collects map entries.
type mapBuilder struct {
	in       Input
	sections *sectionSet
	set      *hostSet
	// listener and part are the present ones.
	listener *routing.Listener
	part     *hostPart
	// targets are what follows the listener in the values of the part's rules, which several entries share.
	targets map[*routing.Rule]string
}

// renderMaps makes MapFile, and returns the entries of every other map file.
func renderMaps(in Input, sections *sectionSet, change hostChange) map[string][]MapEntry {
	b := mapBuilder{in: in, sections: sections, set: change.set, targets: map[*routing.Rule]string{}}
	b.set.sections = sections
	for i := range in.Table.Listeners {
		b.set.others = appendListener(b.set.others, &in.Table.Listeners[i])
	}
	for _, port := range ports(in.Table) {
		for name, listener := range connectedNames(in, port) {
			b.set.others = append(b.set.others, mapEntry("n/"+itoa(port)+"/"+name, listener))
		}
	}
	slices.SortFunc(b.set.others, compareEntries) // The same input makes the same set.
	change.take()
	for _, part := range change.added {
		b.listener, b.part = &in.Table.Listeners[part.listener], part
		clear(b.targets)
		b.addHost(part.madeOf)
	}
	change.finish(in.Generation)
	files := b.set.listFiles(change.before)
	files[SparesFile] = nil
	return files
}

// appendListener appends what a listener has beside its hosts.
func appendListener(entries []MapEntry, listener *routing.Listener) []MapEntry {
	entries = append(entries, mapEntry("l/"+itoa(listener.Port)+"/"+hostKey(listener.Hostname), listener.Name))
	if tls := listener.TLS; tls != nil {
		if tls.HSTS != "" {
			entries = append(entries, mapEntry("h/"+listener.Name, quote(tls.HSTS, inProgram)))
		}
		if len(tls.ClientCAs) > 0 && tls.ClientRequired {
			entries = append(entries, mapEntry("m/"+listener.Name, "required"))
		}
	}
	return entries
}

// addHost adds the entries of one hostname, which are in the order of precedence: exact paths, then regular expressions,
// then prefixes, the longest first.
func (b *mapBuilder) addHost(host *routing.Host) {
	hostname, entries := host.Name, host.Entries
	place := "p/" + b.listener.Name + "/" + hostKey(hostname)
	if hostname != "" && !isWildcard(hostname) {
		if b.in.Table.ListenerFor(b.listener.Port, hostname) != b.listener {
			return // Requests for it are another listener's.
		}
		place = itoa(b.listener.Port) + "/" + hostname
	}
	var regexes, prefixes []routing.Entry
	for i := 0; i < len(entries); {
		n := 1
		for i+n < len(entries) && samePath(&entries[i], &entries[i+n]) {
			n++
		}
		switch group := entries[i : i+n]; group[0].PathType {
		case routing.Exact:
			b.add(place+group[0].Path+exactEnd, b.value(group))
		case routing.Regex:
			regexes = append(regexes, group...)
		default:
			prefixes = append(prefixes, group...)
		}
		i += n
	}
	if len(regexes) > 0 {
		b.add("r/"+b.listener.Name+"/"+hostKey(hostname), b.value(regexes))
		// Regular expressions come before prefixes, so no prefix is found without asking them. This one leads to nothing else.
		if len(prefixes) == 0 || prefixes[len(prefixes)-1].Path != "/" {
			b.add(place+"/", b.addList([]string{""}, ""))
		}
	}
	b.addPrefixes(place, prefixes, len(regexes) > 0)
}

// addPrefixes adds the prefixes of one hostname. Where a request may pass by all entries of a prefix, those of the shorter
// prefixes that hold it follow.
func (b *mapBuilder) addPrefixes(place string, entries []routing.Entry, conditional bool) {
	for i := 0; i < len(entries); {
		n := 1
		for i+n < len(entries) && samePath(&entries[i], &entries[i+n]) {
			n++
		}
		group := entries[i : i+n : i+n]
		for j := i + n; j < len(entries) && group[len(group)-1].Conditional(); j++ {
			if strings.HasPrefix(entries[i].Path, entries[j].Path) {
				group = append(group, entries[j])
			}
		}
		value := b.value(group)
		if conditional && value[0] != '?' {
			value = b.list(group)
		}
		b.add(place+entries[i].Path, value)
		i += n
	}
}

func samePath(a, b *routing.Entry) bool { return a.PathType == b.PathType && a.Path == b.Path }

// value returns what stands for the entries, of which a request takes the first whose conditions it meets: the HIT of one
// that has none, or the name of a list.
func (b *mapBuilder) value(entries []routing.Entry) string {
	if !entries[0].Conditional() {
		return b.hit(entries[0].Rule, b.listener.Name)
	}
	return b.list(entries)
}

// list returns the name of a list, with that of its hits, and adds both.
func (b *mapBuilder) list(entries []routing.Entry) string {
	list := make([]*routing.Entry, len(entries))
	for i := range entries {
		list[i] = &entries[i]
	}
	expressions := longExpressions(list)
	hits := slices.Repeat([]string{tooLongHit}, len(expressions))
	for _, entry := range list {
		expressions, hits = append(expressions, conditionExpression(entry)), append(hits, b.hit(entry.Rule, anyListener))
	}
	end := ""
	if slices.ContainsFunc(entries, func(e routing.Entry) bool { return len(e.Query) > 0 }) {
		end = asksQuery
	}
	name := b.addList(expressions, end) + "|" + hashText(strings.Join(hits, "\n"))
	if b.share("c/" + name) {
		for i, hit := range hits {
			b.addShared("c/"+name, "/"+strconv.Itoa(i), hit)
		}
	}
	return name
}

func (b *mapBuilder) add(key, value string) {
	b.part.entries = append(b.part.entries, mapEntry(key, value))
}

// share notes that the part needs the entries of a name, which says what is in them. It returns true if they have to be added.
func (b *mapBuilder) share(name string) bool {
	b.part.shared = append(b.part.shared, name)
	_, ok := b.set.shared[name]
	return !ok
}

func (b *mapBuilder) addShared(name, key, value string) {
	b.set.shared[name] = append(b.set.shared[name], mapEntry(name+key, value))
}

// addList adds a list of conditions and returns its name, with this at the end.
func (b *mapBuilder) addList(expressions []string, end string) string {
	name := b.set.lists.add(expressions, end)
	b.part.lists = append(b.part.lists, name)
	return name
}

func mapEntry(key, value string) MapEntry {
	return MapEntry{Key: quote(key, inMap), Value: quote(value, inMap)}
}

// hostKey returns how a hostname is written in keys.
func hostKey(hostname string) string {
	if hostname == "" {
		return "*"
	}
	return hostname
}

// hit returns the HIT of a rule.
func (b *mapBuilder) hit(rule *routing.Rule, listener string) string {
	target, ok := b.targets[rule]
	if !ok {
		target = b.target(rule)
		b.targets[rule] = target
	}
	value := fmt.Sprintf(`%s","rule":"%d","listener":"%s","backend":"%s`, quote(orDash(rule.Route), inHit), rule.Index, listener, target)
	if strings.Contains(target, "|") || listener == anyListener {
		return moreToSay + value
	}
	return value
}

// target returns TARGET of a rule, and adds the entries of a split.
func (b *mapBuilder) target(rule *routing.Rule) string {
	switch {
	case rule.Redirect != nil || rule.Response != nil:
		return targetAnswer + b.program(rule, rule.Headers)
	case len(rule.Targets) == 0:
		return targetNone + b.program(rule, rule.Headers)
	case len(rule.Targets) == 1:
		target := rule.Targets[0]
		return b.section(rule, target.Backend) + b.program(rule, targetHeaders(rule, target))
	}
	words := make([]string, len(rule.Targets))
	for i, target := range rule.Targets {
		words[i] = b.section(rule, target.Backend) + b.program(rule, targetHeaders(rule, target))
	}
	targets := "t/" + splitName(words)
	if b.share(targets) {
		for i, word := range words {
			b.addShared(targets, "/"+strconv.Itoa(i), word)
		}
	}
	proportion := proportions(rule.Targets)
	weights := "w/" + joinWeights(proportion)
	if b.share(weights) {
		for _, share := range shares(proportion) {
			b.addShared(weights, "/"+share.Prefix, strconv.Itoa(share.Index))
		}
	}
	return targetSplit + "|" + weights + "|" + targets
}

// maxSplitName keeps values readable, and lines short.
const maxSplitName = 100

// splitName returns a name for a list of targets.
func splitName(words []string) string {
	name := strings.Join(words, ",")
	if len(name) > maxSplitName || strings.Contains(name, "|") {
		return hashText(name)
	}
	return name
}

// program returns the key of a rule's program, after "|", and adds it; "" if it has none.
func (b *mapBuilder) program(rule *routing.Rule, headers routing.HeaderChanges) string {
	if isEmpty(rule, headers) {
		return ""
	}
	origins := ""
	if rule.CORS != nil {
		origins = "*"
		if !slices.Contains(rule.CORS.Origins, "*") {
			origins = b.addList(originExpressions(rule.CORS.Origins), "")
		}
	}
	text := program(rule, headers, origins)
	key := "f/" + hashText(text)
	if b.share(key) {
		b.addShared(key, "", text)
	}
	return "|" + key
}

// section returns the backend section that gets a rule's requests for a backend, or targetNone if there can be none.
func (b *mapBuilder) section(rule *routing.Rule, backend routing.Backend) string {
	section := b.sections.byKey[keyOf(backend, rule, isConnection(b.listener))]
	if !section.usable {
		return targetNone
	}
	return section.name
}

func compareEntries(a, b MapEntry) int { return strings.Compare(a.Key, b.Key) }

// hashText returns a short name for a text. Nobody can write one that has the name of somebody else's: routes of one Gateway may belong
// to people who do not trust each other.
func hashText(text string) string { return fmt.Sprintf("%016x", sum(text)) }

func sum(text string) uint64 {
	digest := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(digest[:])
}
