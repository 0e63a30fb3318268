package gatewayapi

import (
	"cmp"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

func (t *translator) addClasses() {
	t.classes = map[string]*gatewayv1.GatewayClass{}
	for _, class := range t.Classes {
		if class.Spec.ControllerName == ControllerName {
			t.classes[class.Name] = class
		}
	}
}

// addGateways adds a data plane for each Gateway whose class is ours.
func (t *translator) addGateways() {
	for _, gateway := range sorted(t.Gateways) {
		class := t.classes[string(gateway.Spec.GatewayClassName)]
		if class == nil {
			continue
		}
		plane := &plane{parent: GatewayParent(gateway.Namespace, gateway.Name), gateway: gateway}
		plane.to.Origins = []model.Origin{origin(kindGateway, gateway)}
		for _, resource := range WatchedResources {
			plane.attach(gateway.Namespace, resource)
		}
		t.configure(plane, class)
		plane.check()
		t.setBackendCertificate(plane)
		parent := &parent{Parent: plane.parent, plane: plane}
		for i := range gateway.Spec.Listeners {
			parent.listeners = append(parent.listeners, t.newListener(&gateway.Spec.Listeners[i], origin(kindGateway, gateway), plane))
		}
		plane.listeners = parent.listeners
		for _, l := range plane.listeners {
			for _, object := range l.reports {
				plane.fix(object)
			}
			plane.adopt(l, 1)
		}
		t.planes, t.parents[plane.parent] = append(t.planes, plane), parent
	}
}

// addOwn adds a data plane for each of our own Gateways.
func (t *translator) addOwn() {
	for _, gateway := range sorted(t.Own) {
		plane := &plane{
			parent: OwnParent(gateway.Namespace, gateway.Name), to: *source.Translate(gateway), own: &gateway.Spec,
		}
		plane.routes = plane.to.Routes.Edit()
		name := kindGateway + " " + gateway.Namespace + "/" + gateway.Name
		plane.ownership.spec, plane.ownership.by = ptr.Deref(gateway.Spec.AllowedHostnames, appv1.AllowedHostnames{}), name
		plane.budget.spec, plane.budget.by = ptr.Deref(gateway.Spec.NamespaceBudget, appv1.NamespaceBudget{}), name
		parent := &parent{Parent: plane.parent, plane: plane}
		for i, from := range plane.to.Listeners {
			l := &listener{owner: from.Origin, name: from.Name, tls: from.TLS, closed: gateway.Spec.Listeners[i].HTTPSRedirect != nil, Listener: &gatewayv1.Listener{
				Name: gatewayv1.SectionName(from.Name), Port: from.Port, Protocol: gatewayv1.ProtocolType(from.Protocol),
				AllowedRoutes: allowedRoutes(gateway.Spec.Listeners[i].AllowedRoutes),
			}}
			if from.Hostname != "" {
				hostname := gatewayv1.Hostname(from.Hostname)
				l.Hostname = &hostname
			}
			l.setKinds(kindsOf[l.Protocol])
			parent.listeners = append(parent.listeners, l)
		}
		plane.listeners = parent.listeners
		t.planes, t.parents[plane.parent] = append(t.planes, plane), parent
	}
}

// allowedRoutes returns the allowed routes of a listener of our own kind, as the Gateway API has them.
func allowedRoutes(own *appv1.AllowedRoutes) *gatewayv1.AllowedRoutes {
	if own == nil {
		return nil
	}
	from := gatewayv1.FromNamespaces(cmp.Or(own.Namespaces.From, appv1.NamespacesFromSame))
	allowed := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from, Selector: own.Namespaces.Selector}}
	for _, kind := range own.Kinds {
		allowed.Kinds = append(allowed.Kinds, gatewayv1.RouteGroupKind{Kind: gatewayv1.Kind(kind.Kind)})
	}
	return allowed
}
