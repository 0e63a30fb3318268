package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

// policies are the policies of one kind, for each Service in the order of precedence.
type policies[P metav1.Object] map[types.NamespacedName][]targeted[P]

// targeted is a policy for a port of a Service, or for all of its ports if the name of the port is empty.
type targeted[P metav1.Object] struct {
	policy P
	port   string
}

// choice is what is chosen of policies for a Service port at a data plane.
type choice struct {
	policy model.BackendPolicy
	// isNone reports whether none of them is in effect, so that an entry of spec.backends is, if there is one.
	isNone bool
	// candidates are all policies for the port, with why each has no effect; "": it has.
	candidates []candidate
	claims     []claim
}

// all returns the candidates; none if nothing is chosen.
func (c *choice) all() []candidate {
	if c == nil {
		return nil
	}
	return c.candidates
}

type candidate struct {
	policy   metav1.Object
	conflict string
}

// use is a data plane that sends traffic to a Service port of a policy. conflict is why the policy has no effect there,
// "" if it has.
type use struct {
	plane    *plane
	conflict string
}

// usage is where a policy is used: the Service ports at each data plane, with why the policy has no effect there.
type usage struct {
	policy metav1.Object
	at     map[*plane]map[model.Backend]string
}

// add adds a policy for a Service of its namespace.
func (p policies[P]) add(policy P, service, port string) {
	name := types.NamespacedName{Namespace: policy.GetNamespace(), Name: service}
	p[name] = append(p[name], targeted[P]{policy, port})
}

// of returns the policies for a Service port. The first one counts: policies that name the port come before those for
// all ports, and older ones before newer ones.
func (p policies[P]) of(t *translator, backend model.Backend) []P {
	var named, all []P
	for _, candidate := range p[types.NamespacedName{Namespace: backend.Namespace, Name: backend.Service}] {
		switch {
		case candidate.port == "":
			all = append(all, candidate.policy)
		case t.hasPort(backend, candidate.port):
			named = append(named, candidate.policy)
		}
	}
	return append(named, all...)
}

// choose returns the policy in effect for a Service port, false if there is none, and notes all policies for the port.
// conflict is why none of them has an effect.
func (p policies[P]) choose(t *translator, c *choice, backend model.Backend, conflict string) (chosen P, ok bool) {
	for i, policy := range p.of(t, backend) {
		if i == 0 {
			chosen, ok = policy, conflict == ""
		} else if conflict == "" {
			conflict = "another policy for the same Service port comes first"
		}
		c.candidates = append(c.candidates, candidate{policy, conflict})
	}
	return chosen, ok
}

// noteUse notes that what is chosen for a Service port at a data plane changed.
func (t *translator) noteUse(p *plane, backend model.Backend, before, now []candidate) {
	if slices.Equal(before, now) {
		return
	}
	t.otherUses = true
	for _, c := range before {
		id := policyID(c.policy)
		t.changes.Objects[id] = true
		if used := t.uses[id]; used != nil {
			if delete(used.at[p], backend); len(used.at[p]) == 0 {
				delete(used.at, p)
			}
			if len(used.at) == 0 {
				delete(t.uses, id)
			}
		}
	}
	for _, c := range now {
		id := policyID(c.policy)
		t.changes.Objects[id] = true
		if t.uses[id] == nil {
			t.uses[id] = &usage{at: map[*plane]map[model.Backend]string{}}
		}
		t.uses[id].policy = c.policy
		at := t.uses[id].at
		if at[p] == nil {
			at[p] = map[model.Backend]string{}
		}
		if _, ok := at[p][backend]; !ok || c.conflict == "" {
			at[p][backend] = c.conflict
		}
	}
}

// policyID identifies a policy.
func policyID(policy metav1.Object) Object {
	if _, ok := policy.(*appv1.BackendPolicy); ok {
		return idOf(kindBackendPolicy, policy)
	}
	return idOf(kindTLSPolicy, policy)
}

// usesOf returns where a policy is used. A policy with an effect on one of its Service ports is in effect.
func (t *translator) usesOf(policy Object) []use {
	used := t.uses[policy]
	if used == nil {
		return nil
	}
	var all []use
	for _, plane := range t.planes {
		if ports := used.at[plane]; len(ports) > 0 {
			first := slices.SortedFunc(maps.Keys(ports), model.CompareBackends)[0]
			one := use{plane, ports[first]}
			for _, conflict := range ports {
				if conflict == "" {
					one.conflict = ""
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// touchPolicies notes the policies that depend on what proxies report, and the Service ports whose policies changed.
func (t *translator) touchPolicies(object Object) {
	switch object.Kind {
	case kindReported:
		for id := range t.uses {
			t.changes.Objects[id] = true
		}
	case kindTarget:
		for _, plane := range t.planes {
			for _, used := range []map[model.Backend]int{plane.used, plane.passed} {
				for backend := range used {
					if backend.Namespace == object.Namespace && backend.Service == object.Name {
						plane.stale[backend] = true
					}
				}
			}
		}
	}
}

// indexPolicies makes the policies known by their Services.
func (t *translator) indexPolicies() {
	t.tlsPolicies, t.settings = policies[*gatewayv1.BackendTLSPolicy]{}, policies[*appv1.BackendPolicy]{}
	for _, policy := range t.Policies {
		for i := range policy.Spec.TargetRefs {
			ref := &policy.Spec.TargetRefs[i]
			if name, ok := targetName(ref); ok {
				t.tlsPolicies.add(policy, name, string(ptr.Deref(ref.SectionName, "")))
			}
		}
	}
	for _, policy := range t.BackendPolicies {
		for _, ref := range policy.Spec.TargetRefs {
			t.settings.add(policy, serviceName(ref.Kind, ref.Name), ref.SectionName)
		}
	}
}

// updatePolicies configures how a data plane talks to those Service ports whose routes, policies or Services changed.
func (t *translator) updatePolicies(p *plane) {
	defer clear(p.stale)
	if len(p.stale) == 0 || len(t.Policies)+len(t.BackendPolicies) == 0 && len(p.choices) == 0 {
		return
	}
	changed := map[model.Backend]model.BackendPolicy{}
	for backend := range p.stale {
		before, now := p.choices[backend], (*choice)(nil)
		if delete(p.choices, backend); before != nil {
			for _, c := range before.claims {
				p.unclaim(c)
			}
		}
		if passthrough := p.used[backend] == 0; !passthrough || p.passed[backend] > 0 {
			now = t.choosePolicy(p, backend, passthrough)
		}
		if p.choices == nil {
			p.choices = map[model.Backend]*choice{}
		}
		policy := p.ownPolicies[backend]
		t.noteUse(p, backend, before.all(), now.all())
		if now != nil && len(now.candidates) > 0 {
			for _, c := range now.claims {
				p.claim(c)
			}
			if p.choices[backend] = now; !now.isNone {
				policy = now.policy
			}
		}
		if !reflect.DeepEqual(policy, p.to.Policies[backend]) {
			changed[backend] = policy
		}
	}
	if len(changed) == 0 {
		return
	}
	p.to.Policies = maps.Clone(p.to.Policies) // tables have it
	for backend, policy := range changed {
		if _, isOwn := p.ownPolicies[backend]; !isOwn && reflect.ValueOf(policy).IsZero() {
			delete(p.to.Policies, backend)
		} else {
			p.to.Policies[backend] = policy
		}
	}
}

// choosePolicy returns what configures how a data plane talks to a Service port. An entry of spec.backends comes before
// a BackendPolicy. An entry without tls does not switch off the TLS of a BackendTLSPolicy. passthrough reports whether
// all traffic there is TLS already.
func (t *translator) choosePolicy(plane *plane, backend model.Backend, passthrough bool) *choice {
	c := &choice{}
	policy, isOwn := plane.ownPolicies[backend]
	own := func(sets bool) string {
		if sets {
			return "an entry of the Gateway's spec.backends for the same Service port comes first"
		}
		return ""
	}
	settings, ok := t.settings.choose(t, c, backend, own(isOwn))
	if ok {
		policy = source.BackendSettings(&settings.Spec.BackendSettings, backend)
		policy.From = named(policy.From, kindBackendPolicy, settings)
	}
	var secured bool
	if !passthrough {
		var tls *gatewayv1.BackendTLSPolicy
		if tls, secured = t.tlsPolicies.choose(t, c, backend, own(policy.TLS != nil || policy.Refused != "")); secured {
			c.claims = authoritiesOf(tls, plane)
			policy.TLS, policy.Refused = t.backendTLS(tls, plane)
			policy.From = named(policy.From, kindTLSPolicy, tls)
		}
	}
	c.policy, c.isNone = policy, !ok && !secured
	return c
}

// named returns names of policies with one more.
func named(all []string, kind string, policy metav1.Object) []string {
	return append(slices.Clip(all), kind+" "+policy.GetNamespace()+"/"+policy.GetName())
}

// targetName returns the name of the Service that is a target, or of what stands for a ServiceImport; false: it is
// neither.
func targetName(ref *gatewayv1.LocalPolicyTargetReferenceWithSectionName) (string, bool) {
	name := serviceName(string(ref.Kind), string(ref.Name))
	_, isNamed := model.ServiceImportOf(name)
	if isImport(string(ref.Group), string(ref.Kind)) {
		return name, true
	}
	return name, (ref.Group == corev1.GroupName || ref.Group == "core") && ref.Kind == kindService && !isNamed
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
	if accepted, _ := t.policyProblems(policy, func(_, _ string) verdict { return verdict{} }); accepted.reason() != "" {
		return nil, kindTLSPolicy + " " + policy.Namespace + "/" + policy.Name + ": " + accepted.message()
	}
	if plane.noCertificate != "" {
		return nil, "the Gateway's " + plane.noCertificate
	}
	tls = &model.BackendTLS{ServerName: string(policy.Spec.Validation.Hostname)}
	if ptr.Deref(policy.Spec.Validation.WellKnownCACertificates, "") != "" {
		tls.CAs = []string{model.SystemCAs}
	}
	for _, ref := range policy.Spec.Validation.CACertificateRefs {
		switch {
		case t.policyAuthority(ref).reason() != "":
		case isBundle(ref.Group, ref.Kind):
			tls.CAs = append(tls.CAs, model.TrustBundle(string(ref.Name)))
		default:
			tls.CAs = append(tls.CAs, LocalName(plane.parent.Namespace, policy.Namespace, string(ref.Name)))
		}
	}
	for _, name := range policy.Spec.Validation.SubjectAltNames {
		if name.Type == gatewayv1.URISubjectAltNameType {
			tls.URIs = append(tls.URIs, string(name.URI))
		} else {
			tls.DNSNames = append(tls.DNSNames, string(name.Hostname))
		}
	}
	return tls, ""
}

// policyProblems returns the problems of a policy, and of its references. content returns the problems of a
// ConfigMap, or a ClusterTrustBundle, which has no namespace.
func (t *translator) policyProblems(policy *gatewayv1.BackendTLSPolicy, content func(namespace, name string) verdict) (accepted, resolved verdict) {
	validation := &policy.Spec.Validation
	usable, unknown := 0, verdict{}
	for i, ref := range validation.CACertificateRefs {
		problem, namespace := t.policyAuthority(ref), policy.Namespace
		if isBundle(ref.Group, ref.Kind) {
			namespace = ""
		}
		if problem.reason() == "" {
			problem = content(namespace, string(ref.Name))
		}
		resolved.alsoReported(problem, fmt.Sprintf("caCertificateRefs[%d]", i))
		switch {
		case problem.unknown():
			unknown = problem
		case problem.reason() == "":
			usable++
		}
	}
	wellKnown := ptr.Deref(validation.WellKnownCACertificates, "")
	switch {
	case wellKnown != "" && wellKnown != gatewayv1.WellKnownCACertificatesSystem:
		accepted.no(gatewayv1.PolicyReasonInvalid, "wellKnownCACertificates: %s is not known: use System, or name CA certificates in caCertificateRefs", wellKnown)
	case wellKnown != "" && len(validation.CACertificateRefs) > 0:
		accepted.no(gatewayv1.PolicyReasonInvalid, "caCertificateRefs and wellKnownCACertificates exclude each other: remove one of them")
	case wellKnown != "":
	case usable == 0 && unknown.reason() != "":
		accepted = unknown
	case usable == 0:
		accepted.no(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate, "no CA certificate can be used: %s",
			cmp.Or(resolved.message(), "caCertificateRefs is empty"))
	}
	if accepted.reason() == "" && len(policy.Spec.Options) > 0 {
		accepted.no(gatewayv1.PolicyReasonInvalid, "options are not supported")
	}
	return accepted, resolved
}

// policyAuthority returns the problems of a policy's reference to CA certificates.
func (t *translator) policyAuthority(ref gatewayv1.LocalObjectReference) (v verdict) {
	switch {
	case isBundle(ref.Group, ref.Kind) && t.NoTrustBundles:
		v.no(gatewayv1.BackendTLSPolicyReasonInvalidKind, noBundles)
	case isBundle(ref.Group, ref.Kind):
	case ref.Group != corev1.GroupName || ref.Kind != "ConfigMap":
		v.no(gatewayv1.BackendTLSPolicyReasonInvalidKind, noAuthorities, ref.Kind, ref.Group)
	}
	return v
}
