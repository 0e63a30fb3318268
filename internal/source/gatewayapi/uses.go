package gatewayapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// Use is a Secret or ConfigMap that a Gateway or ListenerSet names.
type Use struct {
	Kind, Namespace, Name string
	// IsGranted reports whether it may use it: it is of its namespace, or a ReferenceGrant allows it.
	IsGranted bool
}

// UsesOf returns what a Gateway or ListenerSet names by itself: certificates, and CA certificates for clients. Whether
// its listeners are served does not count. grants returns the ReferenceGrants of a namespace.
func UsesOf(object metav1.Object, grants func(namespace string) []*gatewayv1.ReferenceGrant) []Use {
	u := uses{grants: grants}
	switch owner := object.(type) {
	case *gatewayv1.Gateway:
		u.owner = origin(kindGateway, owner)
		for i := range owner.Spec.Listeners {
			u.addListener(owner.Spec.Listeners[i].TLS)
		}
		u.addGateway(ptr.Deref(owner.Spec.TLS, gatewayv1.GatewayTLSConfig{}))
	case *gatewayv1.ListenerSet:
		u.owner = origin(kindListenerSet, owner)
		for i := range owner.Spec.Listeners {
			u.addListener(owner.Spec.Listeners[i].TLS)
		}
	}
	return u.all
}

// AllowsSet reports whether a Gateway lets a ListenerSet add listeners. Of the objects, it needs the Namespaces.
func (o Objects) AllowsSet(gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet) bool {
	t := translator{Objects: o}
	return t.allowsSet(gateway, set)
}

// uses collects what an object names.
type uses struct {
	translator
	owner  model.Origin
	grants func(namespace string) []*gatewayv1.ReferenceGrant
	all    []Use
}

func (u *uses) addListener(tls *gatewayv1.ListenerTLSConfig) {
	if tls == nil || ptr.Deref(tls.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough {
		return
	}
	for i, ref := range tls.CertificateRefs {
		if i < maxCertificates {
			u.addCertificate(ref)
		}
	}
}

func (u *uses) addCertificate(ref gatewayv1.SecretObjectReference) {
	namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(u.owner.Namespace)))
	u.Grants = u.grants(namespace)
	problem := u.certificateProblem(ref, u.owner, gatewayv1.ListenerReasonInvalidCertificateRef)
	u.add("Secret", namespace, string(ref.Name), problem)
}

func (u *uses) addGateway(tls gatewayv1.GatewayTLSConfig) {
	if tls.Backend != nil && tls.Backend.ClientCertificateRef != nil {
		u.addCertificate(*tls.Backend.ClientCertificateRef)
	}
	if tls.Frontend == nil {
		return
	}
	validations := []*gatewayv1.FrontendTLSValidation{tls.Frontend.Default.Validation}
	for i := range tls.Frontend.PerPort {
		validations = append(validations, tls.Frontend.PerPort[i].TLS.Validation)
	}
	for _, validation := range validations {
		if validation == nil {
			continue
		}
		for _, ref := range validation.CACertificateRefs {
			if isBundle(ref.Group, ref.Kind) {
				continue // agents read them
			}
			namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(u.owner.Namespace)))
			u.Grants = u.grants(namespace)
			u.add("ConfigMap", namespace, string(ref.Name), u.authorityProblem(ref, namespace, u.owner))
		}
	}
}

// add adds what is named, unless it is something else than a Secret or ConfigMap.
func (u *uses) add(kind, namespace, name string, problem verdict) {
	isGranted := problem.reason() == ""
	if isGranted || problem.reason() == string(gatewayv1.ListenerReasonRefNotPermitted) {
		u.all = append(u.all, Use{kind, namespace, name, isGranted})
	}
}
