package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// ownership decides which namespaces may use which hostnames at a data plane, as its owner says.
type ownership struct {
	spec appv1.AllowedHostnames
	// by is the object that says it.
	by string
	// patterns are the hostnames that rules let namespaces use.
	patterns map[string][]string
	// claims are the claims of all that would have hostnames to themselves, and beyond has the reason for each route that
	// gets none.
	claims claims
	beyond map[Object]string
}

// hostnameClaim is what would have hostnames to itself: a listener of a ListenerSet, or a route.
type hostnameClaim struct {
	// key is its place in the order of age.
	key, namespace string
	hostnames      []string
	listener       *listener
	route          *route
}

// isFirstCome reports whether a hostname belongs to the namespace that used it first.
func (o *ownership) isFirstCome() bool { return o.spec.Ownership == appv1.HostnameOwnershipFirst }

// PatternsOf returns the hostnames that rules let a namespace use: "*" is every one, and wildcards include the names
// below. What does not become a hostname with the labels of the namespace is left out.
func PatternsOf(rules []appv1.HostnameRule, namespace string, of labels.Set) []string {
	var all []string
	for i := range rules {
		if !selects(rules[i].Namespaces, namespace, of) {
			continue
		}
		for _, pattern := range rules[i].Hostnames {
			if hostname, ok := fillIn(string(pattern), namespace, of); ok && !slices.Contains(all, hostname) {
				all = append(all, hostname)
			}
		}
	}
	return all
}

// selects reports whether a rule is for a namespace.
func selects(namespaces *appv1.HostnameNamespaces, namespace string, of labels.Set) bool {
	if namespaces == nil {
		return true
	}
	if namespaces.Selector == nil {
		return slices.Contains(namespaces.Names, appv1.Name(namespace))
	}
	selector, err := metav1.LabelSelectorAsSelector(namespaces.Selector)
	return err == nil && selector.Matches(of)
}

// labelBegins and labelEnds are what begins and ends the key of a label in a pattern.
const labelBegins, labelEnds = "{label:", "}"

// fillIn returns a pattern with the name and labels of a namespace; false: it is no hostname, or a label is missing.
func fillIn(pattern, namespace string, of labels.Set) (string, bool) {
	hostname := strings.ReplaceAll(pattern, "{namespace}", namespace)
	for {
		begin, rest, has := strings.Cut(hostname, labelBegins)
		if !has {
			break
		}
		key, end, closed := strings.Cut(rest, labelEnds)
		if !closed || of[key] == "" {
			return "", false
		}
		hostname = begin + of[key] + end
	}
	if hostname == "*" {
		return hostname, true
	}
	return hostname, len(validation.IsDNS1123Subdomain(strings.TrimPrefix(hostname, "*."))) == 0
}

// keysIn calls f for the keys of the labels by which rules select namespaces, or which are in hostnames.
func keysIn(rules []appv1.HostnameRule, f func(key string)) {
	for i := range rules {
		if namespaces := rules[i].Namespaces; namespaces != nil && namespaces.Selector != nil {
			eachKey(namespaces.Selector, f)
		}
		for _, pattern := range rules[i].Hostnames {
			for _, part := range strings.Split(string(pattern), labelBegins)[1:] {
				key, _, _ := strings.Cut(part, labelEnds)
				f(key)
			}
		}
	}
}

// eachKey calls f for the keys of the labels in a selector.
func eachKey(selector *metav1.LabelSelector, f func(key string)) {
	if selector == nil {
		return
	}
	if parsed, err := metav1.LabelSelectorAsSelector(selector); err == nil {
		requirements, _ := parsed.Requirements()
		for _, requirement := range requirements {
			f(requirement.Key())
		}
	}
}

// Includes reports whether a pattern includes all of a hostname; "" stands for every host.
func Includes(pattern, hostname string) bool {
	return pattern == "*" || hostname != "" && model.HostnameMatches(pattern, hostname)
}

// beyondRules tells why the rules of a data plane do not let a namespace use hostnames; "": they do.
func (t *translator) beyondRules(p *plane, namespace string, hostnames []string) string {
	o := &p.ownership
	if o.spec.Rules == nil {
		return ""
	}
	patterns, known := o.patterns[namespace]
	if !known {
		patterns = PatternsOf(o.spec.Rules, namespace, t.labelsOf(namespace))
		if o.patterns == nil {
			o.patterns = map[string][]string{}
		}
		o.patterns[namespace] = patterns
	}
	for _, hostname := range hostnames {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return Includes(pattern, hostname) }) {
			continue
		}
		return fmt.Sprintf("namespace %s may use %s, and not %s: see allowedHostnames.rules of %s",
			namespace, cmp.Or(model.Some(patterns, model.MaxNamed), "no hostname"), cmp.Or(hostname, "every hostname"), o.by)
	}
	return ""
}

// usedAt returns the hostnames that a route uses at a listener: of its own and the listener's, the narrower ones.
func (r *route) usedAt(l *listener) []string {
	if l.Protocol == gatewayv1.TCPProtocolType {
		return nil
	}
	used := r.hostnamesAt(l)
	for i, hostname := range used {
		if hostname == "" || l.hostname() != "" && model.HostnameMatches(hostname, l.hostname()) {
			used[i] = l.hostname()
		}
	}
	return used
}

// usedBy returns the hostnames that a route uses at the listeners of a parent that allow it, whether they conflict with
// others or not.
func (t *translator) usedBy(a *attachment, r *route) []string {
	var used []string
	for _, l := range a.parent.listeners {
		if a.names(l) && !l.closed && !l.isBeyond() && a.parent.isAllowed() && t.allowsRoute(l, r) {
			used = append(used, r.usedAt(l)...)
		}
	}
	return used
}

// mayUse notes that the owner of a data plane does not let a route use the hostnames that it would have at a parent.
func (t *translator) mayUse(a *attachment, r *route) bool {
	p := a.parent.plane
	why := t.beyondRules(p, r.namespaceAt(p), t.usedBy(a, r))
	if why == "" && a.parent.isOwners() {
		why = p.ownership.beyond[r.id]
	}
	if why != "" {
		a.accepted.no(appv1.ReasonHostnameNotAllowed, "%s", why)
	}
	return why == ""
}

// isOwners reports whether the listeners of a parent are in the Gateway's namespace. Routes there have hostnames to
// themselves. At others, their ListenerSet has.
func (p *parent) isOwners() bool { return p.Namespace == p.plane.parent.Namespace }

// refuseSet notes the listeners of a ListenerSet that rules do not allow.
func (t *translator) refuseSet(set *parent) {
	for _, l := range set.listeners {
		if l.Protocol == gatewayv1.TCPProtocolType {
			continue
		}
		if why := t.beyondRules(set.plane, set.Namespace, []string{l.hostname()}); why != "" {
			l.accepted.no(appv1.ReasonHostnameNotAllowed, "%s", why)
		}
	}
}

// isBeyond reports whether the Gateway's owner does not let a ListenerSet have a listener.
func (l *listener) isBeyond() bool {
	return l.accepted.reason() == appv1.ReasonHostnameNotAllowed || l.accepted.reason() == appv1.ReasonBudgetExceeded
}

// claimOf returns what a route claims at a data plane.
func (t *translator) claimOf(r *route, p *plane) hostnameClaim {
	c := hostnameClaim{key: r.key, namespace: r.namespaceAt(p), route: r}
	if r.refused.reason() != "" {
		return c
	}
	for _, ref := range r.parentRefs() {
		parent := t.parents[ParentOf(ref, r.GetNamespace())]
		if parent == nil || parent.plane != p || !parent.isOwners() {
			continue
		}
		if used := t.usedBy(&attachment{ref: ref, parent: parent}, r); t.beyondRules(p, c.namespace, used) == "" {
			c.hostnames = append(c.hostnames, used...)
		}
	}
	slices.Sort(c.hostnames)
	c.hostnames = slices.Compact(c.hostnames)
	return c
}

// keeps returns what a claim keeps others from. What the owner of the Gateway has for many names leaves room.
func (c *hostnameClaim) keeps(p *plane) []string {
	if c.namespace != p.parent.Namespace {
		return c.hostnames
	}
	return slices.DeleteFunc(slices.Clone(c.hostnames), func(hostname string) bool {
		return hostname == "" || strings.HasPrefix(hostname, "*")
	})
}

// settleClaims gives hostnames to the namespaces that used them first.
func (t *translator) settleClaims(p *plane) {
	o := &p.ownership
	if !o.isFirstCome() {
		return
	}
	own := hostnameClaim{namespace: p.parent.Namespace} // of the routes in a Gateway of our own kind
	for _, made := range p.to.Routes.All() {
		for _, l := range t.parents[p.parent].listeners {
			if slices.Contains(made.Listeners, l.name) {
				own.hostnames = append(own.hostnames, (&route{hostnames: made.Hostnames}).usedAt(l)...)
			}
		}
	}
	all := []hostnameClaim{own}
	for _, set := range p.sets {
		if !set.allowed || set.isOwners() {
			continue
		}
		for _, l := range set.listeners {
			if l.Protocol != gatewayv1.TCPProtocolType && l.accepted.reason() == "" {
				all = append(all, hostnameClaim{keyOf(kindListenerSet, set.set), set.Namespace, []string{l.hostname()}, l, nil})
			}
		}
	}
	for r := range t.ordered() {
		if c := t.claimOf(r, p); len(c.hostnames) > 0 {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b hostnameClaim) int { return cmp.Compare(a.key, b.key) })
	o.beyond = map[Object]string{}
	var settled claims
	for _, c := range all {
		why := p.settle(&settled, &c)
		p.hold(&c, why == "")
		switch {
		case why == "":
		case c.route != nil:
			o.beyond[c.route.id] = why
		default:
			c.listener.accepted.no(appv1.ReasonHostnameNotAllowed, "%s", why)
		}
	}
}

// settle gives a claim its hostnames, or tells why it does not have them: another namespace used one of them first.
func (p *plane) settle(settled *claims, c *hostnameClaim) string {
	hostname, other := settled.other(c.namespace, c.hostnames)
	if other != "" && c.namespace != p.parent.Namespace {
		const message = "hostname %s belongs to namespace %s, which used it first: see allowedHostnames.ownership of %s"
		return fmt.Sprintf(message, cmp.Or(hostname, "*"), other, p.ownership.by)
	}
	settled.add(c.namespace, c.keeps(p), 1)
	return ""
}

// Hostnames tells which namespaces may use which hostnames at a Gateway, before there are routes.
type Hostnames struct {
	translator
	plane
	settled claims
}

// NewHostnames returns Hostnames of a Gateway in a namespace, as the object by says. labelsOf are those of namespaces.
func NewHostnames(namespace string, spec appv1.AllowedHostnames, by string, labelsOf map[string]labels.Set) *Hostnames {
	return &Hostnames{
		translator: translator{Objects: Objects{Namespaces: labelsOf}},
		plane:      plane{parent: Parent{Namespace: namespace}, ownership: ownership{spec: spec, by: by}},
	}
}

// Use tells why a namespace may not use a hostname; "": it does. Who asks first has it to itself, if that counts.
func (h *Hostnames) Use(namespace, hostname string) string {
	claim := &hostnameClaim{namespace: namespace, hostnames: []string{hostname}}
	if why := h.beyondRules(&h.plane, namespace, claim.hostnames); why != "" || !h.ownership.isFirstCome() {
		return why
	}
	return h.settle(&h.settled, claim)
}

// held is what a route claims of a data plane's hostnames. Agents have to see the routes that have theirs, even if no
// listener serves them: place is where they are.
type held struct {
	*plane
	keeps []string
	place claim
}

// hold adds a claim to the data plane's.
func (p *plane) hold(c *hostnameClaim, isFirst bool) {
	h := held{plane: p, keeps: c.keeps(p)}
	p.ownership.claims.add(c.namespace, h.keeps, 1)
	if c.route == nil {
		return
	}
	if isFirst {
		h.place = claim{claimResource, c.route.GetNamespace(), resources[c.route.kind]}
		p.claim(h.place)
	}
	c.route.held = append(c.route.held, h)
}

// claimHostnames adds the claims of a route to its data planes'. It reports whether another namespace may have one of
// its hostnames: then all claims have to be settled.
func (t *translator) claimHostnames(r *route) (disputed bool) {
	for _, p := range t.planes {
		if !p.ownership.isFirstCome() {
			continue
		}
		if c := t.claimOf(r, p); len(c.hostnames) > 0 {
			_, other := p.ownership.claims.other(c.namespace, c.hostnames)
			disputed = disputed || other != ""
			p.hold(&c, true)
		}
	}
	return disputed
}

// isDisputed reports whether another namespace may have a hostname of the route.
func (r *route) isDisputed() bool {
	return slices.ContainsFunc(r.held, func(h held) bool {
		_, other := h.ownership.claims.other(r.namespaceAt(h.plane), h.keeps)
		return other != ""
	})
}

// letGo gives up the claims of a route.
func (r *route) letGo() {
	for _, h := range r.held {
		h.ownership.claims.add(r.namespaceAt(h.plane), h.keeps, -1)
		if h.place.name != "" {
			h.unclaim(h.place)
		}
	}
	r.held = nil
}

// claims are hostnames, with how often namespaces claim each.
type claims struct {
	all map[string]map[string]int
	// within are what hostnames end with, from a dot on, "" for all of them.
	within map[string]map[string]int
}

// add counts the claims of a namespace.
func (c *claims) add(namespace string, hostnames []string, n int) {
	if c.all == nil {
		c.all, c.within = map[string]map[string]int{}, map[string]map[string]int{}
	}
	in := func(counts map[string]map[string]int, key string) {
		if counts[key] == nil {
			counts[key] = map[string]int{}
		}
		if count(counts[key], namespace, n); len(counts[key]) == 0 {
			delete(counts, key)
		}
	}
	for _, hostname := range hostnames {
		in(c.all, hostname)
		in(c.within, "")
		for i, sign := range hostname {
			if sign == '.' {
				in(c.within, hostname[i:])
			}
		}
	}
}

// other returns the first of hostnames that overlaps with a claim of another namespace, and this namespace; "": none
// does.
func (c *claims) other(namespace string, hostnames []string) (hostname, other string) {
	find := func(counts map[string]int) {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if name != namespace && other == "" {
				other = name
			}
		}
	}
	for _, hostname := range hostnames {
		if hostname == "" {
			find(c.within[""])
		}
		for _, wider := range model.WiderHostnames(hostname) {
			find(c.all[wider])
		}
		if suffix, isWildcard := strings.CutPrefix(hostname, "*"); isWildcard {
			find(c.within[suffix])
		}
		if other != "" {
			return hostname, other
		}
	}
	return "", ""
}
