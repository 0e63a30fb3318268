package gatewayapi

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// setTLS sets how a listener terminates TLS, if it does.
func (t *translator) setTLS(l *listener, plane *plane) {
	spec := ptr.Deref(l.TLS, gatewayv1.ListenerTLSConfig{})
	if ptr.Deref(spec.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough {
		return
	}
	l.tls = &model.ListenerTLS{MinVersion: "TLSv1.2", AnyNames: true}
	unusable, unknown := 0, verdict{}
	if len(spec.CertificateRefs) == 0 {
		l.resolved.also(gatewayv1.ListenerReasonInvalidCertificateRef, "tls.certificateRefs names no certificate")
	}
	for i, ref := range spec.CertificateRefs {
		namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(l.owner.Namespace)))
		problem := t.certificateProblem(ref, l.owner, gatewayv1.ListenerReasonInvalidCertificateRef)
		if i >= maxCertificates {
			problem.no(gatewayv1.ListenerReasonInvalidCertificateRef, "a listener has at most %d certificates", maxCertificates)
		}
		if problem.reason() != "" {
			l.resolved.also(problem.reason(), "tls.certificateRefs[%d]: %s", i, problem.message())
			continue
		}
		l.tls.Secrets = append(l.tls.Secrets, l.mountSecret(plane, namespace, string(ref.Name)))
		reported := t.reported(plane, Subject{
			Reason: appv1.ProblemInvalidCertificateRef, Listener: l.name, Namespace: namespace, Name: string(ref.Name),
		}, gatewayv1.ListenerReasonInvalidCertificateRef)
		l.resolved.alsoReported(reported, fmt.Sprintf("tls.certificateRefs[%d]", i))
		if reported.reason() != "" {
			unusable++
		}
		if reported.unknown() {
			unknown = reported
		}
	}
	switch {
	case len(l.tls.Secrets) != unusable:
	case unknown.reason() != "":
		l.unserved = unknown
	default:
		l.unserved.no(gatewayv1.ListenerReasonInvalid, "%s", l.resolved.text())
	}
	t.setClientValidation(l, plane)
}

// setBackendCertificate sets the client certificate for backends. If its reference is wrong, backendPolicy refuses the
// backends that would get it.
func (t *translator) setBackendCertificate(p *plane) {
	ref := p.backendCertificateRef()
	if ref == nil {
		return
	}
	owner := origin(kindGateway, p.gateway)
	namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(owner.Namespace)))
	problem := t.certificateProblem(*ref, owner, gatewayv1.GatewayReasonInvalidClientCertificateRef)
	if problem.reason() == "" {
		p.to.BackendCertificate = p.mountSecret(namespace, string(ref.Name))
		problem = t.reported(p, Subject{
			Reason: appv1.ProblemInvalidCertificateRef, Namespace: namespace, Name: string(ref.Name),
		}, gatewayv1.GatewayReasonInvalidClientCertificateRef)
	}
	const where = "tls.backend.clientCertificateRef"
	p.resolved.alsoReported(problem, where)
	if p.to.BackendCertificate == "" {
		p.noCertificate = where + ": " + problem.message()
	}
}

// backendCertificateRef is the reference to the client certificate for backends, nil if there is none.
func (p *plane) backendCertificateRef() *gatewayv1.SecretObjectReference {
	if p.gateway == nil || p.gateway.Spec.TLS == nil || p.gateway.Spec.TLS.Backend == nil {
		return nil
	}
	return p.gateway.Spec.TLS.Backend.ClientCertificateRef
}

// certificateProblem returns the problems of a reference to a certificate. invalid is the reason for a reference to
// something else.
func (t *translator) certificateProblem(ref gatewayv1.SecretObjectReference, owner model.Origin, invalid any) verdict {
	var v verdict
	namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(owner.Namespace)))
	from := reference{gatewayv1.GroupName, owner.Kind, owner.Namespace}
	switch {
	case ptr.Deref(ref.Group, corev1.GroupName) != corev1.GroupName || ptr.Deref(ref.Kind, "Secret") != "Secret":
		v.no(invalid, "certificates are in Secrets, not in objects of kind %s", ptr.Deref(ref.Kind, "Secret"))
	case !t.isGranted(from, "Secret", namespace, string(ref.Name)):
		v.no(gatewayv1.ListenerReasonRefNotPermitted, "no ReferenceGrant of namespace %s lets %ss of namespace %s use Secret %s",
			namespace, owner.Kind, owner.Namespace, ref.Name)
	}
	return v
}

// maxCertificates is the limit for a listener.
const maxCertificates = 16

// LocalName returns the name of a Secret or ConfigMap in the namespace of a data plane, where its pods mount it. An
// object of another namespace is mounted as a copy with a name of its own. One of no namespace keeps its name.
func LocalName(plane, namespace, name string) string {
	if namespace == plane || namespace == "" {
		return name
	}
	return hashed(name, namespace, name)
}

// nobody stands in for the name of a ConfigMap that cannot exist: objects that need it are not served.
const nobody = "/"

// setClientValidation sets which client certificates a listener asks for.
func (t *translator) setClientValidation(l *listener, plane *plane) {
	if plane.gateway.Spec.TLS == nil || plane.gateway.Spec.TLS.Frontend == nil {
		return
	}
	frontend := plane.gateway.Spec.TLS.Frontend
	validation := frontend.Default.Validation
	for _, other := range frontend.PerPort {
		if other.Port == l.Port {
			validation = other.TLS.Validation
		}
	}
	if validation == nil {
		return
	}
	l.tls.ClientUnverified = validation.Mode == gatewayv1.AllowInsecureFallback
	l.tls.ClientRequired = !l.tls.ClientUnverified
	owner := origin(kindGateway, plane.gateway)
	unusable, unknown := 0, verdict{}
	for i, ref := range validation.CACertificateRefs {
		namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(owner.Namespace)))
		if problem := t.authorityProblem(ref, namespace, owner); problem.reason() != "" {
			l.resolved.also(problem.reason(), "caCertificateRefs[%d]: %s", i, problem.message())
			continue
		}
		name := LocalName(plane.parent.Namespace, namespace, string(ref.Name))
		switch {
		case isBundle(ref.Group, ref.Kind):
			namespace, name = "", model.TrustBundle(name)
		case namespace != plane.parent.Namespace:
			l.claims = append(l.claims, claim{claimResource, namespace, "referencegrants"}, claim{claimConfigMap, namespace, name})
		default:
			l.claims = append(l.claims, claim{claimConfigMap, namespace, name})
		}
		l.tls.ClientCAs = append(l.tls.ClientCAs, name)
		reported := t.contentProblem(plane, gatewayv1.ListenerReasonInvalidCACertificateRef, namespace, string(ref.Name))
		l.resolved.alsoReported(reported, fmt.Sprintf("caCertificateRefs[%d]", i))
		switch {
		case reported.unknown():
			unknown = reported
			l.unserved.doubt(reported.message())
			unusable++
		case reported.reason() != "":
			l.unserved.no(gatewayv1.ListenerReasonInvalid, "caCertificateRefs[%d]: %s", i, reported.message())
			unusable++
		}
	}
	switch {
	case len(l.tls.ClientCAs) == 0:
		l.tls.ClientCAs = []string{nobody}
		l.accepted.no(gatewayv1.ListenerReasonNoValidCACertificate, noAuthority)
	case len(l.tls.ClientCAs) == unusable && unknown.reason() != "":
		l.refused = unknown
	case len(l.tls.ClientCAs) == unusable:
		l.refused.no(gatewayv1.ListenerReasonNoValidCACertificate, noAuthority)
	}
}

// kindBundle is the kind of CA certificates for the whole cluster.
const kindBundle = "ClusterTrustBundle"

func isBundle(group gatewayv1.Group, kind gatewayv1.Kind) bool {
	return group == certificatesv1.GroupName && kind == kindBundle
}

// noBundles and noAuthorities are why a reference has the wrong kind.
const (
	noBundles     = "the API server has no " + kindBundle + "s of certificates.k8s.io/v1: name a ConfigMap"
	noAuthorities = "CA certificates are in ConfigMaps and " + kindBundle + "s, not in objects of kind %s of group %q"
)

// noAuthority is why a listener is not accepted.
const noAuthority = "no CA certificate for clients can be used"

// authorityProblem returns the problems of a Gateway's reference to CA certificates.
func (t *translator) authorityProblem(ref gatewayv1.ObjectReference, namespace string, owner model.Origin) verdict {
	var v verdict
	from := reference{gatewayv1.GroupName, owner.Kind, owner.Namespace}
	switch {
	case isBundle(ref.Group, ref.Kind) && t.NoTrustBundles:
		v.no(gatewayv1.ListenerReasonInvalidCACertificateKind, noBundles)
	case isBundle(ref.Group, ref.Kind) && ref.Namespace != nil:
		v.no(gatewayv1.ListenerReasonInvalidCACertificateRef, "a "+kindBundle+" has no namespace: leave it out")
	case isBundle(ref.Group, ref.Kind):
	case ref.Group != corev1.GroupName || ref.Kind != "ConfigMap":
		v.no(gatewayv1.ListenerReasonInvalidCACertificateKind, noAuthorities, ref.Kind, ref.Group)
	case !t.isGranted(from, "ConfigMap", namespace, string(ref.Name)):
		v.no(gatewayv1.ListenerReasonRefNotPermitted, "no ReferenceGrant of namespace %s lets %ss of namespace %s use ConfigMap %s",
			namespace, owner.Kind, owner.Namespace, ref.Name)
	}
	return v
}

// contentProblem returns what proxies report about the content of a ConfigMap with CA certificates, or of a
// ClusterTrustBundle, which has no namespace.
func (t *translator) contentProblem(p *plane, reason any, namespace, name string) verdict {
	return t.reported(p, Subject{Reason: appv1.ProblemInvalidCACertificateRef, Namespace: namespace, Name: name}, reason)
}

// reported returns what the proxies of a data plane report about a subject.
func (t *translator) reported(p *plane, of Subject, reason any) (v verdict) {
	if t.Reported == nil {
		return v
	}
	object := Object{kindReported, p.parent.Namespace, LocalName(p.parent.Namespace, of.Namespace, of.Name)}
	switch {
	case t.making != nil:
		t.making.reports = append(t.making.reports, object)
	case t.isMakingPlanes:
		p.fix(object)
	}
	of.Plane = p.parent
	report := t.Reported(of)
	if report.Unknown != "" {
		v.doubt(report.Unknown)
	}
	if report.Problem != "" {
		v.no(reason, "%s", report.Problem)
	}
	return v
}
