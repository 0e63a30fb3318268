package gatewayapi

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	"gateway/internal/rules"
)

// setPreRouting has a Service decide about the requests of a listener before a route is chosen. If the reference to the
// Service cannot be resolved, no request may pass. What HAProxy cannot do closes the listener.
func (t *translator) setPreRouting(l *listener) {
	filters := ptr.Deref(l.Filters, gatewayv1.ListenerFilters{}).Requests
	if len(filters) == 0 {
		return
	}
	refuse := func(format string, args ...any) {
		l.accepted.no(gatewayv1.ListenerReasonUnsupportedValue, format, args...)
	}
	auth := filters[0].ExternalAuth
	switch {
	case !isForRequests(string(l.Protocol)):
		refuse("filters.requests: a listener of protocol %s has no requests: remove them", l.Protocol)
		return
	case auth == nil:
		refuse("filters.requests[0]: only ExternalAuth comes before the choice of a route: use filters of routes or of a GatewayConfig")
		return
	case len(filters) > 1:
		refuse("filters.requests[1]: one filter comes before the choice of a route: remove the others")
		return
	}
	var rule model.Rule
	problems := t.rulesBefore(l).Translate(&rule, &gatewayv1.HTTPRouteRule{
		Filters: []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterExternalAuth, ExternalAuth: auth}},
	})
	for _, problem := range problems {
		l.resolved.alsoIn("filters.requests[0].externalAuth.backendRef", problem.Reason, "%s", problem.Message)
		l.unasked = "filters.requests[0].externalAuth.backendRef: " + problem.Message
	}
	if rule.Refused != "" {
		refuse("filters.requests[0].%s", rule.Refused)
	} else if rule.ExternalAuth != nil {
		l.preRouting = &model.PreRouting{ExternalAuth: *rule.ExternalAuth, Namespace: l.owner.Namespace}
	}
}

// rulesBefore returns what translates the filter of a listener.
func (t *translator) rulesBefore(l *listener) *rules.Translator {
	from := reference{gatewayv1.GroupName, l.owner.Kind, l.owner.Namespace}
	return &rules.Translator{
		Kind: rules.KindHTTPRoute,
		Backend: func(ref gatewayv1.BackendObjectReference, requests string) (model.Backend, rules.Problem) {
			backend := backendOf(ref, from.namespace)
			problem := t.backendProblem(from, requests, ref, backend)
			if backend.Namespace != from.namespace {
				l.claims = append(l.claims, claim{claimResource, backend.Namespace, "referencegrants"})
			}
			l.reports = append(l.reports, Object{kindService, backend.Namespace, backend.Service})
			return backend, rules.Problem{Reason: problem.reason(), Message: problem.message()}
		},
	}
}

// addPreRouting adds to what the model has of a listener what happens before a rule is chosen.
func (l *listener) addPreRouting() {
	if l.preRouting == nil && l.unasked == "" {
		return
	}
	filters := ptr.Deref(l.made.Filters, model.Action{})
	filters.PreRouting, filters.Refused = l.preRouting, cmp.Or(filters.Refused, l.unasked)
	l.made.Filters = &filters
}

// asks reports whether a ListenerSet has such a listener.
func (p *parent) asks() bool {
	return p != nil && slices.ContainsFunc(p.listeners, func(l *listener) bool { return l.preRouting != nil })
}
