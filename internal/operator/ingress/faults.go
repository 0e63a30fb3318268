package ingress

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"gateway/internal/operator/safely"
	source "gateway/internal/source/ingress"
)

// fault is an Ingress that makes the translation panic, and where.
type fault struct {
	*networkingv1.Ingress
	cause error
}

// translateSome translates Ingresses without those that make it panic, which it returns.
func (c *Controller) translateSome(in source.Input) (result *source.Result, faulty []fault) {
	var cause error
	try := func(ingresses []*networkingv1.Ingress) (result *source.Result) {
		some := in
		some.Ingresses = ingresses
		cause = cmp.Or(safely.Do(func() error { result = c.translate(some); return nil }), cause)
		return result
	}
	for all := in.Ingresses; ; {
		if result = try(all); result != nil {
			return result, faulty
		}
		// It is the last of the fewest with which it panics.
		i := sort.Search(len(all)-1, func(i int) bool { return try(all[:i+1]) == nil })
		faulty, all = append(faulty, fault{all[i], cause}), slices.Delete(slices.Clone(all), i, i+1)
	}
}

// isHeld reports whether an object stays as it is because of faulty Ingresses of its class: it is a route of one of
// their hosts, whose other rules would get their requests, or what such routes may need.
func (c *Controller) isHeld(one *desired, faulty []fault) bool {
	names := one.hostnames()
	if cached := c.cached(one.Subject); cached != nil {
		names = append(names, cached.hostnames...)
	}
	return slices.ContainsFunc(faulty, func(f fault) bool {
		switch one.Kind {
		case "Gateway", "GatewayConfig", "RouteFilter": // a RouteFilter is never changed
			return false
		case "HTTPRoute", "TLSRoute":
			return f.hasAny(names)
		}
		return f.Namespace == one.Namespace || f.hasAny(names)
	})
}

// keeps reports whether an object that nobody needs is kept because of a faulty Ingress: it may be needed by what that
// holds.
func (f fault) keeps(object *made) bool {
	return object.Labels[source.LabelClass] == source.ClassOf(f.Ingress) && (object.hostnames == nil || f.hasAny(object.hostnames))
}

// hasAny reports whether the Ingress has one of some hosts, "" for every one that is not named.
func (f fault) hasAny(hosts []string) bool {
	names := strings.Split(f.Annotations[source.Prefix+"server-alias"], ",")
	if f.Spec.DefaultBackend != nil {
		names = append(names, "")
	}
	for i := range f.Spec.Rules {
		names = append(names, f.Spec.Rules[i].Host)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "www.")
		return slices.ContainsFunc(hosts, func(host string) bool { return strings.TrimPrefix(host, "www.") == name })
	})
}
