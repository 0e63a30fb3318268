package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/certificates"
	"gateway/internal/model"
	"gateway/internal/multicluster"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/tree"
)

// contents are the objects of files.
type contents struct {
	own     []*appv1.Gateway
	objects gatewayapi.Objects
	configs map[types.NamespacedName]*appv1.GatewayConfig
	// used are those that a Gateway or its class names.
	used map[types.NamespacedName]bool
	// classes are the GatewayClasses, and unknown those that Gateways name and the files lack.
	classes, unknown []string
	around           *Site
	documents        []Document
	configMaps       []*corev1.ConfigMap
	bundles          []*certificatesv1.ClusterTrustBundle
	secrets          []*corev1.Secret
}

// Refused returns what the API server or the proxies would refuse of new objects. Services are from documents.
func Refused(objects []*unstructured.Unstructured, documents []Document, namespace string) []string {
	const made = "made of other objects"
	var all []Document
	for _, document := range documents {
		if kind := document.Object.GroupVersionKind(); kind.Group == "" && kind.Kind == "Service" {
			all = append(all, document)
		}
	}
	for _, object := range objects {
		all = append(all, Document{Source: made, Object: object})
	}
	found, err := read(all, namespace)
	if err != nil {
		return strings.Split(strings.ReplaceAll(err.Error(), made+": ", ""), "\n")
	}
	var problems []string
	sites, _, _ := found.sites(func(*appv1.Gateway) bool { return true })
	for _, site := range sites {
		table, refused := site.Compile()
		problems = append(problems, Messages(site.Problems(table, refused))...)
	}
	return problems
}

// read makes typed objects of documents, as the API server would store them. The error names all that it would refuse.
func read(documents []Document, namespace string) (*contents, error) {
	c := &contents{
		around: newSite(&appv1.Gateway{}), configs: map[types.NamespacedName]*appv1.GatewayConfig{}, used: map[types.NamespacedName]bool{},
	}
	c.objects = gatewayapi.Objects{Namespaces: map[string]labels.Set{}, Service: c.around.service, Config: func(namespace, name string) *appv1.GatewayConfig {
		config := types.NamespacedName{Namespace: namespace, Name: name}
		c.used[config] = true
		return c.configs[config]
	}}
	var errs []error
	for _, document := range documents {
		object, err := typed(document, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.add(object)
		document.Object = document.Object.DeepCopy()
		document.Object.SetNamespace(cmp.Or(document.Object.GetNamespace(), namespace))
		c.documents = append(c.documents, document)
	}
	return c, errors.Join(errs...)
}

// addClasses adds the GatewayClasses that Gateways name and the files lack: they are taken to be ours.
func (c *contents) addClasses() {
	known := map[gatewayv1.ObjectName]bool{}
	for _, class := range c.objects.Classes {
		known[gatewayv1.ObjectName(class.Name)] = true
		c.classes = append(c.classes, class.Name)
	}
	for _, gateway := range c.objects.Gateways {
		if name := gateway.Spec.GatewayClassName; !known[name] {
			known[name] = true
			c.unknown = append(c.unknown, string(name))
			c.objects.Classes = append(c.objects.Classes, &gatewayv1.GatewayClass{
				ObjectMeta: metav1.ObjectMeta{Name: string(name)}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName},
			})
		}
	}
}

func (c *contents) add(object runtime.Object) {
	switch object := object.(type) {
	case *appv1.Gateway:
		c.own = append(c.own, object)
	case *appv1.GatewayConfig:
		c.configs[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = object
	case *corev1.Service:
		c.around.addService(object, object.Kind == multicluster.Kind)
	case *discoveryv1.EndpointSlice:
		c.around.addSlice(object)
	case *corev1.ConfigMap:
		c.configMaps = append(c.configMaps, object)
	case *certificatesv1.ClusterTrustBundle:
		c.bundles = append(c.bundles, object)
	case *corev1.Secret:
		c.secrets = append(c.secrets, object)
	case *corev1.Namespace:
		c.objects.Namespaces[object.Name] = labels.Merge(object.Labels, labels.Set{corev1.LabelMetadataName: object.Name})
	default:
		c.objects.Add(object)
	}
}

// typed makes a typed object of a document, as the API server would store it; nil: nothing is read of its kind. What
// the API server refuses, such as unknown fields, is an error.
func typed(document Document, namespace string) (runtime.Object, error) {
	kind := document.Object.GroupVersionKind()
	if kind.Group == gatewayv1.GroupName {
		kind.Version = gatewayv1.GroupVersion.Version // fields have the same names in all
	}
	object, err := kinds.New(kind)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // as promised
	}
	document.Object = document.Object.DeepCopy()
	if !slices.Contains([]string{"GatewayClass", "Namespace", "ClusterTrustBundle"}, kind.Kind) {
		document.Object.SetNamespace(cmp.Or(document.Object.GetNamespace(), namespace))
	}
	if admission.Knows(kind.GroupKind()) {
		var refusal *admission.Refusal
		switch err := admission.Admit(document.Object); {
		case errors.As(err, &refusal):
			return nil, document.refused(refusal.Problems)
		case err != nil:
			return nil, err
		}
	}
	content, err := document.Object.MarshalJSON()
	var unknown []error
	if err == nil {
		unknown, err = json.UnmarshalStrict(content, object)
	}
	if kind.Kind == multicluster.Kind {
		unknown = nil // it has fields that are not read
	}
	if err = errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("%s: %s: %s", document.Where(err), document, oneLine(err.Error()))
	}
	return object, nil
}

// site returns a Gateway with what there is around it in the files.
func (c *contents) site(gateway *appv1.Gateway) *Site {
	site := newSite(gateway)
	site.documents = c.documents
	site.services, site.slices = c.around.services, c.around.slices
	for _, configMap := range c.configMaps {
		site.configMaps[site.localName(configMap)] = configMap.Data
	}
	for _, bundle := range c.bundles {
		site.configMaps[model.TrustBundle(bundle.Name)] = map[string]string{certificates.AuthorityFile: bundle.Spec.TrustBundle}
	}
	for _, secret := range c.secrets {
		files := map[string][]byte{}
		maps.Copy(files, secret.Data)
		for key, value := range secret.StringData {
			files[key] = []byte(value)
		}
		site.secrets[site.localName(secret)] = files
	}
	return site
}

// sites returns a site for each Gateway of the kinds of both groups whose class is ours. Of our own, those count that
// are wanted. lost names routes without a Gateway of the files and classes that are not there, and idle what has no
// effect, maybe because of that.
func (c *contents) sites(wanted func(*appv1.Gateway) bool) (all []*Site, lost, idle []model.Problem) {
	for _, gateway := range c.own {
		if wanted(gateway) {
			all = append(all, c.site(gateway))
			c.objects.Own = append(c.objects.Own, gateway)
		}
	}
	c.addClasses()
	result := gatewayapi.Translate(c.objects)
	closeRefused(result)
	for _, target := range result.IdleTargets() {
		idle = append(idle, model.Problem{Origin: target.Origin, Field: target.Field, Message: target.Message})
	}
	idle = append(idle, c.unused(result)...)
	lost = c.unknownClasses()
	for _, site := range all {
		site.model, site.attached = result.Planes[gatewayapi.OwnParent(site.Gateway.Namespace, site.Gateway.Name)], c.objects
	}
	for _, gateway := range c.objects.Gateways {
		plane := result.Planes[gatewayapi.GatewayParent(gateway.Namespace, gateway.Name)]
		if own := (&appv1.Gateway{ObjectMeta: gateway.ObjectMeta}); plane != nil && wanted(own) {
			site := c.site(own)
			site.model, site.attached, site.IsGatewayAPI, site.settings = plane, c.objects, true, c.settings(result, gateway)
			all = append(all, site)
		}
	}
	if len(all) == 0 {
		return nil, lost, idle
	}
	parents := c.parents()
	for _, route := range result.Strays(parents) {
		lost = append(lost, c.stray(route, parents))
	}
	return all, lost, idle
}

// settings returns the spec of the data plane of a Gateway of the Gateway API, nil if the files have no GatewayConfig.
func (c *contents) settings(result *gatewayapi.Result, gateway *gatewayv1.Gateway) *appv1.GatewaySpec {
	for _, plane := range result.DataPlanes() {
		hasConfig := func(config types.NamespacedName) bool { return c.configs[config] != nil }
		if plane.Gateway.Namespace == gateway.Namespace && plane.Gateway.Name == gateway.Name && slices.ContainsFunc(slices.Collect(maps.Keys(c.used)), hasConfig) {
			return plane.Spec
		}
	}
	return nil
}

const (
	// usualClass is the GatewayClass that the project's own files have.
	usualClass = "gateway"
	fieldClass = "gatewayClassName"
)

// unknownClasses names GatewayClasses that there are hardly.
func (c *contents) unknownClasses() []model.Problem {
	var all []model.Problem
	for _, class := range c.unknown {
		near := Nearest(class, c.classes)
		if len(c.classes) == 0 && class != usualClass && distance(strings.ToLower(class), usualClass) <= 2 {
			near = usualClass
		}
		const message = "GatewayClass %s is not in the files (do you mean %s?): a Gateway of a class that does not exist has no proxies"
		i := slices.IndexFunc(c.documents, func(d Document) bool { return d.value("spec."+fieldClass) == class })
		if near != "" && i >= 0 { // else it is the class of a Gateway that is assumed
			all = append(all, c.documents[i].problem(fieldClass, fmt.Sprintf(message, class, near)))
		}
	}
	return all
}

// unused names RouteFilters and GatewayConfigs that nothing names.
func (c *contents) unused(result *gatewayapi.Result) []model.Problem {
	var all []model.Problem
	for _, filter := range result.IdleFilters() {
		all = append(all, model.Problem{
			Origin:  model.Origin{Kind: filter.Kind, Namespace: filter.Namespace, Name: filter.Name},
			Message: fmt.Sprintf("RouteFilter %s/%s has no effect: no route of its namespace names it in an extensionRef", filter.Namespace, filter.Name),
		})
	}
	for config := range c.configs {
		if !c.used[config] {
			all = append(all, model.Problem{
				Origin:  model.Origin{Kind: "GatewayConfig", Namespace: config.Namespace, Name: config.Name},
				Message: fmt.Sprintf("GatewayConfig %s has no effect: no Gateway and no GatewayClass names it in a parametersRef", config),
			})
		}
	}
	slices.SortFunc(all, func(a, b model.Problem) int { return cmp.Compare(a.Message, b.Message) })
	return all
}

// parents returns the Gateways of the files, of whatever class, and the ListenerSets.
func (c *contents) parents() map[gatewayapi.Parent]bool {
	all := map[gatewayapi.Parent]bool{}
	for _, gateway := range c.own {
		all[gatewayapi.OwnParent(gateway.Namespace, gateway.Name)] = true
	}
	for _, gateway := range c.objects.Gateways {
		all[gatewayapi.GatewayParent(gateway.Namespace, gateway.Name)] = true
	}
	for _, set := range c.objects.ListenerSets {
		all[gatewayapi.Parent{Group: gatewayv1.GroupName, Kind: "ListenerSet", Namespace: set.Namespace, Name: set.Name}] = true
	}
	return all
}

// closeRefused closes the Gateways that the operator makes no proxies for, such as one whose GatewayConfig is missing:
// the filters of its listeners are unknown then. The reason is among the problems.
func closeRefused(result *gatewayapi.Result) {
	for _, plane := range result.DataPlanes() {
		if plane.Spec == nil {
			of := result.Planes[gatewayapi.GatewayParent(plane.Gateway.Namespace, plane.Gateway.Name)]
			of.Listeners, of.Routes = nil, tree.Map[*model.Route]{}
		}
	}
}
