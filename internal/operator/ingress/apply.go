package ingress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"

	"gateway/internal/operator/children"
	source "gateway/internal/source/ingress"
)

// writers is how many objects are written at a time.
const writers = 4

// force takes over fields that we want, whoever set them last.
var force = metav1.ApplyOptions{FieldManager: fieldManager, Force: true}

// applied is what was applied of an object, and what it was then.
type applied struct {
	digest, resourceVersion string
	uid                     types.UID
	generation              int64
	created                 metav1.Time
	at                      time.Time
}

// refusal is what the API server has against an object.
type refusal struct{ digest, message string }

// apply makes all objects as they should be. Routes come last. Those of a namespace in which something they refer to
// could not be made stay as they are. So do those in which the caches do not show yet what was made: proxies would get
// routes before that.
func (c *Controller) apply(ctx context.Context, wanted *evaluation) error {
	var others, routes [][]*desired
	byHost := map[string]int{}
	for _, one := range wanted.objects {
		if one.family == "" {
			others = append(others, []*desired{one})
			continue
		}
		i, ok := byHost[one.host]
		if !ok {
			i, routes = len(routes), append(routes, nil)
			byHost[one.host] = i
		}
		routes[i] = append(routes[i], one)
	}
	c.blocked = map[string]bool{}
	err := each(others, func(group []*desired) error {
		one := group[0]
		err := c.applyOne(ctx, one, metav1.Time{})
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil && c.isSeen(one) {
			return nil
		}
		c.blocked[one.Namespace] = true
		c.blocked[metav1.NamespaceAll] = c.blocked[metav1.NamespaceAll] || isShared(one.Subject)
		return err
	})
	if c.blocked[metav1.NamespaceAll] {
		return err
	}
	return errors.Join(err, each(routes, func(group []*desired) error { return c.applyRoutes(ctx, group) }))
}

// each calls a function for all items, for several at a time, and joins the errors.
func each[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var working sync.WaitGroup
	for first := range writers {
		working.Go(func() {
			for i := first; i < len(items); i += writers {
				errs[i] = do(items[i])
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// isSeen reports whether the cache shows what was applied of an object, and the API server accepts it.
func (c *Controller) isSeen(one *desired) bool {
	cached := c.cached(one.Subject)
	return cached != nil && !c.isAhead(one.Subject, cached) && c.refused[one.Subject].digest != one.digest
}

// isAhead reports whether the cache has not seen what was applied last of an object.
func (c *Controller) isAhead(object source.Subject, cached *made) bool {
	last, ok := c.applied[object]
	return ok && c.now().Sub(last.at) < watchDelay && (cached == nil || isBehind(cached, last))
}

// cached returns an object that was made, nil if the cache has none.
func (c *Controller) cached(object source.Subject) *made {
	obj, ok, _ := c.made[object.Kind].GetStore().GetByKey(object.Namespace + "/" + object.Name) // it has no other error
	if !ok {
		return nil
	}
	return obj.(*made)
}

// applyRoutes applies the routes of a host, in order. Of routes of a family, earlier ones have to be older: that is the
// order of their rules. If somebody deletes one, those after it are made anew, too.
func (c *Controller) applyRoutes(ctx context.Context, routes []*desired) error {
	newest := map[string]metav1.Time{}
	var errs []error
	for _, one := range routes {
		if c.blocked[one.Namespace] {
			continue
		}
		family := one.Namespace + " " + one.family
		after := newest[family]
		errs = append(errs, c.applyOne(ctx, one, after))
		if made := c.lastApplied(one.Subject); made.created.After(after.Time) {
			newest[family] = made.created
		}
	}
	return errors.Join(errs...)
}

// lastApplied returns what an object is, as far as known.
func (c *Controller) lastApplied(object source.Subject) applied {
	cached := c.cached(object)
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.applied[object]
	if cached != nil && (!ok || !isBehind(cached, last)) {
		return applied{resourceVersion: cached.ResourceVersion, uid: cached.UID, generation: cached.Generation, created: cached.CreationTimestamp}
	}
	return last
}

// isBehind reports whether the cache has not seen what was applied last.
func isBehind(cached *made, last applied) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, last.resourceVersion)
	return err == nil && order < 0
}

// applyOne makes an object as it should be, with a name that is free or ours. It is made anew if it is older than
// after.
func (c *Controller) applyOne(ctx context.Context, one *desired, after metav1.Time) error {
	cached := c.cached(one.Subject)
	c.mu.Lock()
	last, refused, behind := c.applied[one.Subject], c.refused[one.Subject], c.isAhead(one.Subject, cached)
	c.mu.Unlock()
	client := c.dynamic.Resource(resources[one.Kind]).Namespace(one.Namespace)
	switch {
	case behind && last.digest == one.digest, refused.digest == one.digest:
		return nil
	case behind:
		return fmt.Errorf("failed to apply %s: %w", one, children.ErrOutdated)
	case cached != nil && cached.CreationTimestamp.Before(&after):
		if err := c.delete(ctx, client, one.Subject, cached); err != nil {
			return err
		}
		cached = nil
	case cached != nil && isCurrent(cached, one, last):
		return nil
	}
	body := one.body.DeepCopy()
	body.SetResourceVersion(children.Unwritten)
	if cached != nil {
		body.SetResourceVersion(cached.ResourceVersion)
		body.SetUID(cached.UID)
	}
	object, err := client.Apply(ctx, one.Name, body, force)
	if apierrors.IsConflict(err) && cached == nil {
		err = c.findOwner(ctx, client, one.Subject, err)
	}
	return c.note(one, object, err)
}

// isCurrent reports whether an object is as it was applied, and that is what is desired. If nobody else has written its
// fields, the digest tells. Otherwise it has to be of the same generation.
func isCurrent(cached *made, one *desired, last applied) bool {
	return cached.Annotations[annotationDigest] == one.digest && cached.Labels[LabelClass] == one.class.Name &&
		(cached.unshared || last.digest == one.digest && last.uid == cached.UID && last.generation == cached.Generation)
}

// findOwner notes that a name is taken if the object with it is not ours. Then another name has to be found.
func (c *Controller) findOwner(ctx context.Context, client dynamic.ResourceInterface, object source.Subject, conflict error) error {
	found, err := client.Get(ctx, object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return conflict
	case err != nil:
		return fmt.Errorf("failed to get %s: %w", object, err)
	case found.GetLabels()[LabelClass] == "":
		c.mu.Lock()
		c.taken[object] = true
		c.mu.Unlock()
	}
	return conflict
}

// note notes what became of an apply, and returns an error if it has to be tried again.
func (c *Controller) note(one *desired, object *unstructured.Unstructured, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.applied[one.Subject] = applied{
			one.digest, object.GetResourceVersion(), object.GetUID(), object.GetGeneration(), object.GetCreationTimestamp(), c.now(),
		}
		c.queue.AddAfter(everything, watchDelay)
		return nil
	case apierrors.IsConflict(err):
		err = children.ErrOutdated
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // its namespace is gone, with the Ingress
	case apierrors.IsInvalid(err):
		c.refused[one.Subject] = refusal{one.digest, err.Error()}
		return nil
	}
	return fmt.Errorf("failed to apply %s: %w", one, err)
}

// delete deletes an object that was made, unless it has changed meanwhile.
func (c *Controller) delete(ctx context.Context, client dynamic.ResourceInterface, object source.Subject, seen *made) error {
	err := client.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		c.mu.Lock()
		delete(c.applied, object)
		c.mu.Unlock()
		return nil
	case apierrors.IsConflict(err):
		err = children.ErrOutdated
	}
	return fmt.Errorf("failed to delete %s: %w", object, err)
}

// cleanUp deletes what no Ingress needs any more: routes at once, and other objects after some time.
func (c *Controller) cleanUp(ctx context.Context, wanted *evaluation) error {
	type unwanted struct {
		source.Subject
		seen *made
	}
	var all []unwanted
	unneeded, now := map[source.Subject]time.Time{}, c.now()
	for _, kind := range slices.Sorted(maps.Keys(c.made)) {
		for _, object := range list[*made](c.made[kind]) {
			subject := source.Subject{Kind: kind, Namespace: object.Namespace, Name: object.Name}
			switch {
			case wanted.byName[subject] != nil, object.DeletionTimestamp != nil, wanted.waiting[object.Labels[LabelClass]] != "":
				continue
			case c.unneeded[subject].IsZero():
				unneeded[subject] = now
			default:
				unneeded[subject] = c.unneeded[subject]
			}
			left := settling - now.Sub(unneeded[subject])
			switch {
			case c.blocked[object.Namespace], c.blocked[metav1.NamespaceAll]:
			case object.hostnames == nil && left > 0:
				c.queue.AddAfter(everything, left)
			default:
				all = append(all, unwanted{subject, object})
			}
		}
	}
	c.unneeded = unneeded
	return each(all, func(one unwanted) error {
		return c.delete(ctx, c.dynamic.Resource(resources[one.Kind]).Namespace(one.Namespace), one.Subject, one.seen)
	})
}
