package gatewayapi

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// reasonFault is the reason of the condition Accepted of an object that makes the evaluation panic.
const reasonFault = "InternalError"

// marker writes the fault into the wanted status of faulty objects. Entries of other controllers stay.
type marker struct {
	seen   *observed
	faulty map[metav1.Object]bool
	faults map[types.UID]fault
	wanted *source.Status
	// ours are the names of our classes.
	ours map[gatewayv1.ObjectName]bool
}

// mark notes in seen which data planes stay unchanged because of faulty objects, and in the wanted status why.
func mark(seen *observed, faulty map[metav1.Object]bool, faults map[types.UID]fault, wanted *source.Status) {
	seen.unknown = map[source.Parent]bool{}
	if len(faulty) == 0 && len(seen.stalled) == 0 {
		return
	}
	m := &marker{seen, faulty, faults, wanted, map[gatewayv1.ObjectName]bool{}}
	m.classes()
	for _, own := range seen.Own {
		if faulty[own] {
			seen.unknown[source.OwnParent(own.Namespace, own.Name)] = true
		}
	}
	m.listenerSets()
	m.policies()
	seen.Each(m.route)
}

// accepted is the condition of a faulty object.
func (m *marker) accepted(object metav1.Object) metav1.Condition {
	return metav1.Condition{
		Type: string(gatewayv1.GatewayConditionAccepted), Status: metav1.ConditionFalse, Reason: reasonFault,
		ObservedGeneration: object.GetGeneration(), Message: "the operator fails at it: " +
			"this is a bug, please report it with the operator's log: " + m.faults[object.GetUID()].message,
	}
}

// classes marks GatewayClasses and Gateways. A Gateway stays unchanged if its class, or an object that it needs, is not
// known.
func (m *marker) classes() {
	classes := map[gatewayv1.ObjectName]*gatewayv1.GatewayClass{}
	for _, class := range m.seen.Classes {
		if class.Spec.ControllerName != source.ControllerName {
			continue
		}
		name := gatewayv1.ObjectName(class.Name)
		m.ours[name], classes[name] = true, class
		switch {
		case m.faulty[class]:
			m.wanted.Classes[class.Name] = gatewayv1.GatewayClassStatus{Conditions: []metav1.Condition{m.accepted(class)}}
		case class.Spec.ParametersRef != nil && m.seen.stalled[resourceConfigs]:
			delete(m.wanted.Classes, class.Name)
		}
	}
	for _, gateway := range m.seen.Gateways {
		if class := classes[gateway.Spec.GatewayClassName]; class != nil {
			m.gateway(gateway, class)
		}
	}
}

func (m *marker) gateway(gateway *gatewayv1.Gateway, class *gatewayv1.GatewayClass) {
	stalled := m.needs(gateway, class)
	if !m.faulty[gateway] && !m.faulty[class] && stalled == "" {
		return
	}
	m.seen.unknown[source.GatewayParent(gateway.Namespace, gateway.Name)] = true
	status := gateway.Status.DeepCopy()
	before := meta.FindStatusCondition(status.Conditions, string(gatewayv1.GatewayConditionAccepted))
	switch {
	case m.faulty[gateway]:
		meta.SetStatusCondition(&status.Conditions, m.accepted(gateway))
	case stalled != "" && (before == nil || before.ObservedGeneration != gateway.Generation):
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: string(gatewayv1.GatewayConditionAccepted), Status: metav1.ConditionUnknown,
			Reason: string(gatewayv1.GatewayReasonPending), ObservedGeneration: gateway.Generation,
			Message: "the API server does not list " + stalled + ", which this may need",
		})
	}
	m.wanted.Gateways[nameOf(gateway)] = *status
}

// needs returns a resource that a Gateway may need and that the API server does not list, "" if there is none.
func (m *marker) needs(gateway *gatewayv1.Gateway, class *gatewayv1.GatewayClass) string {
	infrastructure := gateway.Spec.Infrastructure
	configured := class.Spec.ParametersRef != nil || infrastructure != nil && infrastructure.ParametersRef != nil
	switch {
	case configured && m.seen.stalled[resourceConfigs]:
		return resourceConfigs
	case gateway.Spec.AllowedListeners != nil && m.seen.stalled[resourceListenerSets]:
		return resourceListenerSets
	case m.seen.stalled[resourceGrants] && usesSecretsElsewhere(gateway):
		return resourceGrants
	case m.seen.stalled[resourceTelemetry] && m.isTraced(gateway, configured):
		return resourceTelemetry
	}
	return ""
}

// isTraced reports whether a policy may have made the traces of a Gateway what they are, or may end them.
func (m *marker) isTraced(gateway *gatewayv1.Gateway, configured bool) bool {
	own := m.seen.own[source.GatewayParent(gateway.Namespace, gateway.Name)]
	return own != nil && (own.Spec.Tracing != nil || configured)
}

// usesSecretsElsewhere reports whether a Gateway may name Secrets or ConfigMaps of other namespaces.
func usesSecretsElsewhere(gateway *gatewayv1.Gateway) bool {
	named := func(ref gatewayv1.SecretObjectReference) bool { return ref.Namespace != nil }
	for i := range gateway.Spec.Listeners {
		if tls := gateway.Spec.Listeners[i].TLS; tls != nil && slices.ContainsFunc(tls.CertificateRefs, named) {
			return true
		}
	}
	return gateway.Spec.TLS != nil
}

// listenerSets marks ListenerSets. Those of an unchanged Gateway stay unchanged, too.
func (m *marker) listenerSets() {
	for _, set := range m.seen.ListenerSets {
		gateway := source.GatewayOf(set)
		if !m.faulty[set] && !m.seen.unknown[gateway] {
			continue
		}
		m.seen.unknown[source.SetParent(set.Namespace, set.Name)] = true
		delete(m.wanted.ListenerSets, nameOf(set))
		if m.faulty[set] && m.isOurs(gateway) {
			status := set.Status.DeepCopy()
			meta.SetStatusCondition(&status.Conditions, m.accepted(set))
			m.wanted.ListenerSets[nameOf(set)] = *status
		}
	}
}

func (m *marker) policies() {
	for _, policy := range m.seen.BackendPolicies {
		if !m.faulty[policy] {
			continue
		}
		for _, ancestor := range policy.Status.DeepCopy().Ancestors {
			if ancestor.ControllerName == string(source.ControllerName) {
				meta.SetStatusCondition(&ancestor.Conditions, m.accepted(policy))
				m.wanted.BackendPolicies[nameOf(policy)] = append(m.wanted.BackendPolicies[nameOf(policy)], ancestor)
			}
		}
	}
	for _, policy := range m.seen.Policies {
		m.policy(policy, policy.Status.Ancestors, m.wanted.Policies)
	}
	for _, policy := range m.seen.Telemetry {
		m.policy(policy, policy.Status.Ancestors, m.wanted.Telemetry)
	}
}

// policy marks a policy of the Gateway API at the Gateways that its status has.
func (m *marker) policy(
	policy metav1.Object, ancestors []gatewayv1.PolicyAncestorStatus, wanted map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus,
) {
	if !m.faulty[policy] {
		return
	}
	for i := range ancestors {
		if ancestor := ancestors[i].DeepCopy(); ancestor.ControllerName == source.ControllerName {
			meta.SetStatusCondition(&ancestor.Conditions, m.accepted(policy))
			wanted[nameOf(policy)] = append(wanted[nameOf(policy)], *ancestor)
		}
	}
}

// route marks a route at its parents that are ours. At unchanged parents, it leaves the entry as it is.
func (m *marker) route(kind string, route metav1.Object) {
	if !source.IsRoute(kind) {
		return
	}
	spec, status := source.RouteParts(route)
	object := source.Object{Kind: kind, Namespace: route.GetNamespace(), Name: route.GetName()}
	held := m.faulty[route] || m.needsStalled(route)
	wanted := slices.DeleteFunc(m.wanted.Routes[object], func(said gatewayv1.RouteParentStatus) bool {
		return held || m.seen.unknown[source.ParentOf(said.ParentRef, route.GetNamespace())]
	})
	for _, ref := range spec.ParentRefs {
		parent := source.ParentOf(ref, route.GetNamespace())
		if !m.seen.unknown[parent] && (!held || !m.isOurs(parent)) {
			continue
		}
		said := gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: source.ControllerName}
		for _, before := range status.Parents {
			if before.ControllerName == source.ControllerName && isSameRef(before.ParentRef, ref) {
				said = *before.DeepCopy()
			}
		}
		if m.faulty[route] {
			meta.SetStatusCondition(&said.Conditions, m.accepted(route))
		}
		if len(said.Conditions) > 0 {
			wanted = append(wanted, said)
		}
	}
	m.wanted.Routes[object] = wanted
}

// needsStalled reports whether a route may need objects that the API server does not list: RouteFilters or
// ReferenceGrants.
func (m *marker) needsStalled(route metav1.Object) bool {
	filters, grants := m.seen.stalled[proxypod.ResourceFilters], m.seen.stalled[resourceGrants]
	if !filters && !grants {
		return false
	}
	text, err := json.Marshal(route) // routes of all kinds alike
	var some struct {
		Spec struct {
			Rules []struct {
				BackendRefs []struct{ Namespace string }
				Filters     []struct {
					ExtensionRef  any
					RequestMirror struct{ BackendRef struct{ Namespace string } }
				}
			}
		}
	}
	if err != nil || json.Unmarshal(text, &some) != nil {
		return true
	}
	for _, rule := range some.Spec.Rules {
		for _, filter := range rule.Filters {
			if filters && filter.ExtensionRef != nil || grants && filter.RequestMirror.BackendRef.Namespace != "" {
				return true
			}
		}
		for _, backend := range rule.BackendRefs {
			if grants && backend.Namespace != "" {
				return true
			}
		}
	}
	return false
}

// isOurs reports whether routes may name a parent to be served by us.
func (m *marker) isOurs(parent source.Parent) bool {
	if parent.Group == appv1.GroupName {
		return m.seen.own[parent] != nil
	}
	for _, set := range m.seen.ListenerSets {
		if parent == source.SetParent(set.Namespace, set.Name) {
			return m.isOurs(source.GatewayOf(set))
		}
	}
	for _, gateway := range m.seen.Gateways {
		if parent == source.GatewayParent(gateway.Namespace, gateway.Name) {
			return m.ours[gateway.Spec.GatewayClassName]
		}
	}
	return false
}
