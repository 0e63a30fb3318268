package gatewayapi

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// resources are those of the kinds of which data planes run objects.
var resources = map[string]string{
	kindGateway: "gateways", kindListenerSet: "listenersets",
	"HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes", "TLSRoute": "tlsroutes", "TCPRoute": "tcproutes",
	kindBackendPolicy: proxypod.ResourceBackendPolicies,
}

// WatchedResources are the resources that a data plane may need, besides Gateways and Services.
var WatchedResources = []string{
	proxypod.ResourceBackendPolicies, "backendtlspolicies", "grpcroutes", "httproutes", "listenersets", "referencegrants",
	proxypod.ResourceFilters, "tcproutes", "tlsroutes",
}

// attached are the places of the objects that belong to a data plane.
type attached struct {
	// known are the kinds of routes with their namespaces, and these with those of backends, that are in resources.
	known map[[2]string]bool
	// resources are those of the Gateway API, RouteFilters and BackendPolicies, by namespace.
	resources map[string]map[string]bool
	// configMaps are the names of those with CA certificates or keys of tokens, in the namespace of the data plane.
	configMaps map[string]bool
	// users are the names of Secrets with users, in the namespace of the data plane.
	users map[string]bool
	// secrets are those of other namespaces that it may use.
	secrets []types.NamespacedName
}

// Copy is a Secret that has to be copied to the namespace of a Gateway, which may use it.
type Copy struct {
	Gateway *gatewayv1.Gateway
	From    types.NamespacedName
	// Name is that of the copy.
	Name string
}

// Copies returns the Secrets of other namespaces that Gateways and ListenerSets may use, by ReferenceGrants.
func (r *Result) Copies() []Copy {
	var copies []Copy
	for _, plane := range r.t.planes {
		for _, from := range plane.secrets {
			copies = append(copies, Copy{plane.gateway, from, LocalName(plane.parent.Namespace, from.Namespace, from.Name)})
		}
	}
	return copies
}

// attach notes that a data plane has objects of a resource in a namespace. Policies come with any resource: a route may
// get its first backend there at any time, and agents see this edit before the operator names anything.
func (p *plane) attach(namespace, resource string) {
	if p.resources == nil {
		p.resources = map[string]map[string]bool{}
	}
	if p.resources[namespace] == nil {
		p.resources[namespace] = map[string]bool{"backendtlspolicies": true, proxypod.ResourceBackendPolicies: true}
	}
	p.resources[namespace][resource] = true
}

// attachOf notes the place of a route, and of its references.
func (p *plane) attachOf(r *route) {
	if p.known == nil {
		p.known = map[[2]string]bool{}
	}
	namespace := r.GetNamespace()
	from := [2]string{r.kind, namespace}
	if !p.known[from] {
		p.known[from] = true
		p.attach(namespace, resources[r.kind])
		if r.kind == "HTTPRoute" || r.kind == "GRPCRoute" { // a rule may get a filter at any time, too
			p.attach(namespace, proxypod.ResourceFilters)
		}
	}
	for _, backend := range r.backends {
		to := [2]string{namespace, backend.Namespace}
		if backend.Namespace != namespace && !p.known[to] {
			p.known[to] = true
			p.attach(backend.Namespace, "referencegrants")
		}
	}
}

// attachOther is attach for namespaces other than the data plane's.
func (p *plane) attachOther(namespace, resource string) {
	if namespace != p.parent.Namespace {
		p.attach(namespace, resource)
	}
}

// mount notes that the pods need a ConfigMap, even if its content is wrong.
func (p *plane) mount(configMap string) {
	if p.configMaps == nil {
		p.configMaps = map[string]bool{}
	}
	p.configMaps[configMap] = true
}

// mountUsers notes that the pods need a Secret with users.
func (p *plane) mountUsers(secret string) {
	if p.users == nil {
		p.users = map[string]bool{}
	}
	p.users[secret] = true
}

// mountSecret notes that the pods need a Secret that the Gateway may use, and returns its name in their mounts.
func (p *plane) mountSecret(namespace, name string) string {
	if namespace != p.parent.Namespace {
		p.attach(namespace, "referencegrants")
		p.secrets = append(p.secrets, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return LocalName(p.parent.Namespace, namespace, name)
}

// mountAuthorities notes that the pods need the ConfigMaps of a policy.
func (p *plane) mountAuthorities(policy *gatewayv1.BackendTLSPolicy) {
	for _, ref := range policy.Spec.Validation.CACertificateRefs {
		if ref.Kind == "ConfigMap" {
			p.mount(LocalName(p.parent.Namespace, policy.Namespace, string(ref.Name)))
		}
	}
}

// Attachments returns the places of the objects that belong to a data plane, nil if there are none. served has the
// resources that the cluster has.
func (r *Result) Attachments(parent Parent, served []string) *appv1.Attachments {
	i := slices.IndexFunc(r.t.planes, func(p *plane) bool { return p.parent == parent })
	if i < 0 {
		return nil
	}
	plane := r.t.planes[i]
	if len(plane.resources) == 0 {
		return nil
	}
	attachments := &appv1.Attachments{}
	for _, namespace := range slices.Sorted(maps.Keys(plane.resources)) {
		one := appv1.AttachedNamespace{Name: namespace}
		if plane.selectsNamespaces() {
			one.Labels = r.t.labelsOf(namespace)
		}
		for _, resource := range slices.Sorted(maps.Keys(plane.resources[namespace])) {
			if slices.Contains(served, resource) {
				one.Resources = append(one.Resources, resource)
			}
		}
		attachments.Namespaces = append(attachments.Namespaces, one)
	}
	for _, name := range slices.Sorted(maps.Keys(plane.configMaps)) {
		attachments.ConfigMaps = append(attachments.ConfigMaps, appv1.ObjectReference{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(plane.users)) {
		attachments.Users = append(attachments.Users, appv1.ObjectReference{Name: name})
	}
	return attachments
}

// selectsNamespaces reports whether the labels of namespaces matter.
func (p *plane) selectsNamespaces() bool {
	if p.gateway != nil && p.gateway.Spec.AllowedListeners != nil {
		if namespaces := p.gateway.Spec.AllowedListeners.Namespaces; namespaces != nil && namespaces.Selector != nil {
			return true
		}
	}
	return slices.ContainsFunc(p.listeners, func(l *listener) bool {
		return l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil && l.AllowedRoutes.Namespaces.Selector != nil
	})
}

// AttachedTo returns what the status of a Gateway of our own says about its objects of the Gateway API. Add adds the
// objects.
func AttachedTo(own *appv1.Gateway) Objects {
	objects := Objects{Namespaces: map[string]labels.Set{}}
	if proxypod.Parent(own) == "" {
		objects.Own = []*appv1.Gateway{own}
	} else {
		i := slices.IndexFunc(own.Spec.Listeners, func(l appv1.Listener) bool { return isForRequests(string(l.Protocol)) })
		if objects.FiltersUnknown = i < 0; i >= 0 {
			// All others have the same.
			objects.ListenerFilters, objects.MaxRequestBytes = own.Spec.Listeners[i].Filters, own.Spec.Listeners[i].MaxRequestBytes
		}
	}
	if own.Status.Attachments != nil {
		for _, namespace := range own.Status.Attachments.Namespaces {
			if namespace.Labels != nil {
				objects.Namespaces[namespace.Name] = namespace.Labels
			}
		}
	}
	return objects
}

// Add adds an object that belongs to a Gateway of our own. The operator has checked the class of a Gateway, and the
// GatewayConfig.
func (o *Objects) Add(obj any) {
	switch object := obj.(type) {
	case *gatewayv1.Gateway:
		gateway := *object
		gateway.Spec.Infrastructure, gateway.Spec.Addresses = nil, nil
		o.Gateways = append(o.Gateways, &gateway)
		o.Classes = append(o.Classes, &gatewayv1.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: string(gateway.Spec.GatewayClassName)},
			Spec:       gatewayv1.GatewayClassSpec{ControllerName: ControllerName},
		})
	case *gatewayv1.ListenerSet:
		o.ListenerSets = append(o.ListenerSets, object)
	case *gatewayv1.HTTPRoute:
		o.HTTPRoutes = append(o.HTTPRoutes, object)
	case *gatewayv1.GRPCRoute:
		o.GRPCRoutes = append(o.GRPCRoutes, object)
	case *gatewayv1.TLSRoute:
		o.TLSRoutes = append(o.TLSRoutes, object)
	case *gatewayv1.TCPRoute:
		o.TCPRoutes = append(o.TCPRoutes, object)
	case *gatewayv1.BackendTLSPolicy:
		o.Policies = append(o.Policies, object)
	case *gatewayv1.ReferenceGrant:
		o.Grants = append(o.Grants, object)
	case *appv1.RouteFilter:
		o.Filters = append(o.Filters, object)
	case *appv1.BackendPolicy:
		o.BackendPolicies = append(o.BackendPolicies, object)
	}
}
