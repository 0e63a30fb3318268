package ingress

import (
	"regexp"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/regex"
)

// canary selects the requests for a canary: those with a header, then those with a cookie, then a share of the others.
type canary struct {
	header, value, pattern string
	cookie                 string
	weight, total          int32
}

func isCanary(ingress *networkingv1.Ingress) bool {
	return equalValues(ingress.Annotations[Prefix+"canary"], "true")
}

// ofCanary are the annotations that count on a canary; auth-tls-secret counts for the whole host. All other
// annotations come from the main Ingress.
var ofCanary = []string{
	"canary", "canary-weight", "canary-weight-total", "canary-by-header", "canary-by-header-value", "canary-by-header-pattern", "canary-by-cookie",
	authTLS,
}

func setCanary(s *settings, value string) string {
	if !equalValues(value, "true") {
		return ""
	}
	s.canary = &canary{header: s.values["canary-by-header"], value: s.values["canary-by-header-value"], pattern: s.values["canary-by-header-pattern"], total: 100}
	if total, ok := s.number("canary-weight-total"); ok {
		s.canary.total = max(100, total)
	}
	if weight, ok := s.number("canary-weight"); ok {
		s.canary.weight = min(weight, s.canary.total)
	}
	if s.canary.header != "" && !isMatchableHeader(s.canary.header) {
		s.noteAnnotation("canary-by-header", "it is no name of a header")
		s.canary.header = ""
	}
	_, _, err := regex.Translate(anywhere(s.canary.pattern))
	if c := s.canary; c.value != "" && !isHeaderText(c.value) || c.pattern != "" && (err != nil || !isHeaderText(anywhere(c.pattern))) {
		s.noteAnnotation("canary-by-header", "its values cannot be compared: the header does not count")
		s.canary.header = ""
	}
	if cookie := s.values["canary-by-cookie"]; cookie != "" && !isCookieName(cookie) {
		s.noteAnnotation("canary-by-cookie", "it is no name of a cookie")
	} else {
		s.canary.cookie = cookie
	}
	return ""
}

// anywhere returns an expression that matches values with the pattern in them, as nginx does.
func anywhere(pattern string) string { return ".*(" + pattern + ").*" }

// addCanary gives the locations of a main Ingress of the namespace their canaries.
func (s *site) addCanary(settings *settings, name string, rule *networkingv1.IngressRule) {
	h := s.byName[name]
	if h == nil {
		h = &host{name: name, guards: hostSettings{}}
	}
	h.addGuards(settings)
	for _, l := range locations(settings, rule) {
		i := slices.IndexFunc(h.locations, func(main *location) bool { return l.equals(main) && l.ingress.Namespace == main.ingress.Namespace })
		switch {
		case i < 0:
			l.note(l.name(), "%s%s: it is the canary of no other Ingress", h, l.path)
		case h.locations[i].canary != nil:
			l.note(l.name(), "%s%s: it has another canary already", h, l.path)
		default:
			h.locations[i].canary = l
		}
	}
}

// choice is a condition that chooses one of two backends, and whether that is the canary.
type choice struct {
	header gatewayv1.HTTPHeaderMatch
	canary bool
}

// choices returns the conditions in the order in which they count.
func (c *canary) choices() []choice {
	var all []choice
	add := func(name, value string, kind gatewayv1.HeaderMatchType, canary bool) {
		all = append(all, choice{gatewayv1.HTTPHeaderMatch{Name: gatewayv1.HTTPHeaderName(name), Value: value, Type: &kind}, canary})
	}
	const exact, expression = gatewayv1.HeaderMatchExact, gatewayv1.HeaderMatchRegularExpression
	switch {
	case c.header == "":
	case c.value != "":
		add(c.header, c.value, exact, true)
	case c.pattern != "":
		add(c.header, anywhere(c.pattern), expression, true)
	default:
		add(c.header, "always", exact, true)
		add(c.header, "never", exact, false)
	}
	if c.cookie != "" {
		cookie := func(value string) string { return "(.*; ?)?" + regexp.QuoteMeta(c.cookie) + "=" + value + "(;.*)?" }
		add("Cookie", cookie("always"), expression, true)
		add("Cookie", cookie("never"), expression, false)
	}
	return all
}

// splitRule returns the rules for a location and its canary: one for each condition, then the one by weight.
func (s *site) splitRule(h *host, l *location, r rule, main *gatewayv1.HTTPBackendRef) []rule {
	c := l.canary.settings.canary
	other := s.ref(l.canary, l.home())
	if other == nil || main == nil {
		return []rule{r}
	}
	s.noteSharedCanary(h, l)
	var rules []rule
	for _, choice := range c.choices() {
		conditional := r.deepCopy()
		conditional.Matches[0].Headers = []gatewayv1.HTTPHeaderMatch{choice.header}
		conditional.BackendRefs = []gatewayv1.HTTPBackendRef{*main}
		if choice.canary {
			conditional.BackendRefs = []gatewayv1.HTTPBackendRef{*other}
		}
		rules = append(rules, conditional)
	}
	if c.weight > 0 {
		main, other := *main, *other
		main.Weight, other.Weight = new(c.total-c.weight), new(c.weight)
		r.BackendRefs = []gatewayv1.HTTPBackendRef{main, other}
	}
	return append(rules, r)
}

// noteSharedCanary lists the other paths that nginx has the canary for, because they have the same Service.
func (s *site) noteSharedCanary(h *host, l *location) {
	for _, other := range s.hosts {
		for _, sharing := range other.locations {
			service := sharing.backend.Service
			isSame := service != nil && *service == *l.backend.Service && sharing.ingress.Namespace == l.ingress.Namespace
			if sharing != l && sharing.canary == nil && isSame {
				l.note(l.canary.name(), "%s%s: nginx has the canary also for %s%s, which has the same Service", h, l.path, other, sharing.path)
			}
		}
	}
}
