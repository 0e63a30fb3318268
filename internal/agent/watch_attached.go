package agent

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// addAttached adds the changes of a Gateway that has objects of the Gateway API: services are those that were touched,
// taken what was taken in.
func (w *watcher) addAttached(gateway *appv1.Gateway, services map[types.NamespacedName]bool, taken map[objectKey]event, changes *Changes) {
	w.isStale = w.isStale || w.index == nil || w.seen == nil || gateway.UID != w.seen.UID || gateway.Generation != w.seen.Generation
	isNew := w.isStale
	for key, event := range taken {
		isNew = w.updateIndex(key, event) || isNew
	}
	if isNew {
		w.edits++
	}
	for service, differs := range services {
		if isNew = isNew || differs; differs && w.index != nil {
			w.index.ChangeService(service.Namespace, service.Name)
		}
	}
	changes.Versions = w.versions()
	if !isNew {
		return
	}
	if w.index == nil {
		w.index = gatewayapi.NewIndex(w.objects(gateway))
	} else if w.isStale {
		w.index.Replace(w.objects(gateway))
	}
	w.seen, w.isStale = gateway, false
	changes.Gateway, changes.UID = w.index.Result().For(gateway), gateway.UID
}

// updateCounts finds out whose objects count. If a namespace's Services become known, all is made anew.
func (w *watcher) updateCounts() {
	for _, watch := range w.namespaces {
		if watch.services.counts != watch.services.HasSynced() {
			watch.services.counts, w.index = true, nil
		}
		for _, of := range watch.resources {
			if counts := of.areSeen(); counts != of.counts {
				of.counts, w.isStale = counts, true
			}
		}
	}
}

// updateIndex takes in an event of an object. It reports whether the object is new, another one or gone, if it counts.
func (w *watcher) updateIndex(key objectKey, event event) bool {
	if !key.of.counts {
		return false
	}
	if w.index == nil || w.isStale {
		return event.differs
	}
	id := gatewayapi.Object{Kind: gatewayapi.KindOf(key.of.resource), Namespace: key.of.namespace, Name: key.name}
	switch {
	case !event.differs:
		w.index.Renew(id, event.object)
	case !w.index.Change(id, event.object):
		w.isStale = true
	}
	return event.differs
}

// versions returns up to which version the objects are, and the GatewayAttachments that are followed.
func (w *watcher) versions() Versions {
	var versions []appv1.ProxiedResource
	if version := w.attachments.version; version != "" {
		versions = append(versions, appv1.ProxiedResource{Resource: proxypod.ResourceAttachments, Namespace: w.namespace, ResourceVersion: version})
	}
	for namespace, watch := range w.namespaces {
		for resource, informer := range watch.resources {
			if !informer.counts || informer.newest == nil {
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
	return Versions{Exceptions: versions, Edits: w.edits}
}

// objects returns those that belong to a Gateway.
func (w *watcher) objects(gateway *appv1.Gateway) gatewayapi.Objects {
	objects := gatewayapi.AttachedTo(gateway, w.attachments.namespaces)
	objects.Service = w.knownService
	for _, watch := range w.namespaces {
		for _, of := range watch.resources {
			for _, object := range of.taken {
				if of.counts {
					objects.AddAttached(object)
				}
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
