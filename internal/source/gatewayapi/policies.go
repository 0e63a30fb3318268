package gatewayapi

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

// policies are the policies of one kind.
type policies[P metav1.Object] struct {
	// byService has the policies for each Service, in the order of precedence.
	byService map[types.NamespacedName][]targeted[P]
	// uses has the data planes that send traffic to a Service port of a policy.
	uses map[types.NamespacedName][]use
}

// targeted is a policy for a port of a Service, or for all of its ports if the name of the port is empty.
type targeted[P metav1.Object] struct {
	policy P
	port   string
}

// use is a data plane that sends traffic to a Service port of a policy. conflict is why the policy has no effect there,
// "" if it has.
type use struct {
	plane    *plane
	conflict string
}

// add adds a policy for a Service of its namespace.
func (p *policies[P]) add(policy P, service, port string) {
	if p.byService == nil {
		p.byService, p.uses = map[types.NamespacedName][]targeted[P]{}, map[types.NamespacedName][]use{}
	}
	name := types.NamespacedName{Namespace: policy.GetNamespace(), Name: service}
	p.byService[name] = append(p.byService[name], targeted[P]{policy, port})
}

// of returns the policies for a Service port. The first one counts: policies that name the port come before those for
// all ports, and older ones before newer ones.
func (p *policies[P]) of(t *translator, backend model.Backend) []P {
	var named, all []P
	for _, candidate := range p.byService[types.NamespacedName{Namespace: backend.Namespace, Name: backend.Service}] {
		switch {
		case candidate.port == "":
			all = append(all, candidate.policy)
		case t.hasPort(backend, candidate.port):
			named = append(named, candidate.policy)
		}
	}
	return append(named, all...)
}

// choose returns the policy in effect for a Service port at a data plane, false if there is none, and notes all
// policies for the port. conflict is why none of them has an effect.
func (p *policies[P]) choose(t *translator, plane *plane, backend model.Backend, conflict string) (chosen P, ok bool) {
	for i, policy := range p.of(t, backend) {
		if i == 0 {
			chosen, ok = policy, conflict == ""
		} else if conflict == "" {
			conflict = "another policy for the same Service port comes first"
		}
		p.note(policy, use{plane, conflict})
	}
	return chosen, ok
}

// note notes a use of a policy. A policy with an effect on one of its Service ports is in effect.
func (p *policies[P]) note(policy P, now use) {
	name := types.NamespacedName{Namespace: policy.GetNamespace(), Name: policy.GetName()}
	uses := p.uses[name]
	if last := len(uses) - 1; last >= 0 && uses[last].plane == now.plane {
		if now.conflict == "" {
			uses[last].conflict = ""
		}
		return
	}
	p.uses[name] = append(uses, now)
}

// indexPolicies makes the policies known by their Services.
func (t *translator) indexPolicies() {
	for _, policy := range t.Policies {
		for i := range policy.Spec.TargetRefs {
			if ref := &policy.Spec.TargetRefs[i]; isService(ref) {
				t.tlsPolicies.add(policy, string(ref.Name), string(or(ref.SectionName, "")))
			}
		}
	}
	for _, policy := range t.BackendPolicies {
		for _, ref := range policy.Spec.TargetRefs {
			t.settings.add(policy, ref.Name, ref.SectionName)
		}
	}
}

// addPolicies configures for each data plane how to talk to the Service ports that its routes refer to.
func (t *translator) addPolicies() {
	if len(t.Policies)+len(t.BackendPolicies) == 0 {
		return
	}
	for _, plane := range t.planes {
		used, passed := distinct(plane.used), distinct(plane.passed)
		for _, backend := range used {
			t.addPolicy(plane, backend, false)
		}
		for _, backend := range passed {
			if _, ok := slices.BinarySearchFunc(used, backend, model.CompareBackends); !ok {
				t.addPolicy(plane, backend, true)
			}
		}
	}
}

// distinct returns Service ports sorted and unique.
func distinct(backends []model.Backend) []model.Backend {
	slices.SortFunc(backends, model.CompareBackends)
	return slices.Compact(backends)
}

// addPolicy configures how a data plane talks to a Service port. An entry of spec.backends comes before a
// BackendPolicy. An entry without tls does not switch off the TLS of a BackendTLSPolicy. passthrough reports whether
// all traffic there is TLS already.
func (t *translator) addPolicy(plane *plane, backend model.Backend, passthrough bool) {
	policy, isOwn := plane.to.Policies[backend]
	own := func(sets bool) string {
		if sets {
			return "an entry of the Gateway's spec.backends for the same Service port comes first"
		}
		return ""
	}
	settings, ok := t.settings.choose(t, plane, backend, own(isOwn))
	if ok {
		policy = source.BackendSettings(&settings.Spec.BackendSettings, backend.Service)
		policy.From = named(policy.From, kindBackendPolicy, settings)
	}
	var secured bool
	if !passthrough {
		var tls *gatewayv1.BackendTLSPolicy
		if tls, secured = t.tlsPolicies.choose(t, plane, backend, own(policy.TLS != nil || policy.Refused != "")); secured {
			plane.mountAuthorities(tls)
			policy.TLS, policy.Refused = t.backendTLS(tls, plane)
			policy.From = named(policy.From, kindTLSPolicy, tls)
		}
	}
	if ok || secured {
		plane.to.Policies[backend] = policy
	}
}

// named returns names of policies with one more.
func named(all []string, kind string, policy metav1.Object) []string {
	return append(slices.Clip(all), kind+" "+policy.GetNamespace()+"/"+policy.GetName())
}

func isService(ref *gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
	return (ref.Group == corev1.GroupName || ref.Group == "core") && ref.Kind == "Service"
}

// hasPort reports whether a port of a Service may have a name. An unknown port counts as having it: too much TLS is
// better than none.
func (t *translator) hasPort(backend model.Backend, name string) bool {
	service, known := t.service(backend)
	if !known {
		return true
	}
	return service != nil && slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		return port.Name == name && port.Port == backend.Port
	})
}

// backendTLS returns the TLS that a policy asks for, or why nothing may be sent to its Service ports.
func (t *translator) backendTLS(policy *gatewayv1.BackendTLSPolicy, plane *plane) (tls *model.BackendTLS, refused string) {
	if accepted, _ := policyProblems(policy, func(string) verdict { return verdict{} }); accepted.reason != "" {
		return nil, kindTLSPolicy + " " + policy.Namespace + "/" + policy.Name + ": " + accepted.message
	}
	if plane.noCertificate != "" {
		return nil, "the Gateway's " + plane.noCertificate
	}
	tls = &model.BackendTLS{ServerName: string(policy.Spec.Validation.Hostname)}
	for _, ref := range policy.Spec.Validation.CACertificateRefs {
		if policyAuthority(ref).reason == "" {
			tls.CAs = append(tls.CAs, LocalName(plane.parent.Namespace, policy.Namespace, string(ref.Name)))
		}
	}
	return tls, ""
}

// policyProblems returns what is wrong with a policy, and with its references. content returns what is wrong with a
// ConfigMap.
func policyProblems(policy *gatewayv1.BackendTLSPolicy, content func(configMap string) verdict) (accepted, resolved verdict) {
	validation := &policy.Spec.Validation
	usable, unknown := 0, verdict{}
	for i, ref := range validation.CACertificateRefs {
		problem := policyAuthority(ref)
		if problem.reason == "" {
			problem = content(string(ref.Name))
		}
		resolved.alsoReported(problem, fmt.Sprintf("caCertificateRefs[%d]", i))
		switch {
		case problem.unknown:
			unknown = problem
		case problem.reason == "":
			usable++
		}
	}
	switch {
	case validation.WellKnownCACertificates != nil:
		accepted.no(gatewayv1.PolicyReasonInvalid, "wellKnownCACertificates is not supported: name ConfigMaps with CA certificates")
	case usable == 0 && unknown.reason != "":
		accepted = unknown
	case usable == 0:
		accepted.no(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate, "no CA certificate can be used")
	case len(validation.SubjectAltNames) > 0:
		accepted.no(gatewayv1.PolicyReasonInvalid, "subjectAltNames is not supported: certificates have to be for the hostname")
	case len(policy.Spec.Options) > 0:
		accepted.no(gatewayv1.PolicyReasonInvalid, "options are not supported")
	}
	return accepted, resolved
}

// policyAuthority returns what is wrong with a policy's reference to CA certificates.
func policyAuthority(ref gatewayv1.LocalObjectReference) (v verdict) {
	if ref.Group != corev1.GroupName || ref.Kind != "ConfigMap" {
		v.no(gatewayv1.BackendTLSPolicyReasonInvalidKind, "CA certificates are in ConfigMaps, not in objects of kind %s", ref.Kind)
	}
	return v
}
