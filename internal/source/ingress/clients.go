package ingress

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// authority is who signs the certificates of clients. Without a Secret, clients are not asked for any.
type authority struct {
	secret types.NamespacedName
	// optional reports whether clients without a certificate may come in, too.
	optional bool
}

func (a authority) isAsked() bool { return a.secret.Name != "" }

const (
	clientsNote = "the host has a Gateway and an address of its own\n" +
		"certificates of intermediate authorities are valid, too\n" +
		"requests over HTTP are redirected to HTTPS\n" +
		"the backend gets X-SSL-Client-Subject and Client-Cert in place of ssl-client-subject-dn and ssl-client-cert, and no ssl-client-issuer-dn\n"
	clientsNever  = "a client without a valid certificate gets no connection, and no answer of 400"
	clientsNone   = "a certificate that is not valid counts as none, and is no reason for 400"
	clientsCA     = "make ConfigMap %s/%s with the ca.crt of Secret %s, and with its ca.crl if it has one: until then, nobody comes in"
	clientsSecret = "the Secret is named NAMESPACE/NAME, and auth-tls-verify-client is on, optional or off"
	clientsHost   = "clients are asked for certificates where a host has a name, a certificate and no ssl-passthrough"
	clientsCanary = "a canary cannot ask for client certificates"
	clientsName   = "names in client certificates are not compared"
)

// setClients asks for client certificates, unless the value of auth-tls-verify-client is off.
func setClients(s *settings, value string) string {
	if s.values["auth-tls-verify-client"] == "off" {
		return ""
	}
	namespace, name, _ := strings.Cut(value, "/")
	verify, ok := s.values["auth-tls-verify-client"]
	switch {
	case s.canary != nil || isCanary(s.ingress):
		return s.close(s.annotation, clientsCanary)
	case len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 || ok && verify != "on" && verify != "optional":
		return s.close(s.annotation, clientsSecret)
	case s.values["auth-tls-match-cn"] != "" && !s.isOpen(Prefix+"auth-tls-match-cn"):
		return s.close(s.annotation, clientsName)
	}
	s.authority = authority{types.NamespacedName{Namespace: namespace, Name: name}, verify == "optional"}
	return clientsNote + either(s.authority.optional, clientsNone, clientsNever) + "\n" + fmt.Sprintf(clientsCA, s.Namespace, s.authorityName(s.authority), value)
}

// setClientsName closes paths that are for clients with some names alone.
func setClientsName(s *settings, value string) string {
	if note := part(authTLS)(s, value); note != "" {
		return note
	}
	return s.close(s.annotation, clientsName)
}

// authorityName is the name of the ConfigMap of an authority. It is in the namespace of the Gateways.
func (t *translator) authorityName(a authority) string {
	if a.secret.Namespace == t.Namespace {
		return a.secret.Name
	}
	return a.secret.Namespace + "." + a.secret.Name
}

// askClients has a host ask for client certificates if it can. nginx asks before anything else.
func (h *host) askClients() {
	guard := h.guards[authTLS]
	isThrough := slices.ContainsFunc(h.locations, func(l *location) bool { return l.passthrough })
	if guard != nil && guard.authority.isAsked() && h.name != "" && h.secret.Name != "" && !isThrough {
		h.authority = guard.authority
	}
}

// frontend returns what a Gateway asks of clients, nil for nothing.
func (s *site) frontend(a authority) *gatewayv1.GatewayTLSConfig {
	if !a.isAsked() {
		return nil
	}
	ref := gatewayv1.ObjectReference{Kind: "ConfigMap", Name: gatewayv1.ObjectName(s.authorityName(a))}
	clients := &gatewayv1.FrontendTLSValidation{CACertificateRefs: []gatewayv1.ObjectReference{ref}}
	if a.optional {
		clients.Mode = gatewayv1.AllowInsecureFallback
	}
	return &gatewayv1.GatewayTLSConfig{Frontend: &gatewayv1.FrontendTLSConfig{Default: gatewayv1.TLSConfig{Validation: clients}}}
}

// ofCertificates are the headers in which nginx tells about the certificates of clients.
var ofCertificates = []string{"ssl-client-cert", "ssl-client-issuer-dn", "ssl-client-subject-dn"}

const verifyHeader = "ssl-client-verify"

// tellOfClients sets the headers about certificates, which clients must not set. All clients have shown a valid one, or
// nothing is known.
func (r *rule) tellOfClients(areValid bool) {
	headers := r.headers(ofRequests)
	headers.Remove = append(headers.Remove, ofCertificates...)
	if areValid {
		headers.Set = append(headers.Set, gatewayv1.HTTPHeader{Name: verifyHeader, Value: "SUCCESS"})
	} else {
		headers.Remove = append(headers.Remove, verifyHeader)
	}
}
