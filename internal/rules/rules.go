package rules

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// The kinds of objects that have rules for requests.
const (
	KindGateway   = "Gateway"
	KindHTTPRoute = "HTTPRoute"
	KindGRPCRoute = "GRPCRoute"
)

// Translator translates the rules of an object.
type Translator struct {
	// Kind is the kind of the object.
	Kind string
	// Backend returns the Service port that a reference is to, or the problems of the reference. The port gets requests of
	// a kind of route: those for the Service of a filter are of an HTTPRoute.
	Backend func(ref gatewayv1.BackendObjectReference, requests string) (model.Backend, Problem)
	// Extension returns the RouteFilter that a reference is to, or the problems of the reference.
	Extension func(ref gatewayv1.LocalObjectReference) (*appv1.RouteFilter, Problem)
	// last is used for one rule after another.
	last rule
}

// Problem is the problem of a reference. Without a reason, there is none.
type Problem struct{ Reason, Field, Message string }

// rule is a rule in the making.
type rule struct {
	*Translator
	*model.Rule
	from *gatewayv1.HTTPRouteRule
	// unresolved are the problems of references.
	unresolved []Problem
	// list and index name the field that is translated: filters or backendRefs.
	list  string
	index int
	// within is the RouteFilter that is translated, as messages begin; "": none is.
	within string
	// kinds are the types of filters of which a rule has one at most.
	kinds []appv1.RuleFilterType
	// lacks reports that a filter cannot be resolved, without which no request may pass.
	lacks bool
}

// AnyRequest are the matches of a rule without any.
var AnyRequest = []model.Match{{PathType: model.Prefix, Path: "/"}}

// noAction is the action of the rules that have none: these are most.
var noAction = &model.Action{}

// Translate translates a rule to an empty one, and returns the problems of references. Without an Action and Backends,
// the requests are answered with 500. A rule for connections has backendRefs only. A rule that makes this panic is
// refused.
func (t *Translator) Translate(to *model.Rule, from *gatewayv1.HTTPRouteRule) []Problem {
	defer contain(to)
	to.Action = &model.Action{}
	t.last = rule{Translator: t, Rule: to, from: from, kinds: t.last.kinds[:0]}
	r := &t.last
	r.addMatches(from.Matches)
	for i := range from.Filters {
		r.list, r.index = "filters", i
		r.addFilter(&from.Filters[i])
	}
	r.addRetry(from.Retry)
	if timeouts := from.Timeouts; timeouts != nil {
		r.Limit(timeout(timeouts.Request), timeout(timeouts.BackendRequest))
	}
	r.addSessions(from.SessionPersistence)
	for i := range from.BackendRefs {
		r.addTarget(i, from.BackendRefs[i].BackendRef)
		r.addTargetFilters(&r.Backends[i], from.BackendRefs[i].Filters)
	}
	r.checkAnswer()
	if r.lacks || r.Refused != "" {
		r.Action, r.Backends = &model.Action{Refused: r.Refused}, nil
	}
	if reflect.ValueOf(to.Action).Elem().IsZero() {
		to.Action = noAction
	}
	return r.unresolved
}

// contain is deferred. It refuses a rule whose translation panics, and ends the panic. While the matches of the rule
// are not known, it stands for all requests of its hostnames.
func contain(to *model.Rule) {
	if cause := recover(); cause != nil {
		*to = model.Rule{Matches: to.Matches, Action: &model.Action{Refused: model.Panic(cause)}}
		if len(to.Matches) == 0 {
			to.Matches = AnyRequest
		}
	}
}

// refuse notes why the rule cannot be carried out. The first reason counts.
func (r *rule) refuse(format string, args ...any) {
	if r.Refused == "" {
		r.Refused = r.within + fmt.Sprintf(format, args...)
	}
}

// resolve returns the Service port that a filter refers to, false if there is none.
func (r *rule) resolve(ref gatewayv1.BackendObjectReference) (model.Backend, bool) {
	backend, problem := r.Backend(ref, KindHTTPRoute)
	return backend, r.isResolved(problem)
}

func (r *rule) isResolved(problem Problem) bool {
	if problem.Reason == "" {
		return true
	}
	problem.Field, problem.Message = fmt.Sprintf("%s[%d]", r.list, r.index), r.within+problem.Message
	r.unresolved = append(r.unresolved, problem)
	return false
}

// addTarget adds a share of the requests. It goes to no backend if the reference cannot be resolved: these requests are
// answered with 500, and connections are refused.
func (r *rule) addTarget(index int, ref gatewayv1.BackendRef) {
	r.list, r.index = "backendRefs", index
	backend, problem := r.Backend(ref.BackendObjectReference, r.Kind)
	target := model.Target{Backend: backend, Weight: ptr.Deref(ref.Weight, 1)}
	if !r.isResolved(problem) {
		target.Backend, target.Refused = model.Backend{}, problem.Message
	}
	r.Backends = append(r.Backends, target)
}

// retryCodes are the statuses that HAProxy can try a request again after.
var retryCodes = []gatewayv1.HTTPRouteRetryStatusCode{401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504}

func (r *rule) addRetry(from *gatewayv1.HTTPRouteRetry) {
	if from == nil {
		return
	}
	r.Retry = &model.Retry{Attempts: int32(min(ptr.Deref(from.Attempts, 1), 100))} //nolint:gosec // up to 100
	for _, code := range from.Codes {
		if !slices.Contains(retryCodes, code) {
			r.refuse("HAProxy cannot try a request again after an answer with status %d", code)
		}
		r.Retry.Codes = append(r.Retry.Codes, int32(code)) //nolint:gosec // a status
	}
	slices.Sort(r.Retry.Codes)
	r.Retry.Codes = slices.Compact(r.Retry.Codes)
	if backoff := timeout(from.Backoff); backoff != nil && *backoff > 0 {
		r.refuse("HAProxy tries a request again at once: retry.backoff is not supported")
	}
}

func (r *rule) addSessions(from *gatewayv1.SessionPersistence) {
	if from == nil {
		return
	}
	cookie := ptr.Deref(from.Cookie, gatewayv1.CookieConfig{})
	name := string(cmp.Or(ptr.Deref(cookie.Name, ""), "gateway-session"))
	switch {
	case cmp.Or(ptr.Deref(from.Type, ""), gatewayv1.CookieBasedSessionPersistence) != gatewayv1.CookieBasedSessionPersistence:
		r.refuse("sessions are kept by cookies: sessionPersistence.type %s is not supported", *from.Type)
	case ptr.Deref(cookie.LifetimeType, gatewayv1.SessionCookieLifetimeType) != gatewayv1.SessionCookieLifetimeType:
		r.refuse("cookies end with the browser's session: lifetimeType %s is not supported", *cookie.LifetimeType)
	case !cookieNames.MatchString(name):
		r.refuse("a cookie cannot have the name %q", name)
	case cmp.Or(ptr.Deref(cookie.Path, ""), "/") != "/":
		r.refuse("cookies are for all paths: sessionPersistence.cookie.path %q is not supported", *cookie.Path)
	}
	r.Affinity = &model.Affinity{Name: name, MaxLife: ptr.Deref(timeout(from.AbsoluteTimeout), 0)}
}
