package gatewayapi

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	source "gateway/internal/source/gatewayapi"
)

// reasonFault is the reason of the condition Accepted of an object that makes the evaluation panic.
const reasonFault = "InternalError"

// marker writes into the wanted status of faulty objects what is wrong. What others say of them there stays.
type marker struct {
	seen   *observed
	faulty map[metav1.Object]bool
	faults map[types.UID]fault
	wanted *source.Status
	// ours are the names of our classes.
	ours map[gatewayv1.ObjectName]bool
}

// mark notes in seen which data planes stay as they are because of faulty objects, and in the wanted status why.
func mark(seen *observed, faulty map[metav1.Object]bool, faults map[types.UID]fault, wanted *source.Status) {
	seen.unknown = map[source.Parent]bool{}
	if len(faulty) == 0 {
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
	_ = eachRoute(&seen.Objects, m.route) // m.route returns no error
}

// accepted is the condition of a faulty object.
func (m *marker) accepted(object metav1.Object) metav1.Condition {
	return metav1.Condition{
		Type: string(gatewayv1.GatewayConditionAccepted), Status: metav1.ConditionFalse, Reason: reasonFault,
		ObservedGeneration: object.GetGeneration(), Message: "the operator fails at it: " +
			"this is a bug, please report it with the operator's log: " + m.faults[object.GetUID()].message,
	}
}

// classes marks GatewayClasses and Gateways. A Gateway without its class stays as it is.
func (m *marker) classes() {
	faulty := map[gatewayv1.ObjectName]bool{}
	for _, class := range m.seen.Classes {
		if class.Spec.ControllerName != source.ControllerName {
			continue
		}
		name := gatewayv1.ObjectName(class.Name)
		m.ours[name], faulty[name] = true, m.faulty[class]
		if m.faulty[class] {
			m.wanted.Classes[class.Name] = gatewayv1.GatewayClassStatus{Conditions: []metav1.Condition{m.accepted(class)}}
		}
	}
	for _, gateway := range m.seen.Gateways {
		class := gateway.Spec.GatewayClassName
		if !m.ours[class] || !m.faulty[gateway] && !faulty[class] {
			continue
		}
		m.seen.unknown[source.GatewayParent(gateway.Namespace, gateway.Name)] = true
		if m.faulty[gateway] {
			status := gateway.Status.DeepCopy()
			meta.SetStatusCondition(&status.Conditions, m.accepted(gateway))
			m.wanted.Gateways[nameOf(gateway)] = *status
		}
	}
}

// listenerSets marks ListenerSets. Those of a Gateway that stays as it is do so, too.
func (m *marker) listenerSets() {
	for _, set := range m.seen.ListenerSets {
		gateway := gatewayOf(set)
		if !m.faulty[set] && !m.seen.unknown[gateway] {
			continue
		}
		m.seen.unknown[setParent(set)] = true
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
		if !m.faulty[policy] {
			continue
		}
		for _, ancestor := range policy.Status.DeepCopy().Ancestors {
			if ancestor.ControllerName == source.ControllerName {
				meta.SetStatusCondition(&ancestor.Conditions, m.accepted(policy))
				m.wanted.Policies[nameOf(policy)] = append(m.wanted.Policies[nameOf(policy)], ancestor)
			}
		}
	}
}

// route marks a route at those of its parents that are ours, or leaves what is said of it at parents that stay as they
// are.
func (m *marker) route(
	kind string, route metav1.Object, spec *gatewayv1.CommonRouteSpec, status *gatewayv1.RouteStatus,
) error {
	object := source.Object{Kind: kind, Namespace: route.GetNamespace(), Name: route.GetName()}
	for _, ref := range spec.ParentRefs {
		parent := parentOf(ref, route.GetNamespace())
		if !m.faulty[route] && !m.seen.unknown[parent] || !m.seen.unknown[parent] && !m.isOurs(parent) {
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
			m.wanted.Routes[object] = append(m.wanted.Routes[object], said)
		}
	}
	return nil
}

// setParent returns the parent that a ListenerSet is.
func setParent(set *gatewayv1.ListenerSet) source.Parent {
	return source.Parent{Group: gatewayv1.GroupName, Kind: "ListenerSet", Namespace: set.Namespace, Name: set.Name}
}

// gatewayOf returns the Gateway of a ListenerSet.
func gatewayOf(set *gatewayv1.ListenerSet) source.Parent {
	ref := set.Spec.ParentRef
	return source.GatewayParent(string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(set.Namespace))), string(ref.Name))
}

// parentOf returns what a route names.
func parentOf(ref gatewayv1.ParentReference, namespace string) source.Parent {
	return source.Parent{
		Group:     string(ptr.Deref(ref.Group, gatewayv1.GroupName)),
		Kind:      string(ptr.Deref(ref.Kind, "Gateway")),
		Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))),
		Name:      string(ref.Name),
	}
}

// isOurs reports whether routes may name a parent to be served by us.
func (m *marker) isOurs(parent source.Parent) bool {
	if parent.Group == appv1.GroupName {
		return m.seen.own[parent] != nil
	}
	for _, set := range m.seen.ListenerSets {
		if parent == setParent(set) {
			return m.isOurs(gatewayOf(set))
		}
	}
	for _, gateway := range m.seen.Gateways {
		if parent == source.GatewayParent(gateway.Namespace, gateway.Name) {
			return m.ours[gateway.Spec.GatewayClassName]
		}
	}
	return false
}
