package agent

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// addAttached adds what changed of a Gateway that has objects of the Gateway API.
func (w *watcher) addAttached(gateway *appv1.Gateway, servicesChanged bool, changes *Changes) {
	objects, generations, versions := w.attached(gateway)
	changes.Resources = versions
	if w.seen != nil && !servicesChanged && gateway.UID == w.seen.UID && gateway.Generation == w.seen.Generation &&
		equality.Semantic.DeepEqual(gateway.Status.Attachments, w.seen.Status.Attachments) && maps.Equal(generations, w.objects) {
		return
	}
	w.seen, w.objects = gateway, generations
	result := gatewayapi.Translate(objects)
	if parent := proxypod.Parent(gateway); parent != "" {
		changes.Gateway = result.For(gateway, parent)
	} else {
		changes.Gateway = result.Planes[gatewayapi.OwnParent(gateway.Namespace, gateway.Name)]
	}
	changes.UID = gateway.UID
}

// attached returns the objects of the Gateway API, their generations, and up to which version they are.
func (w *watcher) attached(gateway *appv1.Gateway) (gatewayapi.Objects, map[types.UID]int64, []appv1.ProxiedResource) {
	objects := gatewayapi.Objects{Namespaces: map[string]labels.Set{}, Service: w.knownService}
	if proxypod.Parent(gateway) == "" {
		objects.Own = []*appv1.Gateway{gateway}
	}
	if gateway.Status.Attachments != nil {
		for _, namespace := range gateway.Status.Attachments.Namespaces {
			if namespace.Labels != nil {
				objects.Namespaces[namespace.Name] = namespace.Labels
			}
		}
	}
	generations := map[types.UID]int64{}
	var versions []appv1.ProxiedResource
	for namespace, watch := range w.namespaces {
		for resource := range watch.resources {
			version := ""
			for _, obj := range watch.objects(resource) {
				object := obj.(metav1.Object)
				generations[object.GetUID()] = object.GetGeneration()
				version = later(version, object.GetResourceVersion())
				add(&objects, obj)
			}
			if version != "" {
				versions = append(versions, appv1.ProxiedResource{Resource: resource, Namespace: namespace, ResourceVersion: version})
			}
		}
	}
	slices.SortFunc(versions, func(a, b appv1.ProxiedResource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
	})
	return objects, generations, versions
}

// later returns the later one of two resourceVersions. One that cannot be compared counts as none.
func later(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order >= 0 {
		return a
	}
	if _, err := resourceversion.CompareResourceVersion(b, b); err != nil {
		return a
	}
	return b
}

// add adds an object of the Gateway API to the others. The operator has checked the class of a Gateway, and how its
// proxies are to run.
func add(objects *gatewayapi.Objects, obj any) {
	switch object := obj.(type) {
	case *gatewayv1.Gateway:
		gateway := *object
		gateway.Spec.Infrastructure, gateway.Spec.Addresses = nil, nil
		objects.Gateways = append(objects.Gateways, &gateway)
		objects.Classes = append(objects.Classes, &gatewayv1.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: string(gateway.Spec.GatewayClassName)},
			Spec:       gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName},
		})
	case *gatewayv1.ListenerSet:
		objects.ListenerSets = append(objects.ListenerSets, object)
	case *gatewayv1.HTTPRoute:
		objects.HTTPRoutes = append(objects.HTTPRoutes, object)
	case *gatewayv1.GRPCRoute:
		objects.GRPCRoutes = append(objects.GRPCRoutes, object)
	case *gatewayv1.TLSRoute:
		objects.TLSRoutes = append(objects.TLSRoutes, object)
	case *gatewayv1.TCPRoute:
		objects.TCPRoutes = append(objects.TCPRoutes, object)
	case *gatewayv1.BackendTLSPolicy:
		objects.Policies = append(objects.Policies, object)
	case *gatewayv1.ReferenceGrant:
		objects.Grants = append(objects.Grants, object)
	}
}

// knownService returns a Service; false: nobody knows, because its namespace is not watched.
func (w *watcher) knownService(namespace, name string) (*corev1.Service, bool) {
	watch := w.namespaces[namespace]
	if watch == nil || !watch.services.HasSynced() {
		return nil, false
	}
	return watch.service(name), true
}
