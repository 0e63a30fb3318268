// Package proxypod holds what the operator, agents and plugin must agree on about proxy pods: labels, names, ports and
// paths.
package proxypod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

const (
	// FieldManager is the name under which the operator owns fields of the children and of the Gateway's status.
	FieldManager = "gateway-operator"

	// LabelGateway is on every child and proxy pod, and by mirroring on the EndpointSlices of the Service; its value is
	// the Gateway's name. The Deployment and the Service select pods by it, so it must never change.
	LabelGateway = "app.example.com/gateway"
	// LabelManagedBy is on them, too; its value is FieldManager.
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// AnnotationKeyServerCA is on pods that get Secrets from a key server. It has the certificates (PEM) that the server's
	// is verified with, and kubelet mounts it.
	AnnotationKeyServerCA = "app.example.com/key-server-ca"

	// childSuffix ends the name of every child. The CRD bounds a Gateway's name so that the two together fit the 63
	// characters of a Service's name.
	childSuffix = "-gateway"

	// KeysContainer is the container that passes certificates on and checks passwords.
	KeysContainer = "keys"
	// LoginContainer is the container that asks OpenID providers who users are.
	LoginContainer = "login"
	// WAFContainer is the container that looks at requests.
	WAFContainer = "waf"
	// HAProxyContainer is the container of a proxy pod that logs requests.
	HAProxyContainer = "haproxy"

	// HealthPort is where the agent answers /startupz, /servingz, /readyz, /healthz, /metrics and, within the pod,
	// /proxy-config.
	HealthPort = 8405

	// ResourceFilters is a resource of our own group that routes of the Gateway API use.
	ResourceFilters = "routefilters"
	// ResourceBackendPolicies is another one.
	ResourceBackendPolicies = "backendpolicies"
	// ResourceImports is the resource of ServiceImports.
	ResourceImports = "serviceimports"
	// GroupMultiCluster is the API group of ServiceImports.
	GroupMultiCluster = "multicluster.x-k8s.io"
	// ResourceAttachments is the resource of GatewayAttachments.
	ResourceAttachments = "gatewayattachments"

	// CertificatesDir is where the agent's container has the inventory: what it has to know of certificates and users.
	CertificatesDir = "/etc/gateway/certificates"
	// AuthoritiesDir is where containers have CONFIGMAP/ca.crt, CONFIGMAP/ca.crl, CONFIGMAP/jwks and CONFIGMAP/rules.conf.
	AuthoritiesDir = "/etc/gateway/authorities"
	// KeySetFile is the key of a ConfigMap that has keys of tokens.
	KeySetFile = "jwks"
	// HAProxyCertificatesDir is where HAProxy's container has SECRET/tls.pem, certificate and key, for each Secret.
	HAProxyCertificatesDir = "/etc/haproxy-certificates"

	// KeysRunDir is what the containers keys and haproxy alone share.
	KeysRunDir = "/run/haproxy-keys"
	// KeysSocket is where HAProxy listens to the keys container alone.
	KeysSocket = KeysRunDir + "/keys.sock"
	// UsersSocket is where the keys container tells HAProxy alone whether users may log in.
	UsersSocket = KeysRunDir + "/users.sock"
	// RelaySocket is where the keys container takes connections to endpoints from HAProxy alone.
	RelaySocket = KeysRunDir + "/relay.sock"
	// LoginRunDir is what the containers login and haproxy alone share.
	LoginRunDir = "/run/haproxy-login"
	// LoginSocket is where HAProxy alone asks the login container about sessions.
	LoginSocket = LoginRunDir + "/login.sock"
	// WAFRunDir is what the containers waf and haproxy alone share.
	WAFRunDir = "/run/haproxy-waf"
	// WAFSocket is where HAProxy alone asks the waf container about requests.
	WAFSocket = WAFRunDir + "/waf.sock"
)

// ChildName is the name of every child of the Gateway with the given name; kinds tell them apart.
func ChildName(gateway string) string {
	return gateway + childSuffix
}

// GroupOf returns the API group of a resource that agents watch.
func GroupOf(resource string) string {
	switch resource {
	case ResourceFilters, ResourceBackendPolicies:
		return appv1.GroupName
	case ResourceImports:
		return GroupMultiCluster
	}
	return gatewayv1.GroupName
}

// PodSelector selects the proxy pods of the Gateway with the given name, within its namespace.
func PodSelector(gateway string) labels.Selector {
	return labels.SelectorFromSet(SelectorLabels(gateway))
}

// SelectorLabels are the labels that PodSelector, the Deployment and the Service select by.
func SelectorLabels(gateway string) map[string]string {
	return map[string]string{LabelGateway: gateway}
}

// SelectsProxies reports whether a Service selects proxy pods, of any Gateway. A route to it would send requests in a
// loop.
func SelectsProxies(service *corev1.Service) bool {
	_, gateway := service.Spec.Selector[LabelGateway]
	return gateway || service.Spec.Selector[LabelManagedBy] == FieldManager
}

// Mounts are what proxy pods of a Gateway mount, by name, sorted and unique.
type Mounts struct {
	// Certificates are Secrets with certificates, and Users are Secrets with users, API keys or keys of sessions. Logins
	// are the Secrets of Users that a LoginContainer needs, too.
	Certificates, Users, Logins []string
	// ConfigMaps have CA certificates, JWT keys or rules of a WAF.
	ConfigMaps []string
	// VerifiesNames reports whether certificates of endpoints have to be for names that HAProxy cannot verify.
	VerifiesNames bool
	// WAF reports whether the pods have a WAFContainer.
	WAF bool
}

// HasSecrets reports whether the pods mount any Secrets.
func (m Mounts) HasSecrets() bool { return len(m.Certificates)+len(m.Users) > 0 }

// HasKeys reports whether the pods have a KeysContainer.
func (m Mounts) HasKeys() bool { return m.HasSecrets() || m.VerifiesNames }

// Parent returns the name of the Gateway of the Gateway API for which a Gateway was made, "" for others.
func Parent(gateway *appv1.Gateway) string {
	owner := metav1.GetControllerOf(gateway)
	if owner == nil || owner.Kind != "Gateway" || !strings.HasPrefix(owner.APIVersion, gatewayv1.GroupName+"/") {
		return ""
	}
	return owner.Name
}
