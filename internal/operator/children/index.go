package children

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

// Owner returns the name of the Gateway that controls an object, if one does. Objects of other API groups are called
// Gateway, too.
func Owner(object metav1.Object) (cache.ObjectName, bool) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != "Gateway" {
		return cache.ObjectName{}, false
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || version.Group != appv1.SchemeGroupVersion.Group {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(object.GetNamespace(), ref.Name), true
}

const (
	// IndexBackends finds Gateways by "namespace/name" of a Service that their routes name.
	IndexBackends = "backends"
	// IndexOwner finds EndpointSlices, GatewayProxies and GatewayAttachments by "namespace/name" of their Gateway.
	IndexOwner = "owner"
)

// BackendKeys is the function of IndexBackends.
func BackendKeys(obj any) ([]string, error) {
	gateway, ok := obj.(*appv1.Gateway)
	if !ok {
		return nil, nil
	}
	keys := BackendNames(gateway)
	for i, name := range keys {
		keys[i] = gateway.Namespace + "/" + name
	}
	return keys, nil
}

// BackendNames are the names of all Services in a Gateway's routes of every kind, sorted and unique.
func BackendNames(gateway *appv1.Gateway) []string {
	var names []string
	for ref := range source.References(gateway) {
		names = append(names, ref.Backend.Service)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OwnerKeys is the function of IndexOwner.
func OwnerKeys(obj any) ([]string, error) {
	switch object := obj.(type) {
	case *discoveryv1.EndpointSlice:
		if IsOwn(object) {
			return []string{object.Namespace + "/" + object.Labels[proxypod.LabelGateway]}, nil
		}
	case *appv1.GatewayProxy, *appv1.GatewayAttachment:
		if labelled := obj.(metav1.Object); labelled.GetLabels()[proxypod.LabelGateway] != "" {
			return []string{labelled.GetNamespace() + "/" + labelled.GetLabels()[proxypod.LabelGateway]}, nil
		}
	}
	return nil, nil
}

// IsOwn reports whether an EndpointSlice belongs to the Service of the Gateway in its label. Anybody may set the label.
func IsOwn(slice *discoveryv1.EndpointSlice) bool {
	gateway := slice.Labels[proxypod.LabelGateway]
	return gateway != "" && slice.Labels[discoveryv1.LabelServiceName] == proxypod.ChildName(gateway)
}
