package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

const kindTLSPolicy = "BackendTLSPolicy"

// IdleTarget is a target of a policy that the policy has no effect on at any data plane.
type IdleTarget struct {
	// Origin is the policy, and Field names the target.
	Origin model.Origin
	Field  string
	// Message names the policy and the target, and why.
	Message string
	// Missing reports whether there is no such target. Otherwise, nothing that is known sends traffic there.
	Missing bool
}

// IdleTargets returns the idle targets of all policies. No status has them: a policy's status lists only Gateways
// where it is in effect.
func (r *Result) IdleTargets() []IdleTarget {
	var all []IdleTarget
	t := r.t
	for _, policy := range t.Policies {
		for i := range policy.Spec.TargetRefs {
			ref := &policy.Spec.TargetRefs[i]
			name, ok := targetName(ref)
			target := model.Backend{Namespace: policy.Namespace, Service: name}
			idle, why := true, isMissing("only Services and ServiceImports are backends, and not objects of kind %s", ref.Kind)
			if ok {
				idle, why = t.isIdle(target, string(ptr.Deref(ref.SectionName, "")), true)
			}
			if idle {
				all = append(all, why.of(kindTLSPolicy, policy, targetRef(i)))
			}
		}
	}
	for _, policy := range t.BackendPolicies {
		for i, ref := range policy.Spec.TargetRefs {
			target := model.Backend{Namespace: policy.Namespace, Service: serviceName(ref.Kind, ref.Name)}
			if idle, why := t.isIdle(target, ref.SectionName, false); idle {
				all = append(all, why.of(kindBackendPolicy, policy, targetRef(i)))
			}
		}
		if backup := policy.Spec.Backup; backup != nil {
			var v verdict
			if t.checkPort(&v, "TCPRoute", model.Backend{Namespace: policy.Namespace, Service: serviceName(string(backup.Kind), backup.Name), Port: backup.Port}); v.reason() != "" {
				all = append(all, isMissing("%s", v.message()).of(kindBackendPolicy, policy, "backup"))
			}
		}
	}
	return append(all, t.idleTelemetry()...)
}

// IdleFilters returns the RouteFilters that no route has, sorted.
func (r *Result) IdleFilters() []Object {
	var all []Object
	for id := range r.t.filters {
		if r.t.dependents[id].Len() == 0 {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Strays returns the routes that have none of the parents, in the order of precedence.
func (r *Result) Strays(parents map[Parent]bool) []Object {
	var all []Object
	for _, route := range slices.SortedFunc(maps.Values(r.t.routes), (*route).compare) {
		hasParent := func(ref gatewayv1.ParentReference) bool { return parents[ParentOf(ref, route.GetNamespace())] }
		if !slices.ContainsFunc(route.parentRefs(), hasParent) {
			all = append(all, route.id)
		}
	}
	return all
}

func (i IdleTarget) of(kind string, policy metav1.Object, field string) IdleTarget {
	i.Origin, i.Field = origin(kind, policy), field
	i.Message = fmt.Sprintf("%s %s/%s: spec.%s has no effect: %s", kind, policy.GetNamespace(), policy.GetName(), field, i.Message)
	return i
}

func targetRef(index int) string { return fmt.Sprintf("targetRefs[%d]", index) }

// isMissing returns an IdleTarget without a policy, for a target that is not there.
func isMissing(format string, args ...any) IdleTarget {
	return IdleTarget{Missing: true, Message: fmt.Sprintf(format, args...)}
}

// isIdle reports whether a policy for a port of a Service, "" for all of its ports, has no effect, and why. No policy
// adds TLS to traffic that has it already.
func (t *translator) isIdle(target model.Backend, port string, tls bool) (bool, IdleTarget) {
	is := func(backend model.Backend) bool {
		return backend.Namespace == target.Namespace && backend.Service == target.Service && (port == "" || t.hasPort(backend, port))
	}
	in := func(counts map[model.Backend]int) bool {
		for backend := range counts {
			if is(backend) {
				return true
			}
		}
		return false
	}
	for _, plane := range t.planes {
		if in(plane.used) || !tls && in(plane.passed) {
			return false, IdleTarget{}
		}
	}
	name := target.Object()
	service, known := t.service(target)
	switch {
	case known && service == nil:
		const message = "there is no %s: correct the name, or put the policy into its namespace"
		return true, isMissing(message, name)
	case known && port != "" && !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port }):
		return true, isMissing("%s has no port with the name %s, but %s", name, port, portNames(service))
	case port != "":
		name = fmt.Sprintf("port %s of %s", port, name)
	}
	for _, plane := range t.planes {
		if in(plane.passed) {
			return true, IdleTarget{Message: "what goes to " + name + " is TLS that is passed through"}
		}
	}
	return true, IdleTarget{Message: "no attached route sends requests to " + name}
}

// portNames lists the names of the ports of a Service.
func portNames(service *corev1.Service) string {
	var names []string
	for _, port := range service.Spec.Ports {
		if port.Name != "" {
			names = append(names, port.Name)
		}
	}
	if len(names) == 0 {
		return "ports without names"
	}
	return strings.Join(names, ", ")
}
