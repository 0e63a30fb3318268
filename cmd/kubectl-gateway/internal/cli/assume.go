package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// assumedName is the name of a Gateway that nothing names, and of the certificates of those that are assumed.
const assumedName = "assumed"

// assumed is a Gateway that files lack.
type assumed struct {
	gatewayapi.Parent
	listeners []any
	names     []string
}

// assume adds what the objects of a team need and the files lack: if there is no Gateway, those that routes name, and
// routes for RouteFilters and BackendPolicies that none of the files has. It returns what was assumed.
func (c *contents) assume(namespace string) ([]string, error) {
	if len(c.own)+len(c.objects.Gateways) > 0 {
		return nil, nil
	}
	var gateways []*assumed
	for _, d := range c.documents {
		kind := d.Object.GroupVersionKind()
		if kind.Group != gatewayv1.GroupName {
			continue
		}
		for _, field := range []string{"spec.parentRefs", "spec.parentRef"} { // the latter of ListenerSets
			for _, ref := range Maps(d.value(field)) {
				gateways = c.addListeners(gateways, parentIn(ref, d.Object.GetNamespace()), kind.Kind, ref)
			}
		}
	}
	routes := c.orphans()
	if len(gateways) == 0 && len(routes) > 0 {
		gateways = c.addListeners(nil, gatewayapi.Parent{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: namespace, Name: assumedName}, "HTTPRoute", nil)
	}
	var notes []string
	for _, gateway := range gateways {
		if err := c.put(gateway.object(c.ourClass())); err != nil {
			return nil, err
		}
		const note = "Gateway %s/%s is not in the files: it is assumed, with the listeners %s, for all hosts and namespaces"
		notes = append(notes, fmt.Sprintf(note, gateway.Namespace, gateway.Name, strings.Join(gateway.names, ", ")))
	}
	for _, route := range routes {
		route["spec"].(map[string]any)["parentRefs"] = []any{map[string]any{
			"group": gateways[0].Group, "kind": gateways[0].Kind, "namespace": gateways[0].Namespace, "name": gateways[0].Name,
		}}
		if err := c.put(route); err != nil {
			return nil, err
		}
		about := route["metadata"].(map[string]any)
		const note = "no HTTPRoute of the files uses %s: one is assumed, for the host %s"
		notes = append(notes, fmt.Sprintf(note, about["annotations"].(map[string]any)["for"], route["spec"].(map[string]any)["hostnames"].([]any)[0]))
	}
	return notes, nil
}

// ourClass returns the name of a GatewayClass of ours, of the files if they have one.
func (c *contents) ourClass() string {
	for _, class := range c.objects.Classes {
		if class.Spec.ControllerName == gatewayapi.ControllerName {
			return class.Name
		}
	}
	return usualClass
}

// parentIn returns what a reference names, from a namespace.
func parentIn(ref map[string]any, namespace string) gatewayapi.Parent {
	text := func(field, otherwise string) string {
		value, _ := ref[field].(string)
		return cmp.Or(value, otherwise)
	}
	return gatewayapi.Parent{
		Group: text("group", gatewayv1.GroupName), Kind: text("kind", "Gateway"), Namespace: text("namespace", namespace), Name: text("name", ""),
	}
}

// addListeners adds a Gateway, if it is one and there is none, with the listeners that a reference of a kind needs.
func (c *contents) addListeners(all []*assumed, parent gatewayapi.Parent, kind string, ref map[string]any) []*assumed {
	if parent.Kind != "Gateway" || parent.Group != gatewayv1.GroupName && parent.Group != appv1.GroupName {
		return all
	}
	i := slices.IndexFunc(all, func(g *assumed) bool { return g.Parent == parent })
	if i < 0 {
		i, all = len(all), append(all, &assumed{Parent: parent})
	}
	gateway := all[i]
	name, _ := ref["sectionName"].(string)
	port, _ := ref["port"].(int64)
	switch {
	case kind == "TLSRoute":
		gateway.add(cmp.Or(name, "tls"), "TLS", cmp.Or(port, 8443))
	case kind == "TCPRoute":
		gateway.add(cmp.Or(name, "tcp"), "TCP", cmp.Or(port, 9000))
	case name == "" && port == 0:
		gateway.add("http", "HTTP", 80)
		gateway.add("https", "HTTPS", 443)
	case port == 443 || port == 8443 || strings.Contains(name, "https") || strings.Contains(name, "tls"):
		gateway.add(cmp.Or(name, "https"), "HTTPS", cmp.Or(port, 443))
	default:
		gateway.add(cmp.Or(name, "http"), "HTTP", cmp.Or(port, 80))
	}
	return all
}

// add adds a listener, at the port or the next one that is free, unless there is one of the name.
func (g *assumed) add(name, protocol string, port int64) {
	for _, listener := range Maps(g.listeners) {
		if listener["name"] == name {
			return
		}
		if listener["port"] == port {
			port++
		}
	}
	listener := map[string]any{"name": name, "protocol": protocol, "port": port, "allowedRoutes": map[string]any{"namespaces": map[string]any{"from": "All"}}}
	switch protocol {
	case "HTTPS":
		listener["tls"] = map[string]any{"certificateRefs": []any{map[string]any{"name": assumedName}}}
	case "TLS":
		listener["tls"] = map[string]any{"mode": "Passthrough"}
	}
	g.listeners = append(g.listeners, listener)
	g.names = append(g.names, fmt.Sprintf("%s (%s, port %d)", name, protocol, port))
}

// object returns the Gateway.
func (g *assumed) object(class string) map[string]any {
	spec := map[string]any{"listeners": g.listeners}
	if g.Group == gatewayv1.GroupName {
		spec["gatewayClassName"] = class
		spec["allowedListeners"] = map[string]any{"namespaces": map[string]any{"from": "All"}}
	}
	return map[string]any{
		"apiVersion": g.Group + "/v1", "kind": "Gateway", "metadata": map[string]any{"name": g.Name, "namespace": g.Namespace}, "spec": spec,
	}
}

// put adds an object as the API server would store it.
func (c *contents) put(object map[string]any) error {
	added, err := typed(Document{Source: "assumed", Object: &unstructured.Unstructured{Object: object}}, "")
	if err == nil {
		c.add(added)
	}
	return err
}

// orphans returns routes for the RouteFilters and BackendPolicies that no route of the files has.
func (c *contents) orphans() []map[string]any {
	used := map[string]bool{} // by kind of the object that is named, namespace and name
	for _, d := range c.documents {
		walk(d.Object.Object["spec"], "spec", func(path, text string) {
			switch {
			case strings.HasSuffix(path, ".extensionRef.name"):
				used["RouteFilter "+d.Object.GetNamespace()+"/"+text] = true
			case strings.Contains(path, "ackendRefs[") && strings.HasSuffix(path, ".name"):
				used["Service "+d.Object.GetNamespace()+"/"+text] = true
			}
		})
	}
	var all []map[string]any
	route := func(of, namespace, name, service string, filters []any) {
		if service == "" {
			service = c.anyService(namespace)
		}
		rule := map[string]any{"backendRefs": []any{map[string]any{"name": service, "port": c.portOf(namespace, service)}}}
		if len(filters) > 0 {
			rule["filters"] = filters
		}
		all = append(all, map[string]any{
			"apiVersion": gatewayv1.GroupVersion.String(), "kind": "HTTPRoute",
			"metadata": map[string]any{"name": assumedName + "-" + name, "namespace": namespace, "annotations": map[string]any{"for": of}},
			"spec":     map[string]any{"hostnames": []any{name + "." + namespace + ".test"}, "rules": []any{rule}},
		})
	}
	for _, filter := range c.objects.Filters {
		if of := "RouteFilter " + filter.Namespace + "/" + filter.Name; !used[of] {
			ref := map[string]any{"group": appv1.GroupName, "kind": "RouteFilter", "name": filter.Name}
			route(of, filter.Namespace, filter.Name, "", []any{map[string]any{"type": "ExtensionRef", "extensionRef": ref}})
		}
	}
	for _, policy := range c.objects.BackendPolicies {
		for _, target := range policy.Spec.TargetRefs {
			if of := "Service " + policy.Namespace + "/" + target.Name; !used[of] {
				used[of] = true
				route(of, policy.Namespace, target.Name, target.Name, nil)
			}
		}
	}
	return all
}

// anyService returns a Service of a namespace, one that is assumed if the files have none.
func (c *contents) anyService(namespace string) string {
	var names []string
	for name := range c.around.services {
		if name.Namespace == namespace {
			names = append(names, name.Name)
		}
	}
	if len(names) == 0 {
		return assumedName
	}
	return slices.Min(names)
}

// portOf returns the first port of a Service, 80 if the files do not have it.
func (c *contents) portOf(namespace, name string) int64 {
	if service, ok := c.around.service(namespace, name); ok && service != nil && len(service.Spec.Ports) > 0 {
		return int64(service.Spec.Ports[0].Port)
	}
	return 80
}
