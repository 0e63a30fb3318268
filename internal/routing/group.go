package routing

import (
	"cmp"
	"slices"
	"strings"

	"gateway/internal/few"
	"gateway/internal/model"
)

// group are entries that can get the same requests.
type group struct {
	id hostID
	// buckets are entries by their paths, and hostnames counts the hostnames of their routes.
	buckets   few.Map[pathOf, *bucket]
	hostnames few.Counts[string]
	// expressions are the first entries with one for paths, open those whose expression is for all paths that begin with a
	// text, and literals counts those for a single path.
	expressions, open []*placed
	literals          int
}

// bucket are the entries of a path, in the order in which requests meet them.
type bucket struct {
	group *group
	pathOf
	entries []*placed
	// isWide reports whether an entry is new, or gone, that may take requests of other paths.
	isWide bool
}

// pathOf is a path and how it is compared.
type pathOf struct {
	kind PathType
	path string
}

// placed is an entry of a route at a place: at a hostname, compared with those in a place that may be wider.
type placed struct {
	key, hostname string
	in            hostID
	index         int
	route         *attachedRoute
	// form is nil while it is compared with no other.
	form *form
	// bucket is where it is. by takes all its requests; nil: nobody does. owner is the listener that gets them; nil: its
	// own does.
	bucket *bucket
	by     *placed
	owner  *model.Listener
}

// entry is the entry as it is at the place.
func (p *placed) entry() *Entry {
	if p.form != nil {
		return p.form.Entry
	}
	return &p.route.entries[p.index]
}

// compare orders entries as requests meet them.
func (p *placed) compare(other *placed) int {
	if p.hostname != other.hostname {
		return model.CompareHostnames(p.hostname, other.hostname)
	}
	return cmp.Or(p.form.compare(other.form.Entry), strings.Compare(p.key, other.key), cmp.Compare(p.index, other.index))
}

// isWide reports whether any edit may matter to entries of all paths.
func (g *group) isWide() bool { return g.hostnames.Len() > 1 || g.literals > 0 }

// add adds an entry, and returns its bucket.
func (g *group) add(entry *placed) *bucket {
	if entry.form == nil {
		entry.form = entry.route.form(entry.index)
	}
	path := pathOf{entry.form.PathType, entry.form.Path}
	b := g.buckets.Get(path)
	if b == nil {
		b = &bucket{group: g, pathOf: path}
		g.buckets.Set(path, b)
	}
	at, _ := slices.BinarySearchFunc(b.entries, entry, (*placed).compare)
	b.entries, entry.bucket = slices.Insert(b.entries, at, entry), b
	g.count(b, entry, 1)
	return b
}

func (b *bucket) remove(entry *placed) {
	at := slices.Index(b.entries, entry)
	b.entries = slices.Delete(b.entries, at, at+1)
	b.group.count(b, entry, -1)
}

func (g *group) count(b *bucket, entry *placed, n int) {
	if g.hostnames.Add(entry.hostname, n); g.hostnames.Of(entry.hostname) == 0 {
		b.isWide = true
	}
	b.isWide = b.isWide || entry.form.path.isOpen || g.hostnames.Len() > 1
	if b.kind == Regex && !entry.form.path.Regex {
		g.literals += n
		b.isWide = true
	}
}

// mostCompared is how many entries of one kind an entry is compared with, beside those with the same conditions or with
// none: without a limit, thousands of them would take the square of the time.
const mostCompared = 100

// findExpressions finds the first entries that may take requests of other paths.
func (g *group) findExpressions() {
	g.expressions, g.open = nil, nil
	for path, b := range g.buckets.All() {
		if path.kind == Regex {
			g.expressions = append(g.expressions, b.entries...)
		}
	}
	slices.SortFunc(g.expressions, (*placed).compare)
	for _, entry := range g.expressions {
		if entry.form.path.isOpen && len(g.open) < mostCompared {
			g.open = append(g.open, entry)
		}
	}
	g.expressions = g.expressions[:min(len(g.expressions), mostCompared)]
}

// each calls f with each entry, and with the first one that comes before and takes all its requests, nil if there is
// none.
func (b *bucket) each(f func(of, by *placed)) {
	others := b.others()
	same, loose := map[string]*placed{}, []*placed(nil)
	for _, entry := range b.entries {
		var by *placed
		consider := func(other *placed) {
			if other != nil && (by == nil || other.compare(by) < 0) && other.compare(entry) < 0 && other.form.takes(entry.form) {
				by = other
			}
		}
		consider(same[entry.form.conditions])
		consider(same[""])
		for _, other := range loose {
			consider(other)
		}
		for _, other := range others {
			consider(other)
		}
		f(entry, by)
		if same[entry.form.conditions] == nil {
			same[entry.form.conditions] = entry
		}
		isLoose := entry.form.hasExpressions || b.group.hostnames.Len() > 1
		if isLoose && entry.form.conditions != "" && len(loose) < mostCompared {
			loose = append(loose, entry)
		}
	}
}

// others returns the entries of other paths that may take requests of this one.
func (b *bucket) others() []*placed {
	if len(b.entries) == 0 {
		return nil
	}
	of, isAlone := b.entries[0].form, b.group.hostnames.Len() == 1
	if b.kind == Exact && isAlone {
		return nil
	}
	all := slices.Clone(b.group.open)
	at := func(kind PathType, path string) {
		if other := b.group.buckets.Get(pathOf{kind, path}); other != nil && other != b {
			all = append(all, other.entries[:min(len(other.entries), mostCompared)]...)
		}
	}
	within := b.path + "/"
	isOne := b.kind == Regex && !of.path.Regex
	switch {
	case isOne:
		at(Exact, of.path.Value)
		within = of.path.Value + "/"
	case b.kind == Regex:
		within = of.path.begin
	}
	for i := range within {
		if within[i] == '/' && !isAlone {
			at(Prefix, within[:i+1])
		}
	}
	if b.kind == Exact || isOne {
		all = append(all, b.group.expressions...)
	}
	return all
}
