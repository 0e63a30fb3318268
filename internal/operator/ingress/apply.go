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
	networkingv1 "k8s.io/api/networking/v1"
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
	// class is the object's class, and home its Gateway or ListenerSet.
	class string
	home  source.Object
}

// refusal is the API server's error for an object.
type refusal struct{ digest, message string }

// scope is a class, or what is of it in a namespace.
type scope struct{ class, namespace string }

// isBlocked reports whether what is made of a class in a namespace stays as it is until the next sync.
func (c *Controller) isBlocked(class, namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked[scope{class: class}] || c.blocked[scope{class, namespace}]
}

// apply makes all objects as they should be: Gateways, then what routes refer to, then routes. What comes later stays
// as it is in a class whose Gateway could not be made, and in a namespace where something else could not. So it does
// while the caches do not show what was made: proxies would get it too late.
func (c *Controller) apply(ctx context.Context, wanted *evaluation) error {
	var others [][]*desired
	shared, routes := map[string][]*desired{}, map[string][]*desired{} // by class and by host
	for _, one := range wanted.objects {
		switch {
		case one.held:
		case isShared(one.Subject): // settings come before their Gateway
			shared[one.class.Name] = append(shared[one.class.Name], one)
		case one.family == "":
			others = append(others, []*desired{one})
		default:
			routes[one.host] = append(routes[one.host], one)
		}
	}
	c.blocked = map[scope]bool{}
	applyNext := func(groups [][]*desired) error {
		return each(groups, func(group []*desired) error { return c.applyGroup(ctx, group) })
	}
	return errors.Join(applyNext(slices.Collect(maps.Values(shared))), applyNext(others), applyNext(slices.Collect(maps.Values(routes))))
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return cached != nil && !c.isAhead(one.Subject, cached) && c.refused[one.Subject].digest != one.digest
}

// isAhead reports whether the cache has not seen what was applied last of an object. The caller holds c.mu.
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

// applyGroup applies the routes of a host, in order, or other objects. Of routes of a family, earlier ones have to be
// older: that is the order of their rules. If somebody deletes one, those after it are made anew, too.
func (c *Controller) applyGroup(ctx context.Context, group []*desired) error {
	newest := map[string]metav1.Time{}
	var errs []error
	for _, one := range group {
		if c.isBlocked(one.class.Name, one.Namespace) {
			continue
		}
		family := one.Namespace + " " + one.family
		after := newest[family]
		err := c.applyOne(ctx, one, after)
		errs = append(errs, err)
		if made := c.lastApplied(one.Subject); one.family != "" && made.created.After(after.Time) {
			newest[family] = made.created
		}
		if one.family == "" && (err != nil || !c.isSeen(one)) {
			c.block(one)
		}
	}
	return errors.Join(errs...)
}

// block lets what refers to an object stay as it is.
func (c *Controller) block(one *desired) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isShared(one.Subject) {
		c.blocked[scope{class: one.class.Name}] = true
	} else {
		c.blocked[scope{one.class.Name, one.Namespace}] = true
	}
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
	body := one.body()
	body.SetResourceVersion(children.Unwritten)
	if cached != nil {
		body.SetResourceVersion(cached.ResourceVersion)
		body.SetUID(cached.UID)
	}
	object, err := client.Apply(ctx, one.Name, body, force)
	if apierrors.IsConflict(err) && cached == nil {
		err = c.findOwner(ctx, client, one, err)
	}
	return c.note(one, object, err)
}

// isCurrent reports whether an object is as it was applied, and that is what is desired. If nobody else has written its
// fields, the digest tells. Otherwise it has to be of the same generation.
func isCurrent(cached *made, one *desired, last applied) bool {
	return cached.Annotations[source.AnnotationApplied] == one.digest && cached.Labels[source.LabelClass] == one.class.Name &&
		(cached.unshared || last.digest == one.digest && last.uid == cached.UID && last.generation == cached.Generation)
}

// findOwner notes that a name is taken if the object with it is not ours. Then another name has to be found, unless the
// object was ours, and was adopted just now.
func (c *Controller) findOwner(ctx context.Context, client dynamic.ResourceInterface, one *desired, conflict error) error {
	found, err := client.Get(ctx, one.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && found.GetLabels()[source.LabelClass] != "" {
		return conflict
	}
	var class *networkingv1.IngressClass
	if err == nil {
		class, err = c.kube.NetworkingV1().IngressClasses().Get(ctx, one.class.Name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return conflict
	case err != nil:
		return fmt.Errorf("failed to find out whose %s is: %w", one, err)
	case !isAdopted(class):
		c.mu.Lock()
		c.taken[one.Subject] = true
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
		last := applied{
			digest: one.digest, resourceVersion: object.GetResourceVersion(), uid: object.GetUID(), generation: object.GetGeneration(),
			created: object.GetCreationTimestamp(), at: c.now(), class: one.class.Name,
		}
		if one.Kind == "Gateway" || one.Kind == "ListenerSet" {
			last.home = one.object
		}
		c.applied[one.Subject] = last
		c.queue.AddAfter(everything, watchDelay)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // its namespace is gone, with the Ingress
	case apierrors.IsInvalid(err):
		c.refused[one.Subject] = refusal{one.digest, err.Error()}
		return nil
	}
	return children.Failed(err, "apply", one)
}

// delete deletes an object that was made, unless it has changed meanwhile.
func (c *Controller) delete(ctx context.Context, client dynamic.ResourceInterface, object source.Subject, seen *made) error {
	err := client.Delete(ctx, object.Name, children.Unchanged(seen))
	if err == nil || apierrors.IsNotFound(err) {
		c.mu.Lock()
		delete(c.applied, object)
		c.mu.Unlock()
	}
	return children.Failed(err, "delete", object)
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
			case wanted.byName[subject] != nil, object.DeletionTimestamp != nil, wanted.waiting[object.Labels[source.LabelClass]] != "":
				continue
			case slices.ContainsFunc(wanted.faulty, func(f fault) bool { return f.keeps(object) }):
				continue
			case c.unneeded[subject].IsZero():
				unneeded[subject] = now
			default:
				unneeded[subject] = c.unneeded[subject]
			}
			left := settling - now.Sub(unneeded[subject])
			switch {
			case c.isBlocked(object.Labels[source.LabelClass], object.Namespace):
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
