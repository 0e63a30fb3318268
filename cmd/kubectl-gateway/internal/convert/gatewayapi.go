package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// fromGatewayAPI returns a Gateway for each Gateway of the Gateway API, with the routes that belong to it. The objects
// are taken to be as the Gateway API's own CRDs admit them.
func fromGatewayAPI(o *objects, n *notes) []*appv1.Gateway {
	routes := apiRoutes(o, n)
	oldestFirst(o.policies)
	used := map[*gatewayv1.BackendTLSPolicy]bool{}
	closeByNames(o, n)
	var gateways []*appv1.Gateway
	for _, source := range o.gateways {
		c := newGatewayConverter(o, n, source)
		c.addListeners()
		if len(c.gateway.Spec.Listeners) == 0 {
			c.note("no Gateway is made of it: it has no listener that is carried over")
			continue
		}
		c.noteRest()
		for _, route := range routes {
			c.addRoute(route)
		}
		c.addBackends(used)
		gateways = append(gateways, c.gateway)
	}
	for _, route := range routes {
		noteParents(o, route)
	}
	for _, policy := range o.policies {
		at := newPlace(n, policy, "BackendTLSPolicy")
		at.noteAnnotations(policy)
		if !used[policy] && !o.isClosed("BackendTLSPolicy", policy.Namespace, policy.Name) {
			at.note("it is not carried over: no route here sends requests to its Services, or another policy is for them")
		}
	}
	return gateways
}

// oldestFirst puts objects into the order of precedence of the Gateway API.
func oldestFirst[T metav1.Object](objects []T) {
	slices.SortStableFunc(objects, func(a, b T) int { return cmp.Or(compareAge(a, b), compareNames(a, b)) })
}

// place is a part of an object, to note what becomes of it.
type place struct {
	*notes
	object, path string
}

func newPlace(n *notes, object metav1.Object, kind string) place {
	return place{notes: n, object: objectName(object) + " " + kind}
}

// at returns a part of the place.
func (p place) at(format string, args ...any) place {
	if p.path != "" {
		p.path += "."
	}
	p.path += fmt.Sprintf(format, args...)
	return p
}

func (p place) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.path != "" {
		text = p.path + ": " + text
	}
	p.notes.note(p.object, "%s", text)
}

// whole returns the object.
func (p place) whole() place { return place{notes: p.notes, object: p.object} }

// noteAnnotations lists what other programs than kubectl may read.
func (p place) noteAnnotations(object metav1.Object) {
	for _, name := range slices.Sorted(maps.Keys(object.GetAnnotations())) {
		switch {
		case isController(name): // see closeByAnnotations
		case strings.HasPrefix(name, "cert-manager.io/"):
			p.note("annotation %s: cert-manager makes no certificate for it any more: make a Certificate for the Secret", name)
		case !strings.HasPrefix(name, "kubectl.kubernetes.io/"):
			p.note("annotation %s: it is not carried over: what reads it has to be told in another way", name)
		}
	}
}

// gatewayConverter makes a Gateway of one of the Gateway API.
type gatewayConverter struct {
	*objects
	place
	source  *gatewayv1.Gateway
	gateway *appv1.Gateway
	// closed says that the Gateway is.
	closed bool
	// sources are what the Gateway's listeners are made of.
	sources    []*gatewayv1.Listener
	routeNames names
}

func newGatewayConverter(o *objects, n *notes, source *gatewayv1.Gateway) *gatewayConverter {
	c := &gatewayConverter{objects: o, place: newPlace(n, source, "Gateway"), source: source, routeNames: names{}}
	name := gatewayName(source.Name)
	if name != source.Name {
		c.note("it becomes Gateway %s, as the Service made for it is named after it", name)
	}
	c.gateway = newGateway(source.Namespace, name)
	c.closed = o.isClosed("Gateway", source.Namespace, source.Name) || o.isClosed("GatewayClass", "", string(source.Spec.GatewayClassName))
	return c
}

// gatewayName returns the name if a Gateway can have it, or else one like it.
func gatewayName(name string) string {
	name = label(name)
	if name == "" || name[0] <= '9' {
		name = "gateway-" + name
	}
	return strings.TrimRight(name[:min(len(name), 55)], "-")
}

// addListeners carries over the listeners that there can be.
func (c *gatewayConverter) addListeners() {
	used := names{}
	for i := range c.source.Spec.Listeners {
		source := &c.source.Spec.Listeners[i]
		at := c.at("listener %s", source.Name)
		listener := appv1.Listener{
			Port: source.Port, Protocol: appv1.Protocol(source.Protocol), Hostname: appv1.Hostname(or(source.Hostname, "")),
		}
		if problem := c.listenerProblem(source); problem != "" {
			at.note("it is left out: %s", problem)
			continue
		}
		listener.Name = used.unique(string(source.Name))
		switch {
		case passesThrough(source):
			listener.TLS = &appv1.ListenerTLS{Mode: appv1.TLSModePassthrough}
		case listener.Protocol == appv1.ProtocolHTTPS, listener.Protocol == appv1.ProtocolTLS:
			listener.TLS = c.listenerTLS(at, source)
		}
		c.gateway.Spec.Listeners = append(c.gateway.Spec.Listeners, listener)
		c.sources = append(c.sources, source)
	}
}

// passesThrough says whether a listener passes TLS through.
func passesThrough(source *gatewayv1.Listener) bool {
	return source.Protocol == gatewayv1.TLSProtocolType && source.TLS != nil &&
		or(source.TLS.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough
}

// listenerProblem says why a listener cannot be, beside those that there are already; "" if it can.
func (c *gatewayConverter) listenerProblem(source *gatewayv1.Listener) string {
	switch source.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType, gatewayv1.TCPProtocolType, gatewayv1.TLSProtocolType:
	default:
		return fmt.Sprintf("protocol %s is not spoken", source.Protocol)
	}
	hostname := string(or(source.Hostname, ""))
	if !isPort(source.Port) {
		return fmt.Sprintf("port %d cannot be a listener's: choose another", source.Port)
	}
	for _, other := range c.gateway.Spec.Listeners {
		hasTLS := source.Protocol == gatewayv1.HTTPSProtocolType || source.Protocol == gatewayv1.TLSProtocolType
		differ := hasTLS && other.TLS != nil && passesThrough(source) != (other.TLS.Mode == appv1.TLSModePassthrough)
		if other.Port == source.Port && other.Protocol != appv1.Protocol(source.Protocol) && !differ {
			return fmt.Sprintf("listener %s speaks %s on its port: choose another port", other.Name, other.Protocol)
		}
		if other.Port == source.Port && string(other.Hostname) == hostname {
			return fmt.Sprintf("listener %s has the same port and hostname", other.Name)
		}
	}
	return ""
}

func (c *gatewayConverter) listenerTLS(at place, source *gatewayv1.Listener) *appv1.ListenerTLS {
	from := or(source.TLS, gatewayv1.ListenerTLSConfig{})
	var refs []reference
	for _, ref := range from.CertificateRefs {
		refs = append(refs, c.secret(ref))
	}
	tls := &appv1.ListenerTLS{CertificateRefs: at.local(refs, "Secret", c.source.Namespace, 16), ClientValidation: c.clientValidation(at, source.Port)}
	if len(tls.CertificateRefs) == 0 {
		name := label(c.gateway.Name + "-" + string(source.Name))
		tls.CertificateRefs = []appv1.ObjectReference{{Name: name}}
		at.note("it names no certificate: make a Secret %s/%s of type kubernetes.io/tls", c.source.Namespace, name)
	}
	for _, option := range slices.Sorted(maps.Keys(from.Options)) {
		at.note("tls.options %s is not carried over: see tls.minVersion and tls.cipherProfile", option)
	}
	return tls
}

// clientValidation returns what a port asks clients for.
func (c *gatewayConverter) clientValidation(at place, port int32) *appv1.ClientValidation {
	if c.source.Spec.TLS == nil || c.source.Spec.TLS.Frontend == nil {
		return nil
	}
	frontend := c.source.Spec.TLS.Frontend
	from := frontend.Default.Validation
	for _, other := range frontend.PerPort {
		if other.Port == port {
			from = other.TLS.Validation
		}
	}
	if from == nil {
		return nil
	}
	var refs []reference
	for _, ref := range from.CACertificateRefs {
		refs = append(refs, reference{
			group: string(ref.Group), kind: string(ref.Kind),
			namespace: string(or(ref.Namespace, gatewayv1.Namespace(c.source.Namespace))), name: string(ref.Name),
		})
	}
	validation := &appv1.ClientValidation{CACertificateRefs: at.authorities(refs, c.source.Namespace, c.gateway.Name+"-client-ca")}
	if from.Mode == gatewayv1.AllowInsecureFallback {
		validation.Mode = appv1.ClientValidationOptional
		at.note("clients may show no certificate, as with AllowInsecureFallback, but one that is not valid is refused")
	}
	return validation
}

// reference is a reference to an object, with its defaults.
type reference struct {
	group, kind, namespace, name string
}

// local returns references to objects of a kind in a namespace, each once. What is of another kind or elsewhere has to
// be brought there.
func (p place) local(refs []reference, kind, namespace string, limit int) []appv1.ObjectReference {
	var all []appv1.ObjectReference
	for _, ref := range refs {
		own := appv1.ObjectReference{Name: ref.name}
		if slices.Contains(all, own) {
			continue
		}
		if len(all) == limit {
			p.note("only %d references are carried over, not that to %s %s", limit, ref.kind, ref.name)
			continue
		}
		switch {
		case ref.kind != kind || ref.group != "":
			p.note("%s %s/%s cannot be read: make a %s %s/%s of it", ref.kind, ref.namespace, ref.name, kind, namespace, ref.name)
		case ref.namespace != namespace:
			p.note("%s %s/%s is in another namespace: copy it to %s", ref.kind, ref.namespace, ref.name, namespace)
		}
		all = append(all, own)
	}
	return all
}

// authorities returns references to ConfigMaps with certificates: to one of the name otherwise if there is none, so
// that nobody is trusted until it is made.
func (p place) authorities(refs []reference, namespace, otherwise string) []appv1.ObjectReference {
	all := p.local(refs, "ConfigMap", namespace, 8)
	if len(all) == 0 {
		p.note("it names no certificates of authorities: make a ConfigMap %s/%s with them, under the key ca.crt", namespace, otherwise)
		all = []appv1.ObjectReference{{Name: otherwise}}
	}
	return all
}

// setBackendCertificate carries over the certificate that backends are shown.
func (c *gatewayConverter) setBackendCertificate() {
	if c.source.Spec.TLS == nil || c.source.Spec.TLS.Backend == nil || c.source.Spec.TLS.Backend.ClientCertificateRef == nil {
		return
	}
	ref := c.source.Spec.TLS.Backend.ClientCertificateRef
	refs := c.at("tls.backend.clientCertificateRef").local([]reference{c.secret(*ref)}, "Secret", c.source.Namespace, 1)
	c.gateway.Spec.BackendClientCertificateRef = &refs[0]
}

// secret is a reference of the Gateway to a Secret.
func (c *gatewayConverter) secret(ref gatewayv1.SecretObjectReference) reference {
	return reference{
		group: string(or(ref.Group, "")), kind: string(or(ref.Kind, "Secret")),
		namespace: string(or(ref.Namespace, gatewayv1.Namespace(c.source.Namespace))), name: string(ref.Name),
	}
}

// noteRest lists what else a Gateway may say, and carries over annotations for its Service.
func (c *gatewayConverter) noteRest() {
	c.noteAnnotations(c.source)
	c.setBackendCertificate()
	spec := &c.source.Spec
	infrastructure := or(spec.Infrastructure, gatewayv1.GatewayInfrastructure{})
	for _, field := range []struct {
		set  bool
		text string
	}{
		{!c.hasAddress() && len(spec.Addresses) > 0, "addresses are not carried over: a Gateway can ask for one IP address, in spec.service.address"},
		{spec.AllowedListeners != nil, "allowedListeners is not carried over: all listeners are in the Gateway itself"},
		{spec.DefaultScope == gatewayv1.GatewayDefaultScopeAll, "defaultScope is not carried over: routes without parentRefs are left out"},
		{len(infrastructure.Labels) > 0, "infrastructure.labels are not carried over"},
		{infrastructure.ParametersRef != nil, "infrastructure.parametersRef is not carried over: see spec.service, spec.pods and spec.replicas"},
		{len(infrastructure.Annotations) > 0, "infrastructure.annotations are set on the Service alone"},
	} {
		if field.set {
			c.note("%s", field.text)
		}
	}
	for name, value := range infrastructure.Annotations {
		if c.gateway.Spec.Service.Annotations == nil {
			c.gateway.Spec.Service.Annotations = map[string]string{}
		}
		c.gateway.Spec.Service.Annotations[string(name)] = string(value)
	}
}

// hasAddress carries over the address that a Gateway asks for, if it is one that can be asked for.
func (c *gatewayConverter) hasAddress() bool {
	addresses := c.source.Spec.Addresses
	if len(addresses) != 1 || addresses[0].Value == "" || or(addresses[0].Type, gatewayv1.IPAddressType) != gatewayv1.IPAddressType {
		return false
	}
	c.gateway.Spec.Service.Address = addresses[0].Value
	return true
}

// or returns what a pointer points to, or else another value.
func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func ptr[T any](value T) *T { return &value }
