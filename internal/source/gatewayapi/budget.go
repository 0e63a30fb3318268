package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// budget is how much of a data plane a namespace may have.
type budget struct {
	spec appv1.NamespaceBudget
	// by is the object that says it.
	by string
	// used is what namespaces have. Of over, the routes want more, and of overSets, the ListenerSets do.
	used           map[string]*amounts
	over, overSets map[string]bool
}

// mostCertificates is how many a namespace may have without a bound of the owner.
const mostCertificates = 2000

// amounts are what objects have of a data plane.
type amounts struct {
	routes, rules, expressions, rateLimits, listeners, certificates int32
	// headerNames are counted: names of headers, and names of parameters after a "?".
	headerNames map[string]int
}

// add adds other amounts, n times.
func (a *amounts) add(other *amounts, n int32) {
	a.routes += n * other.routes
	a.rules += n * other.rules
	a.expressions += n * other.expressions
	a.rateLimits += n * other.rateLimits
	a.listeners += n * other.listeners
	a.certificates += n * other.certificates
	for name, times := range other.headerNames {
		if a.headerNames == nil {
			a.headerNames = map[string]int{}
		}
		count(a.headerNames, name, int(n)*times)
	}
}

// amountOf returns what a route has.
func amountOf(r *route) *amounts {
	a := &amounts{routes: 1, rules: int32(len(r.rules))} //nolint:gosec // there are few
	for i := range r.rules {
		a.rateLimits += int32(len(r.rules[i].RateLimits)) //nolint:gosec // there are few
		for _, match := range r.rules[i].Matches {
			if match.PathType == model.Regex {
				a.expressions++
			}
			for _, condition := range match.Headers {
				a.name(condition.Name)
			}
			for _, condition := range match.Query {
				a.name("?" + condition.Name)
			}
			for _, condition := range slices.Concat(match.Headers, match.Query) {
				if condition.Regex {
					a.expressions++
				}
			}
		}
	}
	return a
}

// name counts a name of a header or parameter.
func (a *amounts) name(name string) {
	if a.headerNames == nil {
		a.headerNames = map[string]int{}
	}
	a.headerNames[name]++
}

// take gives a namespace what it wants more of, or tells why not; "": it has it.
func (b *budget) take(namespace string, more *amounts) string {
	if b.used == nil {
		b.used, b.over, b.overSets = map[string]*amounts{}, map[string]bool{}, map[string]bool{}
	}
	if b.used[namespace] == nil {
		b.used[namespace] = &amounts{}
	}
	used := b.used[namespace]
	used.add(more, 1)
	for _, one := range []struct {
		what         string
		wanted, more int32
		most         int32
	}{
		{"routes", used.routes, more.routes, ptr.Deref(b.spec.Routes, 5000)},
		{"rules", used.rules, more.rules, ptr.Deref(b.spec.Rules, 20000)},
		{"expressions", used.expressions, more.expressions, ptr.Deref(b.spec.Expressions, 2000)},
		{"headerNames", int32(len(used.headerNames)), int32(len(more.headerNames)), ptr.Deref(b.spec.HeaderNames, 128)}, //nolint:gosec // there are few
		{"rateLimits", used.rateLimits, more.rateLimits, ptr.Deref(b.spec.RateLimits, 5000)},
		{"listeners", used.listeners, more.listeners, ptr.Deref(b.spec.Listeners, 2000)},
		{"certificates", used.certificates, more.certificates, ptr.Deref(b.spec.Certificates, mostCertificates)},
	} {
		if one.more > 0 && one.wanted > one.most {
			used.add(more, -1)
			if more.routes > 0 {
				b.over[namespace] = true
			} else {
				b.overSets[namespace] = true
			}
			const message = "with it, namespace %s would have %d %s at this Gateway, where it may have %d: see namespaceBudget.%[3]s of %[5]s"
			return fmt.Sprintf(message, namespace, one.wanted, one.what, one.most, b.by)
		}
	}
	return ""
}

// spent is what a route has of a data plane's budget for its namespace.
type spent struct {
	*plane
	*amounts
}

// spend has a route count for the budget of its namespace at each data plane that takes it. One beyond belongs to no
// listener there.
func (r *route) spend() {
	for i, a := range r.attachments {
		p := a.parent.plane
		namespace := r.namespaceAt(p)
		if len(a.listeners) == 0 || namespace == p.parent.Namespace {
			continue
		}
		isSame := func(before *attachment) bool { return before.parent.plane == p && len(before.listeners) > 0 }
		if slices.ContainsFunc(r.spent, func(s spent) bool { return s.plane == p }) {
			continue
		}
		wanted := amountOf(r)
		why := p.budget.take(namespace, wanted)
		if why == "" {
			r.spent = append(r.spent, spent{p, wanted})
			continue
		}
		for _, same := range r.attachments[i:] {
			if isSame(same) {
				same.listeners = nil
				same.accepted.no(appv1.ReasonBudgetExceeded, "%s", why)
			}
		}
	}
}

// giveBack gives back what a route has of budgets.
func (r *route) giveBack() {
	for _, s := range r.spent {
		s.plane.budget.used[r.namespaceAt(s.plane)].add(s.amounts, -1)
	}
	r.spent = nil
}

// charge has the listeners of an allowed ListenerSet count for the budget of its namespace, and the certificates that
// they name, which pods get even if a listener is refused. It reports whether all did.
func (p *parent) charge() bool {
	if p.isOwners() {
		return true
	}
	budget := &p.plane.budget
	for _, l := range p.listeners {
		for _, wanted := range []*amounts{{certificates: certificatesOf(l.TLS)}, {listeners: 1}} {
			if wanted.listeners > 0 && l.accepted.reason() != "" {
				continue
			}
			why := budget.take(p.Namespace, wanted)
			switch {
			case why == "":
				p.charged.add(wanted, 1)
			case l.accepted.reason() == "":
				l.accepted.no(appv1.ReasonBudgetExceeded, "%s", why)
			}
		}
	}
	return !budget.overSets[p.Namespace]
}

// certificatesOf is how many certificates a listener has by what it names.
func certificatesOf(tls *gatewayv1.ListenerTLSConfig) int32 {
	if tls == nil || ptr.Deref(tls.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough {
		return 0
	}
	return int32(min(len(tls.CertificateRefs), maxCertificates)) //nolint:gosec // there are few
}

// CertificatesIn returns how many certificates a ListenerSet names. MostCertificates returns how many the ListenerSets
// of another namespace may name at a Gateway of our own.
func CertificatesIn(set *gatewayv1.ListenerSet) (n int32) {
	for i := range set.Spec.Listeners {
		n += certificatesOf(set.Spec.Listeners[i].TLS)
	}
	return n
}

// MostCertificates is described there.
func MostCertificates(own *appv1.Gateway) int32 {
	return ptr.Deref(ptr.Deref(own.Spec.NamespaceBudget, appv1.NamespaceBudget{}).Certificates, mostCertificates)
}

// WithinBudget returns ListenerSets of other namespaces than the Gateway's, without the listeners whose certificates
// are beyond its budget. charge refuses the same ones.
func WithinBudget(own *appv1.Gateway, sets []*gatewayv1.ListenerSet) map[string]*gatewayv1.ListenerSet {
	b, within := budget{spec: ptr.Deref(own.Spec.NamespaceBudget, appv1.NamespaceBudget{})}, map[string]*gatewayv1.ListenerSet{}
	for _, set := range sorted(sets) {
		kept := *set
		kept.Spec.Listeners = nil
		for i := range set.Spec.Listeners {
			listener := &set.Spec.Listeners[i]
			if b.take(set.Namespace, &amounts{certificates: certificatesOf(listener.TLS)}) == "" {
				kept.Spec.Listeners = append(kept.Spec.Listeners, *listener)
			}
		}
		within[set.Name] = &kept
	}
	return within
}

// giveBack gives back what an allowed ListenerSet has of the budget. It reports whether nobody waits for it.
func (p *parent) giveBack() bool {
	if used := p.plane.budget.used[p.Namespace]; used != nil {
		used.add(&p.charged, -1)
	}
	return !p.plane.budget.overSets[p.Namespace]
}

// waiting has all routes count anew of a namespace with changed ones that wants more than it may have: the oldest come
// first. It adds such namespaces to those that are known, and reports whether there are any.
func (x *Index) waiting(known map[string]bool) bool {
	namespaces := map[string]bool{}
	for id, object := range x.changed {
		concerned := []string{id.Namespace}
		if object != nil {
			concerned = append(concerned, ForNamespace(object))
		}
		if before := x.routes[id]; before != nil {
			concerned = append(concerned, ForNamespace(before))
		}
		for _, namespace := range concerned {
			if !known[namespace] && slices.ContainsFunc(x.planes, func(p *plane) bool { return p.budget.over[namespace] }) {
				namespaces[namespace] = true
			}
		}
	}
	if len(namespaces) == 0 {
		return false
	}
	for id, r := range x.routes {
		if namespaces[id.Namespace] || namespaces[ForNamespace(r)] {
			x.change(r)
		}
	}
	for _, p := range x.planes {
		for namespace := range namespaces {
			delete(p.budget.over, namespace)
		}
	}
	maps.Copy(known, namespaces)
	return true
}
