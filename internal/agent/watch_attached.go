package agent

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// addAttached adds the changes of a Gateway that has objects of the Gateway API. services and objects are those that
// were touched.
func (w *watcher) addAttached(gateway *appv1.Gateway, services map[types.NamespacedName]bool, objects map[touchedObject]bool, changes *Changes) {
	w.isStale = w.isStale || w.index == nil || w.seen == nil || gateway.UID != w.seen.UID || gateway.Generation != w.seen.Generation ||
		!equality.Semantic.DeepEqual(gateway.Status.Attachments, w.seen.Status.Attachments)
	isNew := w.updateCounts() || w.isStale
	for touched, differs := range objects {
		isNew = w.updateObject(touched, differs) || isNew
	}
	for service, differs := range services {
		if isNew = isNew || differs; differs && w.index != nil {
			w.index.ChangeService(service.Namespace, service.Name)
		}
	}
	changes.Resources = w.versions()
	if !isNew {
		return
	}
	if w.index == nil {
		w.index = gatewayapi.NewIndex(w.attached(gateway))
	} else if w.isStale {
		w.index.Replace(w.attached(gateway))
	}
	w.seen, w.isStale = gateway, false
	changes.Gateway, changes.UID = w.index.Result().For(gateway), gateway.UID
}

// updateCounts finds out whose objects count, and reports whether that changed. If a namespace's Services become known,
// all is made anew.
func (w *watcher) updateCounts() (changed bool) {
	for _, watch := range w.namespaces {
		if watch.services.counts != watch.services.HasSynced() {
			watch.services.counts, w.index, changed = true, nil, true
		}
		for _, informer := range watch.resources {
			if counts := informer.areSeen(); counts != informer.counts {
				informer.counts, changed = counts, true
				informer.findNewest()
			}
		}
	}
	w.isStale = w.isStale || changed
	return changed
}

// updateObject takes in an object that may have changed. It reports whether it has, if it counts.
func (w *watcher) updateObject(touched touchedObject, differs bool) bool {
	watch := w.namespaces[touched.namespace]
	if watch == nil || watch.resources[touched.resource] == nil || !watch.resources[touched.resource].counts {
		return false
	}
	informer := watch.resources[touched.resource]
	found, ok, _ := informer.GetStore().GetByKey(touched.namespace + "/" + touched.name) // which never fails
	object, _ := found.(metav1.Object)
	informer.updateNewest(touched.name, object)
	if w.index == nil || w.isStale {
		return differs
	}
	id := gatewayapi.Object{Kind: gatewayapi.KindOf(touched.resource), Namespace: touched.namespace, Name: touched.name}
	switch {
	case !differs && ok:
		w.index.Renew(id, object)
	case !w.index.Change(id, object):
		w.isStale = true
	}
	return differs
}

// findNewest finds the object with the highest version.
func (w *watched) findNewest() {
	if w.newest = nil; !w.counts {
		return
	}
	for _, found := range w.GetStore().List() {
		if object := found.(metav1.Object); w.newest == nil || later(w.newest.GetResourceVersion(), object.GetResourceVersion()) != w.newest.GetResourceVersion() {
			w.newest = object
		}
	}
}

// updateNewest takes in an object that may have changed; nil: it is gone.
func (w *watched) updateNewest(name string, object metav1.Object) {
	if w.newest != nil && w.newest.GetName() == name && (object == nil || later(object.GetResourceVersion(), w.newest.GetResourceVersion()) != object.GetResourceVersion()) {
		w.findNewest()
	} else if object != nil && (w.newest == nil || later(w.newest.GetResourceVersion(), object.GetResourceVersion()) != w.newest.GetResourceVersion()) {
		w.newest = object
	}
}

// versions returns up to which version the objects are.
func (w *watcher) versions() []appv1.ProxiedResource {
	var versions []appv1.ProxiedResource
	for namespace, watch := range w.namespaces {
		for resource, informer := range watch.resources {
			if informer.newest == nil {
				continue
			}
			if version := later("", informer.newest.GetResourceVersion()); version != "" {
				versions = append(versions, appv1.ProxiedResource{Resource: resource, Namespace: namespace, ResourceVersion: version})
			}
		}
	}
	slices.SortFunc(versions, func(a, b appv1.ProxiedResource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
	})
	return versions
}

// attached returns the objects that belong to a Gateway.
func (w *watcher) attached(gateway *appv1.Gateway) gatewayapi.Objects {
	objects := gatewayapi.AttachedTo(gateway)
	objects.Service = w.knownService
	for _, watch := range w.namespaces {
		for resource := range watch.resources {
			for _, object := range watch.objects(resource) {
				objects.AddAttached(object)
			}
		}
	}
	return objects
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
