package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/children"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// task is an object to look at: either it changed, or its status may have to be written.
type task struct {
	source.Object
	changed bool
}

// rebuild is to look at everything: after a failure, or when another kind is listed, or is not in time.
var rebuild = task{changed: true}

// handle notes which objects of a kind change.
func (c *Controller) handle(kind string, informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.changed(kind, nil, obj) },
		UpdateFunc: func(old, new any) { c.changed(kind, old, new) },
		DeleteFunc: func(obj any) { c.changed(kind, obj, nil) },
	})
	if err != nil {
		return fmt.Errorf("failed to watch for changes: %w", err)
	}
	return nil
}

// changed takes in that an object is another one; nil: there was none, or is none any more. Where nothing that matters
// changed, its status is looked at with the next objects that did: the Controller writes it, and another one may have.
func (c *Controller) changed(kind string, old, new any) {
	matters := old == nil || new == nil || differs(kind, old, new)
	before, _ := old.(metav1.Object)
	after, _ := new.(metav1.Object)
	for _, obj := range []any{old, new} {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		object, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		id := source.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		if slice, isSlice := object.(*discoveryv1.EndpointSlice); isSlice && !children.IsOwn(slice) {
			continue
		}
		switch kind {
		case kindProxies:
			id.Name = object.GetLabels()[proxypod.LabelGateway]
		case kindBinding:
			c.attacher.queue.Add(placeOf(object))
			continue
		case kindCluster:
			c.attacher.queue.Add(placeOf(object))
		case kindAttached:
			c.attacher.queue.Add(placeOfAttachment(object.(*appv1.GatewayAttachment)))
		case kindNamespace:
			c.attacher.changed(object.GetName())
		}
		if kind == source.KindOwn && before != nil && after != nil && before.GetResourceVersion() == after.GetResourceVersion() {
			c.queue.Add(rebuild) // a resync
		}
		if matters {
			c.noteArrival(id, before, after)
			c.queue.Add(task{id, true})
			continue
		}
		c.mu.Lock()
		c.quiet[id] = true
		c.mu.Unlock()
	}
}

// arrival is the version by which a generation of an object arrived.
type arrival struct {
	uid        types.UID
	generation int64
	version    string
}

// noteArrival notes by which version the newest generation of an object arrived; nil: there was none, or is none any
// more. By the time that the object is looked at, the caches may have it with a later status, which no agent reports.
func (c *Controller) noteArrival(id source.Object, old, new metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case new == nil:
		delete(c.arrived, id)
	case resourceOfKind(id.Kind) != "" && (old == nil || old.GetUID() != new.GetUID() || old.GetGeneration() != new.GetGeneration()):
		c.arrived[id] = arrival{new.GetUID(), new.GetGeneration(), new.GetResourceVersion()}
	}
}

// takeArrival returns the version by which a generation of an object arrived, once; "": unknown.
func (c *Controller) takeArrival(id source.Object, object metav1.Object) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	arrived := c.arrived[id]
	if arrived.uid != object.GetUID() || arrived.generation != object.GetGeneration() {
		return ""
	}
	delete(c.arrived, id)
	return arrived.version
}

// differs reports whether an object differs in what statuses and data planes depend on.
func differs(kind string, old, new any) bool {
	switch kind {
	case kindService, kindProxies, kindCluster:
		return true
	case kindNamespace:
		return !maps.Equal(old.(metav1.Object).GetLabels(), new.(metav1.Object).GetLabels())
	case source.KindOwn:
		before, ok := old.(*appv1.Gateway)
		after, isOwn := new.(*appv1.Gateway)
		return !ok || !isOwn || isNew(before, after) || isOtherOwn(before, after)
	}
	return isNew(old, new)
}

// isNew reports whether an object changed in more than its status, which the Controller writes.
func isNew(old, new any) bool {
	before, after := old.(metav1.Object), new.(metav1.Object)
	return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() || after.GetDeletionTimestamp() != nil ||
		source.ForNamespace(before) != source.ForNamespace(after)
}

// isOtherOwn reports whether a Gateway of our own has another owner, or another status in what matters here.
func isOtherOwn(before, after *appv1.Gateway) bool {
	programmed := func(own *appv1.Gateway) *metav1.Condition {
		return meta.FindStatusCondition(own.Status.Conditions, appv1.ConditionProgrammed)
	}
	return isOtherOwner(before, after) ||
		(before.Status.Attachments == nil) != (after.Status.Attachments == nil) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) ||
		!equality.Semantic.DeepEqual(programmed(before), programmed(after))
}

// isOtherOwner reports whether a Gateway of our own was made anew, or belongs to another owner.
func isOtherOwner(before, after *appv1.Gateway) bool {
	return before.UID != after.UID || !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// drain returns a task and all others that wait.
func (c *Controller) drain(first task) []task {
	tasks := []task{first}
	for c.queue.Len() > 0 { // nobody else takes any
		next, _ := c.queue.Get()
		tasks = append(tasks, next)
	}
	return tasks
}

// takeQuiet returns the objects whose status has to be looked at.
func (c *Controller) takeQuiet() map[source.Object]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	quiet := c.quiet
	c.quiet = map[source.Object]bool{}
	return quiet
}

// change takes in the objects that changed since the last sync, and notes in seen which statuses have to be looked at.
// It reports whether it could: other changes may matter to any object.
func (c *Controller) change(seen *observed, tasks []task) bool {
	for _, task := range tasks {
		seen.look[task.Object] = true
	}
	for id := range seen.look {
		// Of another generation, a task tells.
		if object := c.object(id); object != nil && c.versions[id].of(object) {
			c.noteVersion(id, object)
			c.index.Renew(id, object)
		}
	}
	return !slices.ContainsFunc(tasks, func(task task) bool { return task.changed && !c.changeOne(seen, task.Object) })
}

// object returns an object with a status, or one that objects wait for, as the caches have it; nil: there is none.
func (c *Controller) object(id source.Object) metav1.Object {
	informer := c.informer(resourceOf[id.Kind])
	switch id.Kind {
	case kindPolicy:
		informer = c.inputs.Policies.Informer()
	case kindFilter:
		informer = c.inputs.Filters.Informer()
	case kindAttached:
		informer = c.inputs.Attachments
	}
	if informer == nil {
		return nil
	}
	obj, _, _ := informer.GetStore().GetByKey(cache.NewObjectName(id.Namespace, id.Name).String()) // which never fails
	object, _ := obj.(metav1.Object)
	return object
}

func (c *Controller) changeOne(seen *observed, id source.Object) bool {
	switch id.Kind {
	case "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "ListenerSet", kindFilter, "BackendTLSPolicy", "ReferenceGrant", kindPolicy:
		object := c.object(id)
		c.noteVersion(id, object)
		return c.index.Change(id, object) && len(seen.newOwn(object)) == 0
	case kindService, kindImport: // the index knows
		return true
	case "Gateway", "XTelemetryPolicy":
		object := c.object(id)
		c.noteVersion(id, object)
		return c.index.Change(id, object)
	case kindProxies:
		return c.changeLive(seen, id)
	case kindAttached:
		return c.changeAttachment(seen, id)
	case kindCluster:
		seen.otherBindings = true
		return true
	case kindNamespace:
		c.index.ChangeNamespace(id.Name, c.labelsOf(id.Name))
		return true
	case kindConfig:
		return c.index.Change(id, nil) // it asks for it
	case source.KindOwn:
		return c.changeOwn(seen, id)
	case kindLate:
		own := c.ownGateway(id.Namespace, id.Name)
		return own == nil || !seen.late[parentOfOwn(own)]
	}
	return false
}

// labelsOf returns the labels of a namespace, nil if there is none.
func (c *Controller) labelsOf(namespace string) labels.Set {
	obj, ok, _ := c.inputs.Namespaces.GetStore().GetByKey(namespace) // which never fails
	if !ok {
		return nil
	}
	return labels.Merge(nil, obj.(metav1.Object).GetLabels()) // which is not nil
}

// changeLive takes in what the proxies of one of our Gateways run by now. Objects that waited for them are looked at,
// and those that depend on what the proxies report. The caches may have another Gateway before its task comes: if it
// is not Programmed any more, everything is looked at a moment later: the status of all that belongs to it changes.
func (c *Controller) changeLive(seen *observed, id source.Object) bool {
	own := c.ownGateway(id.Namespace, id.Name)
	if own == nil {
		return true
	}
	seen.otherBindings = seen.otherBindings || own.Status.Attachments != nil // its pods may not need the list any more
	for _, parent := range []source.Parent{source.OwnParent(id.Namespace, id.Name), parentOfOwn(own)} {
		was := seen.own[parent]
		if was == nil {
			continue
		}
		wasLive, _, _ := seen.Plane(parent)
		before, watch := seen.live[parent], seen.watch[parent]
		if err := seen.addLive(parent, own); err != nil || before.Omitted != seen.live[parent].Omitted || isOtherOwner(was, own) {
			return false
		}
		isLive, _, _ := seen.Plane(parent)
		if wasLive && !isLive {
			c.queue.AddAfter(task{source.Object{Kind: kindLate, Namespace: id.Namespace, Name: id.Name}, true}, pendingDelay/2)
		}
		seen.late[parent] = !isLive && (wasLive || seen.late[parent])
		seen.otherBindings = seen.otherBindings || watch != seen.watch[parent]
		maps.Copy(seen.look, seen.waiting[parent])
		delete(seen.waiting, parent)
		if slices.Equal(before.Problems, seen.live[parent].Problems) {
			continue
		}
		for _, problem := range slices.Concat(before.Problems, seen.live[parent].Problems) {
			c.index.ChangeReported(parent.Namespace, problem.Origin.Name)
		}
	}
	return true
}

// changeOwn takes in that one of our Gateways is another one. Mostly its proxies run it at once.
func (c *Controller) changeOwn(seen *observed, id source.Object) bool {
	own := c.ownGateway(id.Namespace, id.Name)
	if !seen.names[cache.NewObjectName(id.Namespace, id.Name)] {
		return own == nil || !c.wasAttached(own) && proxypod.Parent(own) == ""
	}
	if own == nil || seen.own[source.OwnParent(id.Namespace, id.Name)] != nil { // routes name it
		return false
	}
	parent := parentOfOwn(own)
	if seen.own[parent] == nil || !c.changeLive(seen, id) {
		return false
	}
	maps.Copy(seen.look, seen.idle[parent])
	delete(seen.idle, parent)
	seen.look[source.Object{Kind: "Gateway", Namespace: parent.Namespace, Name: parent.Name}] = true
	seen.otherPlanes, seen.otherBindings = true, true
	return true
}
