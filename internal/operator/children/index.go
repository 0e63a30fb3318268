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

// Owner returns the name of the Gateway that controls an object, if one does. Objects of other API groups are called Gateway, too.
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
	// IndexOwner finds EndpointSlices by "namespace/name" of the Gateway whose Service they are of.
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

// OwnerKeys is the function of IndexOwner. Only slices of the Gateway's own Service count: anybody may use the label.
func OwnerKeys(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	gateway := slice.Labels[proxypod.LabelGateway]
	if gateway == "" || slice.Labels[discoveryv1.LabelServiceName] != proxypod.ChildName(gateway) {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + gateway}, nil
}
