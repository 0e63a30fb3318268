package agent

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// addAttached adds the changes of a Gateway that has objects of the Gateway API.
func (w *watcher) addAttached(gateway *appv1.Gateway, servicesChanged bool, changes *Changes) {
	objects, generations, versions := w.attached(gateway)
	changes.Resources = versions
	if w.seen != nil && !servicesChanged && gateway.UID == w.seen.UID && gateway.Generation == w.seen.Generation &&
		equality.Semantic.DeepEqual(gateway.Status.Attachments, w.seen.Status.Attachments) && maps.Equal(generations, w.objects) {
		return
	}
	if servicesChanged || w.cache == nil {
		w.cache = &gatewayapi.Cache{}
	}
	objects.Cache = w.cache
	w.seen, w.objects = gateway, generations
	changes.Gateway, changes.UID = gatewayapi.Translate(objects).For(gateway), gateway.UID
}

// attached returns the objects that belong to a Gateway, their generations, and up to which version they are.
func (w *watcher) attached(gateway *appv1.Gateway) (gatewayapi.Objects, map[types.UID]int64, []appv1.ProxiedResource) {
	objects := gatewayapi.AttachedTo(gateway)
	objects.Service = w.knownService
	generations := map[types.UID]int64{}
	var versions []appv1.ProxiedResource
	for namespace, watch := range w.namespaces {
		for resource := range watch.resources {
			version := ""
			for _, obj := range watch.objects(resource) {
				object := obj.(metav1.Object)
				generations[object.GetUID()] = object.GetGeneration()
				version = later(version, object.GetResourceVersion())
				objects.Add(obj)
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

// later returns the later of two resourceVersions. One that cannot be compared counts as none.
func later(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order >= 0 {
		return a
	}
	if _, err := resourceversion.CompareResourceVersion(b, b); err != nil {
		return a
	}
	return b
}

// knownService returns a Service; false: nobody knows, because its namespace is not watched.
func (w *watcher) knownService(namespace, name string) (*corev1.Service, bool) {
	watch := w.namespaces[namespace]
	if watch == nil || !watch.services.HasSynced() {
		return nil, false
	}
	return watch.service(name), true
}
