package convert

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// addBackends carries over the BackendTLSPolicies for the Service ports that requests go to, and adds them to those used.
func (c *gatewayConverter) addBackends(used map[*gatewayv1.BackendTLSPolicy]bool) {
	seen := map[appv1.Backend]bool{}
	for _, route := range c.gateway.Spec.Routes {
		for _, rule := range route.Rules {
			for _, ref := range rule.BackendRefs {
				backend := appv1.Backend{Name: ref.Name, Port: ref.Port}
				policy := c.policyFor(ref.Name, ref.Port)
				if policy == nil || seen[backend] {
					continue
				}
				seen[backend], used[policy] = true, true
				at := newPlace(c.notes, policy, "BackendTLSPolicy")
				c.noteConnections(at, ref.Name, ref.Port)
				backend.TLS = c.backendTLS(at, policy, ref.Name)
				c.gateway.Spec.Backends = append(c.gateway.Spec.Backends, backend)
			}
		}
	}
}

// policyFor returns the policy for a port of a Service in the Gateway's namespace: one for that port before one for all, the older
// before the newer. Nil if there is none.
func (c *gatewayConverter) policyFor(service string, port int32) *gatewayv1.BackendTLSPolicy {
	var all *gatewayv1.BackendTLSPolicy
	for _, policy := range c.policies {
		if policy.Namespace != c.source.Namespace {
			continue
		}
		for _, target := range policy.Spec.TargetRefs {
			// The group is "", but "core" cannot mean anything else.
			if target.Group != corev1.GroupName && target.Group != "core" || target.Kind != "Service" || string(target.Name) != service {
				continue
			}
			switch {
			case target.SectionName == nil:
				all = cmp.Or(all, policy)
			case c.hasPort(service, string(*target.SectionName), port):
				return policy
			}
		}
	}
	return all
}

// hasPort says whether a port of a Service has a name. What is not known counts as such: rather TLS too often than in vain.
func (c *gatewayConverter) hasPort(service, name string, number int32) bool {
	found := c.services[types.NamespacedName{Namespace: c.source.Namespace, Name: service}]
	if found == nil {
		c.note("Service %s is not in the input: port %d is taken to be the one with the name %s, which a BackendTLSPolicy is for", service, number, name)
		return true
	}
	return slices.ContainsFunc(found.Spec.Ports, func(port corev1.ServicePort) bool { return port.Name == name && port.Port == number })
}

func (c *gatewayConverter) backendTLS(at place, policy *gatewayv1.BackendTLSPolicy, service string) *appv1.BackendTLS {
	validation := &policy.Spec.Validation
	var refs []reference
	for _, ref := range validation.CACertificateRefs {
		refs = append(refs, reference{group: string(ref.Group), kind: string(ref.Kind), namespace: policy.Namespace, name: string(ref.Name)})
	}
	if wellKnown := or(validation.WellKnownCACertificates, ""); wellKnown != "" {
		at.note("wellKnownCACertificates %s is not carried over: there are no certificates but those of ConfigMaps", wellKnown)
	}
	for _, option := range slices.Sorted(maps.Keys(policy.Spec.Options)) {
		at.note("options %s is not carried over", option)
	}
	return &appv1.BackendTLS{
		CACertificateRefs: at.authorities(refs, c.source.Namespace, service+"-ca"), Hostname: appv1.PreciseHostname(validation.Hostname),
	}
}

// noteConnections lists a port that connections go to as well: they are wrapped in TLS too.
func (c *gatewayConverter) noteConnections(at place, service string, port int32) {
	var refs []appv1.ConnectionBackendRef
	for _, route := range c.gateway.Spec.TCPRoutes {
		refs = append(refs, route.Rules[0].BackendRefs...)
	}
	for _, route := range c.gateway.Spec.TLSRoutes {
		refs = append(refs, route.Rules[0].BackendRefs...)
	}
	if slices.ContainsFunc(refs, func(ref appv1.ConnectionBackendRef) bool { return ref.Name == service && ref.Port == port }) {
		at.note("connections of TCPRoutes and TLSRoutes to port %d of Service %s are wrapped in TLS too: give them a Service of their own", port, service)
	}
}

// closeByNames closes the BackendTLSPolicies that want certificates for other names than the hostname: here, they have to be for
// that. A policy with the hostname among its names is only stricter here.
func closeByNames(o *objects, n *notes) {
	for _, policy := range o.policies {
		at, validation := newPlace(n, policy, "BackendTLSPolicy"), &policy.Spec.Validation
		isHostname := func(name gatewayv1.SubjectAltName) bool {
			return name.Type == gatewayv1.HostnameSubjectAltNameType && string(name.Hostname) == string(validation.Hostname)
		}
		others := slices.DeleteFunc(slices.Clone(validation.SubjectAltNames), isHostname)
		switch {
		case len(others) == 0:
		case len(others) < len(validation.SubjectAltNames):
			at.note("subjectAltNames: of these, the certificate has to be for %s", validation.Hostname)
		default:
			then := o.close(flagName("BackendTLSPolicy", policy), target{"BackendTLSPolicy", policy.Namespace, policy.Name})
			at.note("subjectAltNames are not carried over: certificates have to be for the hostname, %s; %s", validation.Hostname, then)
		}
	}
}
