package agent

import (
	"context"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/logging"
)

const (
	// startsAtOnce is how many lists and watches of a resource the API server may not have answered. All pods of a Gateway
	// are one user for it, and it refuses requests of a user who has hundreds of them.
	startsAtOnce = 4
	// silence is how long a watch may bring nothing, not even one of the bookmarks that the API server sends each minute,
	// and how long a request may have no answer.
	silence = 3 * time.Minute
)

// place is a resource in a namespace; "": in all.
type place struct{ resource, namespace string }

// watchOf returns the watch of a place, which runs.
func (w *watcher) watchOf(resource, namespace, name string) *watched {
	of := w.watches[place{resource, namespace}]
	if of == nil {
		of = w.newWatched(resource, namespace, name)
		w.watches[place{resource, namespace}] = of
		w.start(of)
	}
	return of
}

// sourceOf returns the watch that the objects of a share should come from. If this pod may not watch all namespaces,
// the watch of the share's own namespace serves until it may: a Reflector asks again about once a minute.
func (w *watcher) sourceOf(s *share) *watched {
	if w.isCluster && s.name == "" {
		if all := w.watchOf(s.resource, "", ""); all.refusals < manyRefusals {
			return all
		}
	}
	return w.watchOf(s.resource, s.n.namespace, s.name)
}

// chooseSources has each share use the watch that it should use, once that one has seen as much as the one before, and
// ends watches that nobody uses. So objects that count go on counting.
func (w *watcher) chooseSources() {
	used := map[*watched]bool{w.gateways: true, w.attachments: true, w.bundles: true}
	for _, n := range w.namespaces {
		for _, share := range n.shares {
			of := w.sourceOf(share)
			switch {
			case of == share.of:
			case !share.of.isListed || of.isListed && of.version >= share.noted:
				share.use(of)
			default:
				w.isNews = true // it is looked at again
			}
			used[of], used[share.of] = true, true
		}
	}
	for place, of := range w.watches {
		if isRetried := w.isCluster && place.namespace == ""; !used[of] && !isRetried {
			of.stop()
			delete(w.watches, place)
		}
	}
}

// mayReadCluster reports whether this pod may watch all namespaces.
func (w *watcher) mayReadCluster() bool {
	services := w.watches[place{resourceServices, ""}]
	return services != nil && services.isListed
}

// mode returns how the pod watches.
func (w *watcher) mode() appv1.WatchMode {
	for _, n := range w.namespaces {
		for _, share := range n.shares {
			if share.name == "" && (share.of.namespace != "" || share.of.refusals > 0) {
				return appv1.WatchNamespaces
			}
		}
	}
	return appv1.WatchCluster
}

// turn waits until the API server has answered earlier requests, and returns what to call after its answer. A resource
// that it does not answer for holds up no other, and a request without an answer ends after a while.
func (o *watched) turn(ctx context.Context, end context.CancelFunc) (func(), error) {
	select {
	case o.turns <- struct{}{}:
		o.w.mu.Lock()
		o.heard = o.w.clock.Now() // nothing comes while it is asked for, and during an outage it is asked for again
		o.w.mu.Unlock()
		unanswered := o.w.clock.AfterFunc(silence, end)
		return func() {
			unanswered.Stop()
			<-o.turns
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// began notes that the API server has begun to answer a watch, which end ends.
func (o *watched) began(end context.CancelFunc) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.end() // of the one before
	o.end, o.heard = end, o.w.clock.Now()
}

// endSilent ends watches that have brought nothing for long. Their Reflectors list all objects again.
func (w *watcher) endSilent() {
	now := w.clock.Now()
	if now.Sub(w.checked) < silence/20 {
		return
	}
	w.checked = now
	var ended []place
	for place, of := range w.watches {
		if of.isListed && now.Sub(of.heard) > silence {
			ended, of.heard = append(ended, place), now
			of.end()
		}
	}
	if silentWatches.Add(float64(len(ended))); len(ended) > 0 {
		logging.Warningf("Starting %d watches anew that brought nothing for %s, such as %+v", len(ended), silence, ended[0])
	}
}
