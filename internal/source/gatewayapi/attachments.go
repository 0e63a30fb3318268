package gatewayapi

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

// resources are the resources of kinds that data planes may need, besides Services.
var resources = map[string]string{
	kindGateway: "gateways", kindListenerSet: "listenersets", kindGrant: "referencegrants",
	"HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes", "TLSRoute": "tlsroutes", "TCPRoute": "tcproutes",
	kindFilter: proxypod.ResourceFilters, kindTLSPolicy: "backendtlspolicies", kindBackendPolicy: proxypod.ResourceBackendPolicies,
	kindImport: proxypod.ResourceImports,
}

// WatchedResources are the resources that a data plane may need, besides Gateways and Services.
var WatchedResources = slices.DeleteFunc(slices.Sorted(maps.Values(resources)), func(resource string) bool { return resource == "gateways" })

// KindOf returns the kind of the objects of a resource; "": data planes need none of it.
func KindOf(resource string) string {
	for kind, of := range resources {
		if of == resource {
			return kind
		}
	}
	return ""
}

// claim is something that the objects of a namespace need of a data plane: a resource there, a ConfigMap or a Secret
// with users, which is in the namespace of the data plane, or somebody who verifies names or looks at requests.
type claim struct{ kind, namespace, name string }

// The kinds of claims.
const (
	claimResource  = "resource"
	claimConfigMap = "ConfigMap"
	claimUsers     = "users"
	claimNames     = "names"
	claimLogins    = "logins"
	claimWAF       = "waf"
)

// attached are the claims of a data plane, with how often they are made.
type attached struct {
	claims map[claim]int
	// unrouted are the ones of the Gateway and its listeners.
	unrouted map[claim]int
	// isMoved reports whether there are other claims than in the Result before.
	isMoved bool
}

func (p *attached) claim(c claim) {
	if p.claims == nil {
		p.claims = map[claim]int{}
	}
	p.claims[c]++
	p.isMoved = p.isMoved || p.claims[c] == 1
}

func (p *attached) unclaim(c claim) {
	count(p.claims, c, -1)
	p.isMoved = p.isMoved || p.claims[c] == 0
}

// attach notes that a data plane has objects of a resource in a namespace.
func (p *plane) attach(namespace, resource string) {
	p.count(claim{claimResource, namespace, resource}, 1)
}

// claim notes what a route needs.
func (m *member) claim(c claim) {
	m.claims = append(m.claims, c)
	m.plane.claim(c)
}

// claimPlaces notes the place of a route, and of its references. A rule may get a filter at any time.
func (m *member) claimPlaces(r *route) {
	namespace := r.GetNamespace()
	m.claim(claim{claimResource, namespace, resources[r.kind]})
	if of := r.namespaceAt(m.plane); of != namespace { // its labels count
		m.claim(claim{claimResource, of, resources[kindGrant]})
	}
	if r.kind == "HTTPRoute" || r.kind == "GRPCRoute" {
		m.claim(claim{claimResource, namespace, proxypod.ResourceFilters})
	}
	for _, backend := range r.backends {
		if backend.Namespace != namespace {
			m.claim(claim{claimResource, backend.Namespace, "referencegrants"})
		}
	}
}

// mountSecret notes that the pods need a Secret that the Gateway may use, and returns its name in their mounts.
func (p *plane) mountSecret(namespace, name string) string {
	if namespace != p.parent.Namespace {
		p.attach(namespace, "referencegrants")
	}
	return LocalName(p.parent.Namespace, namespace, name)
}

// mountSecret is mountSecret of the data plane for a certificate of a listener.
func (l *listener) mountSecret(p *plane, namespace, name string) string {
	if namespace != p.parent.Namespace {
		l.claims = append(l.claims, claim{claimResource, namespace, "referencegrants"})
	}
	return LocalName(p.parent.Namespace, namespace, name)
}

// authoritiesOf returns the claims of a policy: its ConfigMaps, and who verifies its names.
func authoritiesOf(policy *gatewayv1.BackendTLSPolicy, p *plane) []claim {
	var claims []claim
	for _, ref := range policy.Spec.Validation.CACertificateRefs {
		if ref.Kind == "ConfigMap" {
			claims = append(claims, claim{claimConfigMap, policy.Namespace, LocalName(p.parent.Namespace, policy.Namespace, string(ref.Name))})
		}
	}
	if len(policy.Spec.Validation.SubjectAltNames) > 0 {
		claims = append(claims, claim{kind: claimNames, namespace: policy.Namespace})
	}
	return claims
}

// Attachments returns what the objects that belong to a data plane need of it, by their namespace. served has the
// resources that the cluster has.
func (r *Result) Attachments(parent Parent, served []string) map[string]appv1.GatewayAttachmentSpec {
	i := slices.IndexFunc(r.t.planes, func(p *plane) bool { return p.parent == parent })
	if i < 0 {
		return nil
	}
	plane := r.t.planes[i]
	all := map[string]appv1.GatewayAttachmentSpec{}
	for c := range plane.claims {
		one, known := all[c.namespace]
		if one.Namespace = c.namespace; !known {
			// Policies and ServiceImports come with anything: a route may get its first backend there at any time, and
			// agents see this edit before the operator names anything.
			one.Resources = []string{"backendtlspolicies", proxypod.ResourceBackendPolicies, proxypod.ResourceImports}
			if plane.selectsNamespaces() {
				one.Labels = r.t.selectedLabels(plane, c.namespace)
			}
		}
		switch c.kind {
		case claimConfigMap:
			one.ConfigMaps = append(one.ConfigMaps, appv1.ObjectReference{Name: c.name})
		case claimUsers:
			one.Users = append(one.Users, appv1.ObjectReference{Name: c.name})
		case claimNames:
			one.VerifiesNames = true
		case claimWAF:
			one.WAF = true
		case claimLogins:
			one.Logins = append(one.Logins, appv1.ObjectReference{Name: c.name})
		default:
			one.Resources = append(one.Resources, c.name)
		}
		all[c.namespace] = one
	}
	for namespace, one := range all {
		slices.Sort(one.Resources)
		one.Resources = slices.DeleteFunc(slices.Compact(one.Resources), func(resource string) bool { return !slices.Contains(served, resource) })
		for _, names := range [][]appv1.ObjectReference{one.ConfigMaps, one.Users, one.Logins} {
			slices.SortFunc(names, func(a, b appv1.ObjectReference) int { return cmp.Compare(a.Name, b.Name) })
		}
		all[namespace] = one
	}
	return all
}

// selectsNamespaces reports whether the labels of namespaces matter. It is asked once the data plane is made.
func (p *plane) selectsNamespaces() bool {
	if p.selects == nil {
		p.selects = new(p.hasSelectors())
	}
	return *p.selects
}

func (p *plane) hasSelectors() bool {
	if p.gateway != nil && p.gateway.Spec.AllowedListeners != nil {
		if namespaces := p.gateway.Spec.AllowedListeners.Namespaces; namespaces != nil && namespaces.Selector != nil {
			return true
		}
	}
	hasKeys := false
	keysIn(p.ownership.spec.Rules, func(string) { hasKeys = true })
	return hasKeys || slices.ContainsFunc(p.listeners, func(l *listener) bool { return l.selector() != nil })
}

// selector selects the namespaces whose routes a listener takes; nil: it has none.
func (l *listener) selector() *metav1.LabelSelector {
	if l.AllowedRoutes == nil || l.AllowedRoutes.Namespaces == nil {
		return nil
	}
	return l.AllowedRoutes.Namespaces.Selector
}

// selectorKeys returns the keys of the labels that a data plane selects namespaces by.
func (p *plane) selectorKeys() map[string]bool {
	keys := map[string]bool{}
	note := func(key string) { keys[key] = true }
	keysIn(p.ownership.spec.Rules, note)
	if p.gateway != nil && p.gateway.Spec.AllowedListeners != nil {
		eachKey(ptr.Deref(p.gateway.Spec.AllowedListeners.Namespaces, gatewayv1.ListenerNamespaces{}).Selector, note)
	}
	for _, l := range p.listeners {
		eachKey(l.selector(), note)
	}
	return keys
}

// selectedLabels returns the labels of a namespace that a data plane selects by. Others may be many, and change often.
func (t *translator) selectedLabels(p *plane, namespace string) labels.Set {
	if p.selectors == nil {
		p.selectors = p.selectorKeys()
	}
	selected := labels.Set{}
	for key, value := range t.labelsOf(namespace) {
		if p.selectors[key] {
			selected[key] = value
		}
	}
	return selected
}

// Attached returns what agents learn of the namespaces that have objects of the Gateway API for a Gateway of our own,
// by name. It comes from the GatewayAttachments that are Bound, and from the Gateway's status as long as an operator
// of an earlier release wrote it.
func Attached(own *appv1.Gateway, attachments iter.Seq[*appv1.GatewayAttachment]) map[string]appv1.GatewayAttachmentSpec {
	all := map[string]appv1.GatewayAttachmentSpec{}
	if old := own.Status.Attachments; old != nil {
		for _, namespace := range old.Namespaces {
			all[namespace.Name] = appv1.GatewayAttachmentSpec{
				GatewayName: own.Name, Namespace: namespace.Name, Resources: namespace.Resources, Labels: namespace.Labels,
			}
		}
	}
	for attachment := range attachments {
		if metav1.IsControlledBy(attachment, own) && meta.IsStatusConditionTrue(attachment.Status.Conditions, appv1.ConditionBound) {
			all[attachment.Spec.Namespace] = attachment.Spec
		}
	}
	return all
}

// AttachedTo returns the known state of the objects of the Gateway API for a Gateway of our own, but for the objects,
// which AddAttached adds. namespaces are as Attached returns them.
func AttachedTo(own *appv1.Gateway, namespaces map[string]appv1.GatewayAttachmentSpec) Objects {
	objects := Objects{Namespaces: map[string]labels.Set{}}
	if proxypod.Parent(own) == "" {
		objects.Own = []*appv1.Gateway{own}
	} else {
		objects.Hostnames, objects.Budget = own.Spec.AllowedHostnames, own.Spec.NamespaceBudget
		for i := range own.Spec.Listeners {
			objects.ProxyProtocol = own.Spec.Listeners[i].ProxyProtocol // all others have the same
			if tls := own.Spec.Listeners[i].TLS; tls != nil && tls.Mode != appv1.TLSModePassthrough {
				objects.TLS = appv1.TLSSettings{MinVersion: tls.MinVersion, CipherProfile: tls.CipherProfile, HSTS: cmp.Or(tls.HSTS, objects.TLS.HSTS)}
			}
		}
		i := slices.IndexFunc(own.Spec.Listeners, func(l appv1.Listener) bool { return isForRequests(string(l.Protocol)) })
		if objects.FiltersUnknown = i < 0; i >= 0 {
			// All others have the same.
			objects.ListenerFilters = source.FiltersOf(&own.Spec.Listeners[i], "its "+kindConfig)
		}
	}
	for _, namespace := range namespaces {
		if namespace.Labels != nil {
			objects.Namespaces[namespace.Namespace] = namespace.Labels
		}
	}
	return objects
}

// AddAttached adds an object that belongs to a Gateway of our own. The operator has checked the class of a Gateway, and
// the GatewayConfig.
func (o *Objects) AddAttached(object any) {
	object = attachedGateway(object)
	if gateway, ok := object.(*gatewayv1.Gateway); ok {
		o.Classes = append(o.Classes, &gatewayv1.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: string(gateway.Spec.GatewayClassName)},
			Spec:       gatewayv1.GatewayClassSpec{ControllerName: ControllerName},
		})
	}
	o.Add(object)
}

// ChangeAttached is Change for an object that AddAttached adds.
func (x *Index) ChangeAttached(id Object, object metav1.Object) bool {
	attached, _ := attachedGateway(object).(metav1.Object)
	return x.Change(id, attached)
}

// attachedGateway returns a Gateway without the fields for the operator alone, and any other object.
func attachedGateway(object any) any {
	whole, ok := object.(*gatewayv1.Gateway)
	if !ok {
		return object
	}
	gateway := *whole
	gateway.Spec.Infrastructure, gateway.Spec.Addresses = nil, nil
	return &gateway
}
