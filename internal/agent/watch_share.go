package agent

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// filterWait is how long an edited route waits for a RouteFilter that it names, which comes over another watch.
const filterWait = 2 * time.Second

// namespaceShares is what is followed of a namespace, by resource. since is when its edits began to wait; zero: they do
// not.
type namespaceShares struct {
	namespace string
	shares    map[string]*share
	since     time.Time
}

// share is the followed part of a resource in a namespace.
type share struct {
	n *namespaceShares
	// name is the name of the one object that is followed; "": all are.
	resource, name string
	// watcher.mu guards what follows: the watch that the objects come from, and the names of those that changed since they
	// were taken in, with whether that is in more than their versions; of EndpointSlices, the names of their Services.
	// noted is the version up to which they are.
	of      *watched
	pending map[string]bool
	noted   uint64

	// Only the loop touches the following fields. taken are the objects that were taken in, up to a version, but for
	// EndpointSlices. guards are the resources that must be seen before they count, and counts reports whether they did
	// when they were looked at last. stopped reports whether they are not followed any more.
	taken           objects
	version         uint64
	guards          []*guard
	counts, stopped bool
}

// edit is a change that was taken in. now is the object; nil: it is gone, or this is about a Service. differs reports
// whether more than its version changed.
type edit struct {
	of      *share
	name    string
	now     metav1.Object
	differs bool
}

// isCore reports whether these are Services, ServiceImports or EndpointSlices.
func (s *share) isCore() bool { return s.areServices() || s.resource == resourceSlices }

// areServices reports whether these are Services or ServiceImports.
func (s *share) areServices() bool {
	return s.resource == resourceServices || s.resource == proxypod.ResourceImports
}

// use makes a watch the one that the objects come from, and notes what it knows better than the one before.
func (s *share) use(of *watched) {
	var before objects
	if s.of != nil {
		before = s.of.objects[s.n.namespace]
		delete(s.of.shares, s.n.namespace)
	}
	now := of.objects[s.n.namespace]
	s.of, of.shares[s.n.namespace] = of, s
	for name, object := range before {
		if now[name] == nil {
			s.note(name, object, nil, of.version)
		}
	}
	for name, object := range now {
		s.note(name, before[name], object, versionOf(object.GetResourceVersion()))
	}
}

// note notes that an object changed.
func (s *share) note(name string, before, now metav1.Object, version uint64) {
	differs := differ(before, now)
	s.noted = max(s.noted, version)
	s.of.w.edited[s.n] = true
	if s.resource != resourceSlices {
		s.pending[name] = s.pending[name] || differs
		return
	}
	for _, object := range []metav1.Object{before, now} { // it may have moved to another Service
		for _, service := range servicesOfSlice(object) {
			if differs {
				s.pending[service.Name] = true
			}
		}
	}
}

// removeOthers ends what is followed but these resources.
func (n *namespaceShares) removeOthers(resources map[string]string) {
	for resource, share := range n.shares {
		if _, ok := resources[resource]; !ok {
			delete(share.of.shares, n.namespace)
			share.stopped = true
			delete(n.shares, resource)
		}
	}
}

// updateCounts finds out whose objects count. If a namespace's Services become known, all is made anew.
func (w *watcher) updateCounts() {
	if !w.isNews {
		return
	}
	w.isNews = false
	w.chooseSources()
	for _, n := range w.namespaces {
		for _, share := range n.shares {
			counts := share.areSeen()
			if counts && !share.counts && !w.mayTake(n) {
				w.isNews = true // it is looked at again
				continue
			}
			if counts != share.counts {
				share.counts, w.isStale = counts, true
				if share.areServices() {
					w.index = nil
				}
			}
		}
	}
}

// areSeen reports whether the objects were listed once, and what has to be seen before they count was, too.
func (s *share) areSeen() bool { return s.of.isListed && !s.isGuarded() }

// takeIn takes in what changed, unless it has to wait.
func (w *watcher) takeIn() (taken []edit) {
	for n := range w.edited {
		isEarly := w.isEarly(n)
		waits := n.matters(isEarly) && !w.mayTake(n)
		for _, share := range n.shares {
			if isEarly && !share.isCore() || waits && share.resource != resourceSlices {
				continue
			}
			for name, differs := range share.pending {
				taken = append(taken, share.take(name, differs))
			}
			share.pending = map[string]bool{} // it was as large as the largest change
			share.version = share.noted
		}
		if !isEarly && !waits {
			delete(w.edited, n)
		}
	}
	return taken
}

// mayTake reports whether changes of a namespace may be taken in now, as far as reloads are concerned.
func (w *watcher) mayTake(n *namespaceShares) bool {
	return w.reloads == nil || w.reloads.take(n.namespace)
}

// matters reports whether anything changed that may take a reload: more than endpoints and statuses. isEarly reports
// whether it is about Services alone.
func (n *namespaceShares) matters(isEarly bool) bool {
	for _, share := range n.shares {
		if share.resource == resourceSlices || isEarly && !share.isCore() {
			continue
		}
		for _, differs := range share.pending {
			if differs {
				return true
			}
		}
	}
	return false
}

// take takes in an object.
func (s *share) take(name string, differs bool) edit {
	taken := edit{of: s, name: name, differs: differs}
	if s.resource == resourceSlices {
		return taken
	}
	taken.now = s.of.objects[s.n.namespace][name]
	if delete(s.taken, name); taken.now != nil {
		s.taken[name] = taken.now
	}
	return taken
}

// servicesOf returns the Services that changed, or whose EndpointSlices did, and whether they did themselves.
func servicesOf(edits []edit) map[types.NamespacedName]bool {
	services := map[types.NamespacedName]bool{}
	for _, edit := range edits {
		if edit.of.isCore() && edit.differs {
			service := types.NamespacedName{Namespace: edit.of.n.namespace, Name: edit.name}
			if edit.of.resource == proxypod.ResourceImports {
				service.Name = model.ServiceImport(edit.name)
			}
			services[service] = services[service] || edit.of.areServices()
		}
	}
	return services
}

// isEarly reports whether the edits of a namespace have to wait, because an edited route names a RouteFilter that has
// not arrived: without it, requests would get 500 that were served before. All edits wait, and not the route alone. So
// HAProxy runs what it would run if the watches were slower, and nothing is open that was closed: the route may take
// requests that another one refused, and a RouteFilter may be edited that the route had before.
func (w *watcher) isEarly(n *namespaceShares) bool {
	if !n.lacksFilter() {
		n.since = time.Time{}
		return false
	}
	if n.since.IsZero() {
		n.since = w.clock.Now()
		w.clock.AfterFunc(filterWait, w.changed)
	}
	if w.clock.Since(n.since) < filterWait {
		return true
	}
	n.since = time.Time{}
	return false
}

// lacksFilter reports whether an edited route names a RouteFilter which it did not name before, and which is not there.
func (n *namespaceShares) lacksFilter() bool {
	filters := n.shares[proxypod.ResourceFilters]
	if filters == nil || !filters.counts {
		return false
	}
	for _, share := range n.shares {
		for name, differs := range share.pending {
			if share.taken[name] == nil || !differs {
				continue
			}
			named := gatewayapi.FiltersOf(share.taken[name])
			for _, filter := range gatewayapi.FiltersOf(share.of.objects[n.namespace][name]) {
				if filters.of.objects[n.namespace][filter] == nil && !slices.Contains(named, filter) {
					return true
				}
			}
		}
	}
	return false
}
