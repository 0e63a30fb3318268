package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// attachment is the result of attaching a route to one of its parents.
type attachment struct {
	ref    gatewayv1.ParentReference
	parent *parent
	// index is the reference's place among the route's.
	index int
	// accepted is why the route does not belong to it, resolved the problems of the references of the route there.
	accepted, resolved verdict
	// listeners are those that the route belongs to.
	listeners []*listener
}

// attach finds the listeners that a route belongs to, of those parents that are ours.
func (t *translator) attach(r *route) {
	for i, ref := range r.parentRefs() {
		parent := t.parents[ParentOf(ref, r.GetNamespace())]
		if parent == nil {
			continue
		}
		a := &attachment{ref: ref, parent: parent, index: i}
		r.attachments = append(r.attachments, a)
		if r.refused.reason() != "" {
			a.accepted = r.refused
			continue
		}
		if t.mayUse(a, r) {
			t.findListeners(a, r)
		}
	}
	r.spend()
	for _, a := range r.attachments {
		for _, l := range a.listeners {
			if slices.Contains(r.listeners, l) {
				continue
			}
			r.listeners = append(r.listeners, l)
			l.taken.add(r, l)
			if !r.isUnsupported() {
				l.attached++
			}
		}
	}
}

// ParentOf returns what a route of a namespace names.
func ParentOf(ref gatewayv1.ParentReference, namespace string) Parent {
	return Parent{
		Group: string(ptr.Deref(ref.Group, gatewayv1.GroupName)), Kind: string(ptr.Deref(ref.Kind, kindGateway)),
		Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), Name: string(ref.Name),
	}
}

// names reports whether a reference is to a listener of its parent.
func (a *attachment) names(l *listener) bool {
	return ptr.Deref(a.ref.SectionName, l.Name) == l.Name && ptr.Deref(a.ref.Port, l.Port) == l.Port
}

// findListeners finds the listeners of a parent that a route belongs to.
func (t *translator) findListeners(a *attachment, r *route) {
	var named []*listener
	allowing, shared := false, ""
	for _, l := range a.parent.listeners {
		if !a.names(l) {
			continue
		}
		if named = append(named, l); l.isClosed() || !a.parent.isAllowed() || !t.allowsRoute(l, r) {
			continue
		}
		allowing = true
		hostnames := r.hostnamesAt(l)
		switch {
		case len(hostnames) == 0:
			continue
		case l.taken.hasOther(r.kind, hostnames):
			taken := slices.IndexFunc(hostnames, func(hostname string) bool { return l.taken.hasOther(r.kind, []string{hostname}) })
			shared = cmp.Or(hostnames[taken], "*")
		default:
			a.listeners = append(a.listeners, l)
		}
		if !slices.Contains(r.candidates, l) {
			r.candidates = append(r.candidates, l)
			l.wanted.add(r, l)
		}
	}
	switch {
	case len(named) == 0:
		a.accepted.alsoIn(fmt.Sprintf("parentRefs[%d]", a.index), gatewayv1.RouteReasonNoMatchingParent, "%s", noListener(a.ref, a.parent.listeners))
	case !allowing && slices.ContainsFunc(named, (*listener).isBeyond):
		a.accepted = named[slices.IndexFunc(named, (*listener).isBeyond)].accepted
	case !allowing:
		a.accepted.no(gatewayv1.RouteReasonNotAllowedByListeners, "%s", t.notAllowed(a.parent, named, r))
	case len(a.listeners) == 0 && shared != "":
		const message = "hosts of %s have an older route of the other kind, HTTPRoute or GRPCRoute: use another hostname, or one kind"
		a.accepted.alsoIn("hostnames", gatewayv1.RouteReasonUnsupportedValue, message, shared)
	case len(a.listeners) == 0:
		const message = "no listener is for %s (%s): change them, or the hostname of a listener"
		hosts := names(named, func(l *listener) string { return string(l.Name) + ": " + cmp.Or(l.hostname(), "*") })
		a.accepted.alsoIn("hostnames", gatewayv1.RouteReasonNoMatchingListenerHostname, message, model.Some(r.hostnames, model.MaxNamed), hosts)
	}
}

// notAllowed tells why no listener that a route names takes it.
func (t *translator) notAllowed(p *parent, named []*listener, r *route) string {
	usable := slices.DeleteFunc(slices.Clone(named), func(l *listener) bool { return l.isClosed() || !p.isAllowed() })
	ofKind := slices.DeleteFunc(slices.Clone(usable), func(l *listener) bool { return !l.takes(r.kind) })
	name := func(l *listener) string { return string(l.Name) }
	switch {
	case len(usable) == 0:
		return fmt.Sprintf("no listener that can be served takes it (%s): see the conditions of these listeners", names(named, name))
	case len(ofKind) == 0:
		return fmt.Sprintf("no listener takes routes of kind %s (%s): set allowedRoutes.kinds of one, or its protocol", r.kind, names(usable, name))
	}
	return fmt.Sprintf("no listener takes routes of namespace %s (%s): set allowedRoutes.namespaces of one", r.GetNamespace(), names(ofKind, name))
}

// takes reports whether a listener takes routes of a kind.
func (l *listener) takes(kind string) bool {
	return slices.ContainsFunc(l.kinds, func(of gatewayv1.RouteGroupKind) bool { return string(of.Kind) == kind })
}

// names lists the results of a function for listeners.
func names(listeners []*listener, of func(*listener) string) string {
	all := make([]string, len(listeners))
	for i, l := range listeners {
		all[i] = of(l)
	}
	return model.Some(all, model.MaxNamed)
}

// noListener tells that no listener has what a reference names.
func noListener(ref gatewayv1.ParentReference, there []*listener) string {
	text := "there is no listener"
	if ref.SectionName != nil {
		text += " " + string(*ref.SectionName)
	}
	if ref.Port != nil {
		text += fmt.Sprintf(" with the port %d", *ref.Port)
	}
	return text + ": name one of " + names(there, func(l *listener) string { return fmt.Sprintf("%s (port %d)", l.Name, l.Port) })
}

// hostnamesAt returns the hostnames of a route that overlap with a listener's.
func (r *route) hostnamesAt(l *listener) []string {
	var all []string
	for _, hostname := range r.hostnames {
		if model.HostnamesOverlap(hostname, l.hostname()) {
			all = append(all, hostname)
		}
	}
	return all
}

// isContested reports whether a route of the other kind has, or would have, one of the route's hostnames. Then it may
// decide to which listeners others belong, and others to which it does.
func (r *route) isContested() bool {
	return slices.ContainsFunc(r.candidates, func(l *listener) bool { return l.wanted.hasOther(r.kind, r.hostnamesAt(l)) })
}

// contests reports whether the route, or one of the other kind, may keep the other one from a hostname.
func (r *route) contests(other *route) bool {
	return r.kind != other.kind && slices.ContainsFunc(r.hostnames, func(one string) bool {
		return slices.ContainsFunc(other.hostnames, func(two string) bool {
			return model.HostnamesOverlap(one, two) && slices.ContainsFunc(r.candidates, func(l *listener) bool {
				return slices.Contains(other.candidates, l) && model.HostnamesOverlap(one, l.hostname()) && model.HostnamesOverlap(two, l.hostname())
			})
		})
	})
}

// isAllowed reports whether the listeners of a parent are part of a data plane.
func (p *parent) isAllowed() bool { return p != nil && (p.set == nil || p.allowed) }

// isClosed reports whether no route can belong to a listener.
func (l *listener) isClosed() bool { return l.closed || l.conflict.reason() != "" || l.isBeyond() }

// allowsRoute reports whether a listener accepts a route, by its kind and namespace.
func (t *translator) allowsRoute(l *listener, r *route) bool {
	if !l.takes(r.kind) {
		return false
	}
	allowed := ptr.Deref(l.AllowedRoutes, gatewayv1.AllowedRoutes{})
	namespaces := ptr.Deref(allowed.Namespaces, gatewayv1.RouteNamespaces{})
	return t.allows(ptr.Deref(namespaces.From, gatewayv1.NamespacesFromSame), namespaces.Selector, l.owner.Namespace, r.GetNamespace())
}

// allows reports whether objects of one namespace may attach to an object of another one.
func (t *translator) allows(from gatewayv1.FromNamespaces, selector *metav1.LabelSelector, own, namespace string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return own == namespace
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && selector.Matches(t.labelsOf(namespace))
	}
	return false
}

// labelsOf returns the labels of a namespace, which always include its name.
func (t *translator) labelsOf(namespace string) labels.Set {
	known := t.Namespaces[namespace]
	if known[corev1.LabelMetadataName] == namespace {
		return known
	}
	return labels.Merge(known, labels.Set{corev1.LabelMetadataName: namespace}) // agents may not be told yet
}
