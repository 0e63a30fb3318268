package cli

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/source/gatewayapi"
)

// readGatewayAPI returns the objects of the Gateway API in documents, and those of our own group that they use, without
// those that want a GatewayClass of somebody else. A class that is not there is taken to be ours.
func readGatewayAPI(documents []Document, namespace string) (gatewayapi.Objects, error) {
	var errs []error
	configs := map[types.NamespacedName]*appv1.GatewayConfig{}
	objects := gatewayapi.Objects{Namespaces: map[string]labels.Set{}, Config: func(namespace, name string) *appv1.GatewayConfig {
		return configs[types.NamespacedName{Namespace: namespace, Name: name}]
	}}
	for _, document := range documents {
		document.Object = document.Object.DeepCopy()
		kind := document.Object.GroupVersionKind()
		if kind.Kind != "GatewayClass" && kind.Kind != "Namespace" {
			document.Object.SetNamespace(cmp.Or(document.Object.GetNamespace(), namespace))
		}
		if kind.Group == corev1.GroupName && kind.Kind == "Namespace" {
			name := document.Object.GetName()
			objects.Namespaces[name] = labels.Merge(document.Object.GetLabels(), labels.Set{corev1.LabelMetadataName: name})
		}
		switch {
		case kind == appv1.SchemeGroupVersion.WithKind("RouteFilter"):
			filter := &appv1.RouteFilter{}
			errs = append(errs, admit(document, namespace, filter))
			objects.Add(filter)
		case kind == appv1.SchemeGroupVersion.WithKind("BackendPolicy"):
			policy := &appv1.BackendPolicy{}
			errs = append(errs, admit(document, namespace, policy))
			objects.Add(policy)
		case kind == appv1.SchemeGroupVersion.WithKind("GatewayConfig"):
			config := &appv1.GatewayConfig{}
			errs = append(errs, admit(document, namespace, config))
			configs[types.NamespacedName{Namespace: config.Namespace, Name: config.Name}] = config
		case kind.Group == gatewayv1.GroupName && admission.Knows(kind.GroupKind()):
			errs = append(errs, addObject(&objects, document, namespace))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return objects, err
	}
	known := map[gatewayv1.ObjectName]bool{}
	for _, class := range objects.Classes {
		known[gatewayv1.ObjectName(class.Name)] = true
	}
	for _, gateway := range objects.Gateways {
		if name := gateway.Spec.GatewayClassName; !known[name] {
			known[name] = true
			objects.Classes = append(objects.Classes, &gatewayv1.GatewayClass{
				ObjectMeta: metav1.ObjectMeta{Name: string(name)}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName},
			})
		}
	}
	return objects, nil
}

// addObject adds an object of the Gateway API, of whatever version: fields have the same names in all.
func addObject(objects *gatewayapi.Objects, document Document, namespace string) error {
	kind := document.Object.GetKind()
	switch kind {
	case "GatewayClass":
		return appendTo(&objects.Classes, document, namespace)
	case "Gateway":
		return appendTo(&objects.Gateways, document, namespace)
	case "UDPRoute":
		return appendTo(&objects.UDPRoutes, document, namespace)
	}
	object, err := scheme.Scheme.New(schema.GroupVersion(gatewayv1.GroupVersion).WithKind(kind))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", document.Source, document, err)
	}
	if err := admit(document, namespace, object); err != nil {
		return err
	}
	objects.Add(object)
	return nil
}

func appendTo[T any](all *[]*T, document Document, namespace string) error {
	object := new(T)
	if err := admit(document, namespace, object); err != nil {
		return err
	}
	*all = append(*all, object)
	return nil
}

// gatewayAPISites returns a site for each Gateway of the Gateway API whose class is ours, and gives the others the
// routes that belong to them. idle names targets of policies that these have no effect on.
func gatewayAPISites(objects gatewayapi.Objects, own []*Site, documents []Document, namespace string) (others []*Site, idle []string, err error) {
	services := newSite(&appv1.Gateway{})
	if err := services.readFiles(documents, namespace); err != nil {
		return nil, nil, err
	}
	objects.Service = services.service
	for _, site := range own {
		objects.Own = append(objects.Own, site.Gateway)
	}
	result := gatewayapi.Translate(objects)
	closeRefused(result)
	for _, target := range result.IdleTargets() {
		idle = append(idle, target.Message)
	}
	for _, site := range own {
		site.model, site.attached = result.Planes[gatewayapi.OwnParent(site.Gateway.Namespace, site.Gateway.Name)], objects
	}
	for _, gateway := range objects.Gateways {
		plane := result.Planes[gatewayapi.GatewayParent(gateway.Namespace, gateway.Name)]
		if plane == nil {
			continue
		}
		site := newSite(&appv1.Gateway{ObjectMeta: gateway.ObjectMeta})
		site.model, site.IsGatewayAPI = plane, true
		others = append(others, site)
	}
	return others, idle, nil
}

// closeRefused closes the Gateways that the operator makes no proxies for, such as one whose GatewayConfig is missing:
// nobody knows then what filters its listeners have. Why is among the problems.
func closeRefused(result *gatewayapi.Result) {
	for _, plane := range result.DataPlanes() {
		if plane.Spec == nil {
			of := result.Planes[gatewayapi.GatewayParent(plane.Gateway.Namespace, plane.Gateway.Name)]
			of.Listeners, of.Routes = nil, nil
		}
	}
}
