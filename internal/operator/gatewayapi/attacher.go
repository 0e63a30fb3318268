package gatewayapi

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/logging"
	"gateway/internal/operator/apply"
	"gateway/internal/operator/children"
	"gateway/internal/operator/safely"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
)

// attachers is how many places are attached at a time.
const attachers = 8

// These are the reasons of the conditions of a GatewayAttachment. A Gateway whose children cannot be made has others.
const (
	reasonBound       = "Bound"
	reasonTerminating = "NamespaceTerminating"
	reasonTooMany     = "TooMany"
)

// place is a namespace that has objects for one of our Gateways; "": all namespaces, for a Gateway that watches the
// cluster.
type place struct {
	gateway   types.NamespacedName
	namespace string
}

// attachmentName is the name of the GatewayAttachment.
func (p place) attachmentName() string { return p.gateway.Name + "." + p.namespace }

// bindingName is the name of the RoleBinding or ClusterRoleBinding.
func (p place) bindingName() string {
	return p.gateway.Namespace + "." + proxypod.ChildName(p.gateway.Name)
}

// placeOf returns the place of a RoleBinding or ClusterRoleBinding by its name.
func placeOf(binding metav1.Object) place {
	namespace, gateway, _ := strings.Cut(binding.GetName(), ".")
	return place{types.NamespacedName{Namespace: namespace, Name: strings.TrimSuffix(gateway, proxypod.ChildName(""))}, binding.GetNamespace()}
}

// wantedPlace is how a place has to be.
type wantedPlace struct {
	own  *appv1.Gateway
	spec appv1.GatewayAttachmentSpec
	// omitted says what the pods do not mount, "" if they mount everything.
	omitted string
	// isBound reports whether the agents need a RoleBinding there, and isOld whether this is all: agents of an earlier
	// release read the list in the status.
	isBound, isOld bool
}

// attacher makes RoleBindings and GatewayAttachments, several at a time and one Gateway after the other, so that a
// Gateway with many namespaces does not hold up another one. Agents get the permission before the GatewayAttachment
// names a namespace, and lose it after the GatewayAttachment is gone.
type attacher struct {
	Clients
	bindings, attachments cache.Store
	clusterBindings       cache.Store // nil: no Gateway may watch the cluster
	now                   func() time.Time
	queue                 workqueue.TypedRateLimitingInterface[place]

	mu sync.Mutex
	// wanted are all places; nil: unknown.
	wanted map[place]wantedPlace
}

func newAttacher(clients Clients, inputs *Inputs, now func() time.Time) *attacher {
	a := &attacher{
		Clients: clients, bindings: inputs.Bindings.GetStore(), attachments: inputs.Attachments.GetStore(), now: now,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[place](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[place]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[place]{Queue: workqueue.NewTypedWithConfig(
					workqueue.TypedQueueConfig[place]{Queue: &turns{waiting: map[types.NamespacedName][]place{}}})})}),
	}
	if inputs.ClusterBindings != nil {
		a.clusterBindings = inputs.ClusterBindings.GetStore()
	}
	return a
}

// set replaces the wanted places, and has all places looked at.
func (a *attacher) set(wanted map[place]wantedPlace) {
	a.mu.Lock()
	a.wanted = wanted
	a.mu.Unlock()
	for p := range wanted {
		a.queue.Add(p)
	}
	for _, obj := range a.attachments.List() {
		a.queue.Add(placeOfAttachment(obj.(*appv1.GatewayAttachment)))
	}
	for _, store := range []cache.Store{a.bindings, a.clusterBindings} {
		if store == nil {
			continue
		}
		for _, obj := range store.List() {
			a.queue.Add(placeOf(obj.(metav1.Object)))
		}
	}
}

func placeOfAttachment(attachment *appv1.GatewayAttachment) place {
	return place{types.NamespacedName{Namespace: attachment.Namespace, Name: attachment.Spec.GatewayName}, attachment.Spec.Namespace}
}

// changed has the places looked at that are in a namespace.
func (a *attacher) changed(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.wanted {
		if p.namespace == namespace {
			a.queue.Add(p)
		}
	}
}

// next waits for a place and makes it as it should be. It returns false once the queue is shut down.
func (a *attacher) next(ctx context.Context) (bool, error) {
	p, shutdown := a.queue.Get()
	if shutdown {
		return false, nil
	}
	defer a.queue.Done(p)
	err := safely.Within(ctx, syncTimeout, func(ctx context.Context) error { return a.sync(ctx, p) })
	switch {
	case err == nil:
		a.queue.Forget(p)
	case ctx.Err() == nil:
		if !children.OnlyOutdated(err) {
			logging.Errorf("Trying again later: failed to attach namespace %s to Gateway %s: %s", p.namespace, p.gateway, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		a.queue.AddRateLimited(p)
	}
	return true, err
}

// sync makes a place as it should be.
func (a *attacher) sync(ctx context.Context, p place) error {
	a.mu.Lock()
	isKnown := a.wanted != nil
	wanted, isWanted := a.wanted[p]
	a.mu.Unlock()
	switch {
	case !isKnown:
		return nil
	case isWanted && p.namespace == "":
		_, err := a.bind(ctx, p, wanted.own, false)
		return a.later(p, err)
	case isWanted && !wanted.isOld:
		return a.attach(ctx, p, &wanted)
	}
	if seen := a.attachment(p); seen != nil { // its end is an event, by which this goes on
		return a.remove(ctx, seen)
	}
	if isWanted {
		return nil
	}
	return a.unbind(ctx, p)
}

// attachment returns the GatewayAttachment of a place, nil if there is none.
func (a *attacher) attachment(p place) *appv1.GatewayAttachment {
	obj, ok, _ := a.attachments.GetByKey(p.gateway.Namespace + "/" + p.attachmentName()) // reading the cache never fails
	if !ok {
		return nil
	}
	return obj.(*appv1.GatewayAttachment)
}

func (a *attacher) remove(ctx context.Context, seen *appv1.GatewayAttachment) error {
	err := a.Gateways.AppV1().GatewayAttachments(seen.Namespace).Delete(ctx, seen.Name, children.Unchanged(seen))
	return children.Failed(err, "delete GatewayAttachment", nameOf(seen))
}

// attach makes the RoleBinding and the GatewayAttachment of a place. What agents were told stays while a RoleBinding
// cannot be renewed, unless somebody else has one of its name.
func (a *attacher) attach(ctx context.Context, p place, wanted *wantedPlace) error {
	seen := a.attachment(p)
	if seen != nil && !metav1.IsControlledBy(seen, wanted.own) { // it is left over of an earlier Gateway of that name
		return a.remove(ctx, seen)
	}
	wasBound := seen != nil && meta.IsStatusConditionTrue(seen.Status.Conditions, appv1.ConditionBound)
	bound := metav1.Condition{Type: appv1.ConditionBound, Status: metav1.ConditionTrue, Reason: reasonBound}
	var failed error
	if wanted.isBound {
		isBound, err := a.bind(ctx, p, wanted.own, seen != nil && !wasBound)
		failure := children.Failure(err)
		if errors.Is(err, children.ErrNamespaceGone) {
			failure = &status.ChildFailure{Reason: reasonTerminating, Message: err.Error()}
		}
		switch {
		case failure != nil && (!wasBound || failure.Reason == status.ReasonChildNotOwned):
			bound.Status, bound.Reason, bound.Message = metav1.ConditionFalse, failure.Reason, failure.Message
		case !isBound && !wasBound: // the RoleBinding is an event, by which this goes on
			return err
		}
		failed = a.later(p, err)
	}
	err := a.write(ctx, p, wanted, seen, bound)
	if err == nil && !wanted.isBound {
		err = a.unbind(ctx, p)
	}
	return errors.Join(failed, err)
}

// later returns an error of a RoleBinding if it is enough to try again. If somebody has to act, it looks again later.
func (a *attacher) later(p place, err error) error {
	if children.Failure(err) == nil && !errors.Is(err, children.ErrNamespaceGone) {
		return err
	}
	if p.namespace == "" { // there is no condition
		logging.Errorf("Gateway %s cannot watch the cluster: %v", p.gateway, err)
	}
	a.queue.AddAfter(p, lastRetry)
	return nil
}

// write writes the GatewayAttachment of a place if it differs.
func (a *attacher) write(ctx context.Context, p place, wanted *wantedPlace, seen *appv1.GatewayAttachment, bound metav1.Condition) error {
	conditions := []metav1.Condition{bound}
	if wanted.omitted != "" {
		conditions = append(conditions, metav1.Condition{
			Type: appv1.ConditionMounted, Status: metav1.ConditionFalse, Reason: reasonTooMany, Message: wanted.omitted,
		})
	}
	desired := applyappv1.GatewayAttachment(p.attachmentName(), p.gateway.Namespace)
	for i := range conditions {
		c := &conditions[i]
		c.LastTransitionTime = metav1.NewTime(a.now().Truncate(time.Second))
		if seen == nil {
			continue
		}
		if old := meta.FindStatusCondition(seen.Status.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	status := appv1.GatewayAttachmentStatus{Conditions: conditions}
	labels := map[string]string{proxypod.LabelGateway: p.gateway.Name, proxypod.LabelManagedBy: proxypod.FieldManager}
	if seen != nil {
		if equality.Semantic.DeepEqual(seen.Spec, wanted.spec) && equality.Semantic.DeepEqual(seen.Status, status) && maps.Equal(seen.Labels, labels) {
			return nil
		}
		desired.WithResourceVersion(seen.ResourceVersion).WithUID(seen.UID)
	} else {
		desired.WithResourceVersion(children.Unwritten)
	}
	desired.WithLabels(labels).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(appv1.SchemeGroupVersion.String()).WithKind("Gateway").
			WithName(p.gateway.Name).WithUID(wanted.own.UID).WithController(true)).
		WithSpec(apply.From[applyappv1.GatewayAttachmentSpecApplyConfiguration](wanted.spec)).
		WithStatus(apply.From[applyappv1.GatewayAttachmentStatusApplyConfiguration](status))
	if bound.Status == metav1.ConditionFalse {
		logging.Errorf("Namespace %s is not served by Gateway %s: %s", p.namespace, p.gateway, bound.Message)
	}
	_, err := a.Gateways.AppV1().GatewayAttachments(p.gateway.Namespace).Apply(ctx, desired, force)
	return children.Failed(err, "apply GatewayAttachment", types.NamespacedName{Namespace: p.gateway.Namespace, Name: p.attachmentName()})
}

// turns are places that wait. Gateways take turns.
type turns struct {
	gateways []types.NamespacedName
	waiting  map[types.NamespacedName][]place
	n        int
}

func (t *turns) Touch(place) {}

func (t *turns) Len() int { return t.n }

func (t *turns) Push(p place) {
	if len(t.waiting[p.gateway]) == 0 {
		t.gateways = append(t.gateways, p.gateway)
	}
	t.waiting[p.gateway] = append(t.waiting[p.gateway], p)
	t.n++
}

func (t *turns) Pop() place {
	gateway := t.gateways[0]
	t.gateways, t.n = t.gateways[1:], t.n-1
	p := t.waiting[gateway][0]
	if rest := t.waiting[gateway][1:]; len(rest) > 0 {
		t.waiting[gateway], t.gateways = rest, append(t.gateways, gateway)
	} else {
		delete(t.waiting, gateway)
	}
	return p
}
