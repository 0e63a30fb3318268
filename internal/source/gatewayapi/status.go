package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// Status is the computed status of objects. Conditions have no times.
type Status struct {
	// Classes are our GatewayClasses.
	Classes map[string]gatewayv1.GatewayClassStatus
	// Gateways have a class of ours, and ListenerSets name one of them.
	Gateways     map[types.NamespacedName]gatewayv1.GatewayStatus
	ListenerSets map[types.NamespacedName]gatewayv1.ListenerSetStatus
	// Routes have an entry for each parent of ours, and no others.
	Routes map[Object][]gatewayv1.RouteParentStatus
	// Policies are for Service ports that a Gateway of ours sends requests to.
	Policies map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus
	// Telemetry are the policies for traces that name a Gateway of ours.
	Telemetry map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus
	// BackendPolicies are for Service ports that a Gateway of ours sends traffic to.
	BackendPolicies map[types.NamespacedName][]appv1.BackendPolicyAncestor
}

// Object is an object of the Gateway API.
type Object struct{ Kind, Namespace, Name string }

// Status returns the status of all objects. problems are the problems of compiling the models. Requests for the parts
// with problems get an error.
func (r *Result) Status(problems []model.Problem, live Live) Status {
	all := map[Object]bool{}
	r.t.eachObject(func(kind string, object metav1.Object) { all[idOf(kind, object)] = true })
	var known []model.Problem
	for _, plane := range r.Planes {
		known = append(known, plane.Problems...)
	}
	byRoute := ProblemsByRoute(problems, known)
	return r.StatusOf(all, func(_ Parent, route Object) []model.Problem { return byRoute[route] }, live)
}

// ProblemsByRoute sorts the problems of compiling a model by their routes. It leaves out the problems of the model
// itself, which were reported before.
func ProblemsByRoute(problems, ofModel []model.Problem) map[Object][]model.Problem {
	known := map[model.Problem]bool{}
	for _, problem := range ofModel {
		known[problem] = true
	}
	byRoute := map[Object][]model.Problem{}
	for _, problem := range problems {
		if !known[problem] {
			route := Object{problem.Origin.Kind, problem.Origin.Namespace, problem.Origin.Name}
			byRoute[route] = append(byRoute[route], problem)
		}
	}
	return byRoute
}

// StatusOf returns the status of the given objects that have one. problems returns the problems of compiling a route
// in the model of a data plane.
func (r *Result) StatusOf(objects map[Object]bool, problems func(plane Parent, route Object) []model.Problem, live Live) Status {
	t := *r.t
	t.live, t.compiling = live, problems
	s := Status{
		Classes: map[string]gatewayv1.GatewayClassStatus{}, Gateways: map[types.NamespacedName]gatewayv1.GatewayStatus{},
		ListenerSets: map[types.NamespacedName]gatewayv1.ListenerSetStatus{}, Routes: map[Object][]gatewayv1.RouteParentStatus{},
		Policies:        map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus{},
		Telemetry:       map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus{},
		BackendPolicies: map[types.NamespacedName][]appv1.BackendPolicyAncestor{},
	}
	for id := range objects {
		s.add(&t, id)
	}
	return s
}

// add adds the status of an object.
func (s *Status) add(t *translator, id Object) {
	name := types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
	switch id.Kind {
	case kindClass:
		if class := t.classes[id.Name]; class != nil {
			s.Classes[id.Name] = gatewayv1.GatewayClassStatus{Conditions: t.classConditions(class)}
		}
	case kindGateway:
		if gateway := t.parents[GatewayParent(id.Namespace, id.Name)]; gateway != nil {
			s.Gateways[name] = t.gatewayStatus(gateway.plane)
		}
	case kindListenerSet:
		if set := t.parents[SetParent(id.Namespace, id.Name)]; set != nil {
			s.ListenerSets[name] = t.setStatus(set)
		}
	case kindTLSPolicy:
		if used := t.uses[id]; used != nil {
			s.Policies[name] = t.tlsPolicyStatus(used.policy.(*gatewayv1.BackendTLSPolicy), t.usesOf(id))
		}
	case kindTelemetry:
		s.Telemetry[name] = t.telemetryStatus(id)
	case kindBackendPolicy:
		if used := t.uses[id]; used != nil {
			s.BackendPolicies[name] = t.backendPolicyStatus(used.policy.(*appv1.BackendPolicy), t.usesOf(id))
		}
	default:
		if route := t.routes[id]; route != nil && len(route.attachments) > 0 {
			s.Routes[id] = t.routeStatus(route)
		}
	}
}

// condition returns a condition that is True, with its type as the reason, unless something is wrong.
func condition(kind any, generation int64, wrong verdict) metav1.Condition {
	c := metav1.Condition{Type: fmt.Sprint(kind), Status: metav1.ConditionTrue, Reason: fmt.Sprint(kind), ObservedGeneration: generation}
	if wrong.reason() != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, wrong.reason(), wrong.text()
	}
	if wrong.unknown() {
		c.Status = metav1.ConditionUnknown
	}
	return c
}

// inShadow returns the condition that names filters in shadow.
func inShadow(generation int64, filters string) metav1.Condition {
	c := condition(appv1.ConditionShadow, generation, verdict{})
	c.Message = "what these would refuse is let through: " + filters
	return c
}

// filtersInShadow are the filters in shadow of the listeners for requests, which all have the same ones.
func (p *plane) filtersInShadow() []string {
	for i := range p.to.Listeners {
		if filters := p.to.Listeners[i].Filters; filters != nil {
			return filters.Shadow
		}
	}
	return nil
}

func (t *translator) classConditions(class *gatewayv1.GatewayClass) []metav1.Condition {
	_, problem := t.classConfig(class)
	var accepted verdict
	if problem != "" {
		accepted.no(gatewayv1.GatewayClassReasonInvalidParameters, "%s", problem)
	}
	return []metav1.Condition{condition(gatewayv1.GatewayClassConditionStatusAccepted, class.Generation, accepted)}
}

// gatewayStatus returns the status of a Gateway.
func (t *translator) gatewayStatus(p *plane) gatewayv1.GatewayStatus {
	generation := p.gateway.Generation
	assigned := t.assign(p)
	status := gatewayv1.GatewayStatus{Addresses: assigned.addresses}
	pending := t.pending(p, needs(kindGateway, p.gateway, p.gateway.Status.Conditions))
	own := t.parents[p.parent].listeners
	for _, l := range own {
		status.Listeners = append(status.Listeners, gatewayv1.ListenerStatus{
			Name: l.Name, SupportedKinds: l.supportedKinds(), AttachedRoutes: l.attached, Conditions: l.conditions(generation, pending),
		})
	}
	var sets int32
	for _, set := range p.sets {
		if set.isAccepted() {
			sets++
		}
	}
	status.AttachedListenerSets = &sets
	accepted, programmed := p.accepted(own)
	status.Conditions = []metav1.Condition{accepted, condition(gatewayv1.GatewayConditionResolvedRefs, generation, p.resolved)}
	if c, known := assigned.condition(generation); known {
		status.Conditions = append(status.Conditions, c)
	}
	if slices.ContainsFunc(p.listeners, func(l *listener) bool { return l.tls != nil && l.tls.ClientUnverified }) {
		insecure := condition(gatewayv1.GatewayConditionInsecureFrontendValidationMode, generation, verdict{})
		insecure.Reason, insecure.Message = string(gatewayv1.GatewayReasonConfigurationChanged), "clients with a certificate that is not valid are let in"
		status.Conditions = append(status.Conditions, insecure)
	}
	if shadow := p.filtersInShadow(); len(shadow) > 0 {
		status.Conditions = append(status.Conditions, inShadow(generation, "filters of all listeners: "+strings.Join(shadow, ", ")))
	}
	if programmed.reason() == "" {
		programmed = p.unusable(&assigned, pending)
	}
	if pending.reason() == string(gatewayv1.GatewayReasonPending) && !slices.ContainsFunc(p.listeners, (*listener).canBeServed) {
		programmed.no(gatewayv1.GatewayReasonInvalid, "no listener can be served: see the conditions of the listeners")
	}
	if programmed.reason() == "" {
		programmed = pending
	}
	if programmed.reason() == "" && len(status.Addresses) == 0 {
		programmed.no(gatewayv1.GatewayReasonAddressNotAssigned, "the load balancer of the Service has no address yet")
	}
	status.Conditions = append(status.Conditions, condition(gatewayv1.GatewayConditionProgrammed, generation, programmed))
	return status
}

// accepted returns whether a Gateway is accepted, and why it cannot be programmed. One valid listener is enough.
func (p *plane) accepted(own []*listener) (metav1.Condition, verdict) {
	var bad []string
	for _, l := range own {
		if !l.isAccepted() {
			bad = append(bad, string(l.Name))
		}
	}
	accepted := condition(gatewayv1.GatewayConditionAccepted, p.gateway.Generation, p.refused)
	if p.refused.reason() != "" {
		return accepted, newVerdict(string(gatewayv1.GatewayReasonInvalid), p.refused.message())
	}
	if len(bad) == 0 {
		if p.own != nil && p.own.Http3 != nil {
			accepted.Message = strings.Join(model.WithoutHTTP3(p.to.Listeners), "; ")
		}
		return accepted, verdict{}
	}
	accepted.Reason = string(gatewayv1.GatewayReasonListenersNotValid)
	accepted.Message = "these listeners are not served: " + strings.Join(bad, ", ")
	if slices.ContainsFunc(p.listeners, (*listener).isAccepted) {
		return accepted, verdict{}
	}
	accepted.Status = metav1.ConditionFalse
	return accepted, newVerdict(string(gatewayv1.GatewayReasonInvalid), "no listener is served")
}

// conditions returns the conditions of a listener. pending is why its object is not live yet.
func (l *listener) conditions(generation int64, pending verdict) []metav1.Condition {
	accepted := l.accepted
	if accepted.reason() == "" {
		accepted = l.refused
	}
	if l.conflict.reason() != "" {
		accepted = l.conflict
	}
	conflicted := metav1.Condition{
		Type: string(gatewayv1.ListenerConditionConflicted), Status: metav1.ConditionFalse,
		Reason: string(gatewayv1.ListenerReasonNoConflicts), ObservedGeneration: generation,
	}
	if l.conflict.reason() != "" {
		conflicted.Status, conflicted.Reason, conflicted.Message = metav1.ConditionTrue, l.conflict.reason(), l.conflict.message()
	}
	programmed := accepted
	if !accepted.isOpen() && l.conflict.reason() == "" {
		programmed = accepted.because(string(gatewayv1.ListenerReasonInvalid))
	}
	for _, why := range []verdict{l.unserved, pending} {
		if programmed.reason() == "" || programmed.unknown() && !why.isOpen() {
			programmed = why
		}
	}
	return []metav1.Condition{
		condition(gatewayv1.ListenerConditionAccepted, generation, accepted),
		condition(gatewayv1.ListenerConditionResolvedRefs, generation, l.resolved), conflicted,
		condition(gatewayv1.ListenerConditionProgrammed, generation, programmed),
	}
}

// isAccepted reports whether a ListenerSet is part of its Gateway: one valid listener is enough.
func (p *parent) isAccepted() bool {
	return p.allowed && slices.ContainsFunc(p.listeners, (*listener).canBeServed)
}

// setStatus returns the status of a ListenerSet.
func (t *translator) setStatus(p *parent) gatewayv1.ListenerSetStatus {
	generation := p.set.Generation
	var status gatewayv1.ListenerSetStatus
	var accepted verdict
	switch {
	case !p.allowed:
		accepted.no(gatewayv1.ListenerSetReasonNotAllowed, "the Gateway's allowedListeners do not include it")
	case !p.isAccepted():
		accepted.no(gatewayv1.ListenerSetReasonListenersNotValid, "no listener of it is served")
	case p.plane.refused.reason() != "":
		accepted.no(gatewayv1.ListenerSetReasonParentNotAccepted, "the Gateway is not accepted")
	}
	status.Conditions = []metav1.Condition{condition(gatewayv1.ListenerSetConditionAccepted, generation, accepted)}
	programmed, pending := accepted, verdict{}
	if p.allowed {
		pending = t.pending(p.plane, p.needs())
	}
	if programmed.reason() == "" {
		programmed = pending
	}
	status.Conditions = append(status.Conditions, condition(gatewayv1.ListenerSetConditionProgrammed, generation, programmed))
	if !p.allowed {
		return status
	}
	for _, l := range p.listeners {
		status.Listeners = append(status.Listeners, gatewayv1.ListenerEntryStatus{
			Name: l.Name, SupportedKinds: l.supportedKinds(), AttachedRoutes: l.attached, Conditions: l.conditions(generation, pending),
		})
	}
	return status
}
