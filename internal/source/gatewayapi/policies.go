package gatewayapi

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// addPolicies says for each data plane how to talk to the Service ports that its routes refer to.
func (t *translator) addPolicies() {
	for _, plane := range t.planes {
		for _, backend := range plane.used {
			policy := t.policyFor(backend)
			if policy != nil {
				plane.mountAuthorities(policy)
			}
			if _, known := plane.to.Policies[backend]; known || policy == nil {
				continue
			}
			plane.to.Policies[backend] = t.backendPolicy(policy, plane)
		}
	}
}

// policyFor returns the policy of a Service port: one for that port before one for all, the older before the newer. Nil
// if there is none.
func (t *translator) policyFor(backend model.Backend) *gatewayv1.BackendTLSPolicy {
	var all *gatewayv1.BackendTLSPolicy
	for _, policy := range t.Policies {
		if policy.Namespace != backend.Namespace {
			continue
		}
		for i := range policy.Spec.TargetRefs {
			ref := &policy.Spec.TargetRefs[i]
			if !isService(ref) || string(ref.Name) != backend.Service {
				continue
			}
			if ref.SectionName == nil && all == nil {
				all = policy
			}
			if ref.SectionName != nil && t.hasPort(backend, string(*ref.SectionName)) {
				return policy
			}
		}
	}
	return all
}

func isService(ref *gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
	return (ref.Group == corev1.GroupName || ref.Group == "core") && ref.Kind == "Service"
}

// hasPort says whether a port of a Service has a name. What is not known counts as such: rather TLS too often than in
// vain.
func (t *translator) hasPort(backend model.Backend, name string) bool {
	service, known := t.service(backend)
	if !known {
		return true
	}
	return service != nil && slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		return port.Name == name && port.Port == backend.Port
	})
}

// backendPolicy returns what a policy asks for. Nothing is sent where that cannot be done.
func (t *translator) backendPolicy(policy *gatewayv1.BackendTLSPolicy, plane *plane) model.BackendPolicy {
	if accepted, _ := policyProblems(policy, func(string) verdict { return verdict{} }); accepted.reason != "" {
		return model.BackendPolicy{Refused: "BackendTLSPolicy " + policy.Namespace + "/" + policy.Name + ": " + accepted.message}
	}
	if plane.noCertificate != "" {
		return model.BackendPolicy{Refused: "the Gateway's " + plane.noCertificate}
	}
	tls := &model.BackendTLS{ServerName: string(policy.Spec.Validation.Hostname)}
	for _, ref := range policy.Spec.Validation.CACertificateRefs {
		if policyAuthority(ref).reason == "" {
			tls.CAs = append(tls.CAs, LocalName(plane.parent.Namespace, policy.Namespace, string(ref.Name)))
		}
	}
	return model.BackendPolicy{TLS: tls}
}

// policyProblems says what is wrong with a policy, and with its references. content says what is wrong with a ConfigMap.
func policyProblems(policy *gatewayv1.BackendTLSPolicy, content func(configMap string) verdict) (accepted, resolved verdict) {
	validation := &policy.Spec.Validation
	usable := 0
	for i, ref := range validation.CACertificateRefs {
		problem := policyAuthority(ref)
		if problem.reason == "" {
			problem = content(string(ref.Name))
		}
		if problem.reason != "" {
			resolved.also(problem.reason, "caCertificateRefs[%d]: %s", i, problem.message)
		} else {
			usable++
		}
	}
	switch {
	case validation.WellKnownCACertificates != nil:
		accepted.no(gatewayv1.PolicyReasonInvalid, "wellKnownCACertificates is not supported: name ConfigMaps with CA certificates")
	case usable == 0:
		accepted.no(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate, "no CA certificate can be used")
	case len(validation.SubjectAltNames) > 0:
		accepted.no(gatewayv1.PolicyReasonInvalid, "subjectAltNames is not supported: certificates have to be for the hostname")
	case len(policy.Spec.Options) > 0:
		accepted.no(gatewayv1.PolicyReasonInvalid, "options are not supported")
	}
	return accepted, resolved
}

// policyAuthority says what is wrong with a policy's reference to CA certificates, whatever it refers to.
func policyAuthority(ref gatewayv1.LocalObjectReference) (v verdict) {
	if ref.Group != corev1.GroupName || ref.Kind != "ConfigMap" {
		v.no(gatewayv1.BackendTLSPolicyReasonInvalidKind, "CA certificates are in ConfigMaps, not in objects of kind %s", ref.Kind)
	}
	return v
}
