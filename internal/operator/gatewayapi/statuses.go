package gatewayapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/logging"
	"gateway/internal/model"
	"gateway/internal/operator/safely"
	source "gateway/internal/source/gatewayapi"
)

// write writes the status of an object as it was seen, and returns what it is then.
type write struct {
	object metav1.Object
	do     func(ctx context.Context) (written, error)
}

// changing is what differs in an object that is written again with the same status.
var changing = regexp.MustCompile(`"(lastTransitionTime|resourceVersion)":"[^"]*"`)

// digestOf is the same for an object with the same status and generation.
func digestOf(object metav1.Object) [sha256.Size]byte {
	content, err := json.Marshal(object)
	utilruntime.Must(err) // objects of the API are made to be marshalled
	return sha256.Sum256(changing.ReplaceAll(content, nil))
}

// futile is a status that the API server refused, or took without a change of this version of the object; "": of any.
type futile struct {
	digest          [sha256.Size]byte
	resourceVersion string
}

// isSame reports whether writing a status would be futile again.
func (f futile) isSame(object metav1.Object) bool {
	return (f.resourceVersion == "" || f.resourceVersion == object.GetResourceVersion()) && f.digest == digestOf(object)
}

// written is the resourceVersion of an object whose status was written.
type written struct {
	uid             types.UID
	resourceVersion string
}

// updater is the part of a typed client for one namespace that is used here.
type updater[T metav1.Object] interface {
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// writeStatuses queues the statuses that differ from the wanted ones.
func (c *Controller) writeStatuses(evaluated *evaluation) {
	now := metav1.NewTime(c.now())
	for id := range evaluated.objects {
		if version := c.versions[id]; version != nil {
			c.writeStatus(id, version.object, &evaluated.status, now)
		}
	}
}

// writeStatus queues the status of an object if it differs from the wanted one.
func (c *Controller) writeStatus(id source.Object, object metav1.Object, wanted *source.Status, now metav1.Time) {
	api := c.Routes.GatewayV1()
	switch before := object.(type) {
	case *gatewayv1.GatewayClass:
		if status, ours := wanted.Classes[id.Name]; ours {
			copied := before.DeepCopy()
			merge(&copied.Status.Conditions, status.Conditions, now)
			update(c, id, copied, !equality.Semantic.DeepEqual(copied.Status, before.Status), 0, api.GatewayClasses())
		}
	case *gatewayv1.Gateway:
		if status, ours := wanted.Gateways[nameOf(before)]; ours {
			copied := before.DeepCopy()
			setGateway(&copied.Status, status, now)
			changed := !equality.Semantic.DeepEqual(copied.Status, before.Status)
			update(c, id, copied, changed, c.countDelay(id, changed && onlyCountsDiffer(before, copied)), api.Gateways(id.Namespace))
		}
	case *gatewayv1.ListenerSet:
		if status, ours := wanted.ListenerSets[nameOf(before)]; ours {
			copied := before.DeepCopy()
			setListenerSet(&copied.Status, status, now)
			update(c, id, copied, !equality.Semantic.DeepEqual(copied.Status, before.Status), delayOf(status.Conditions), api.ListenerSets(id.Namespace))
		}
	case *gatewayv1.BackendTLSPolicy:
		copied := *before
		changed := gatewayAncestors.set(&copied.Status.Ancestors, wanted.Policies[nameOf(before)], now)
		update(c, id, &copied, changed, 0, api.BackendTLSPolicies(id.Namespace))
	case *v1alpha1.XTelemetryPolicy:
		copied := *before
		changed := gatewayAncestors.set(&copied.Status.Ancestors, wanted.Telemetry[nameOf(before)], now)
		update(c, id, &copied, changed, 0, c.Routes.ExperimentalV1alpha1().XTelemetryPolicies(id.Namespace))
	case *appv1.BackendPolicy:
		copied := *before
		changed := ancestors.set(&copied.Status.Ancestors, wanted.BackendPolicies[nameOf(before)], now)
		update(c, id, &copied, changed, 0, c.Gateways.AppV1().BackendPolicies(id.Namespace))
	default:
		c.writeRoute(id, object, wanted.Routes[id], now)
	}
}

// writeRoute is writeStatus for a route.
func (c *Controller) writeRoute(id source.Object, object metav1.Object, wanted []gatewayv1.RouteParentStatus, now metav1.Time) {
	api := c.Routes.GatewayV1()
	switch before := object.(type) {
	case *gatewayv1.HTTPRoute:
		copied := *before
		updateRoute(c, id, &copied, &copied.Status.RouteStatus, wanted, now, api.HTTPRoutes(id.Namespace))
	case *gatewayv1.GRPCRoute:
		copied := *before
		updateRoute(c, id, &copied, &copied.Status.RouteStatus, wanted, now, api.GRPCRoutes(id.Namespace))
	case *gatewayv1.TLSRoute:
		copied := *before
		updateRoute(c, id, &copied, &copied.Status.RouteStatus, wanted, now, api.TLSRoutes(id.Namespace))
	case *gatewayv1.TCPRoute:
		copied := *before
		updateRoute(c, id, &copied, &copied.Status.RouteStatus, wanted, now, api.TCPRoutes(id.Namespace))
	case *gatewayv1.UDPRoute:
		copied := *before
		updateRoute(c, id, &copied, &copied.Status.RouteStatus, wanted, now, api.UDPRoutes(id.Namespace))
	}
}

// updateRoute queues the status of a route if it changes. copied is a copy of the route, and status points into it.
func updateRoute[T metav1.Object](
	c *Controller, id source.Object, copied T, status *gatewayv1.RouteStatus, wanted []gatewayv1.RouteParentStatus, now metav1.Time, client updater[T],
) {
	changed := parents.set(&status.Parents, wanted, now)
	var delay time.Duration
	for i := range wanted {
		delay = max(delay, delayOf(wanted[i].Conditions))
	}
	update(c, id, copied, changed, delay, client)
}

// delayOf returns how long a status waits that says that proxies do not run an object yet, and that nothing else is
// wrong.
func delayOf(conditions []metav1.Condition) time.Duration {
	programmed := meta.FindStatusCondition(conditions, "Programmed")
	if programmed != nil && programmed.Reason == string(gatewayv1.GatewayReasonPending) {
		return pendingDelay
	}
	return 0
}

// countDelay returns how long a Gateway's status waits that only counts what is attached: a count that follows another
// one waits until countInterval is over, so that thousands of routes at once are not as many writes.
func (c *Controller) countDelay(id source.Object, onlyCounts bool) time.Duration {
	version := c.versions[id]
	if rest := version.counted.Add(countInterval).Sub(c.now()); onlyCounts && rest > 0 {
		return rest
	}
	if onlyCounts {
		version.counted = c.now()
	}
	return 0
}

// onlyCountsDiffer reports whether statuses are the same, but for counts of attached objects.
func onlyCountsDiffer(before, after *gatewayv1.Gateway) bool {
	recounted := before.Status.DeepCopy()
	recounted.AttachedListenerSets = after.Status.AttachedListenerSets
	for i := range min(len(recounted.Listeners), len(after.Status.Listeners)) {
		recounted.Listeners[i].AttachedRoutes = after.Status.Listeners[i].AttachedRoutes
	}
	return equality.Semantic.DeepEqual(*recounted, after.Status)
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// update queues the status of an object if it changed. After the delay, the newest wanted status is written. If the
// cache holds the object from before the last write, it is looked at later.
func update[T metav1.Object](c *Controller, id source.Object, updated T, changed bool, delay time.Duration, client updater[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isBehind(id, updated) {
		c.queue.AddAfter(task{id, false}, interval)
		return
	}
	delete(c.written, id)
	last, known := c.futile[id]
	if !changed || known && last.isSame(updated) {
		delete(c.pending, id)
		return
	}
	delete(c.futile, id)
	c.pending[id] = write{updated, func(ctx context.Context) (written, error) {
		made, err := client.UpdateStatus(ctx, updated, metav1.UpdateOptions{FieldManager: fieldManager})
		if err != nil {
			return written{}, err //nolint:wrapcheck // the caller names the object
		}
		return written{made.GetUID(), made.GetResourceVersion()}, nil
	}}
	c.writes.AddAfter(id, delay)
}

// isBehind reports whether an object is from before the last write of its status.
func (c *Controller) isBehind(id source.Object, object metav1.Object) bool {
	last := c.written[id]
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.resourceVersion)
	return last.uid == object.GetUID() && err == nil && order < 0
}

// processNextWrite waits for a status to write, and writes it. It returns false once the queue is shut down.
func (c *Controller) processNextWrite(ctx context.Context) bool {
	id, shutdown := c.writes.Get()
	if shutdown {
		return false
	}
	defer c.writes.Done(id)
	c.mu.Lock()
	next, ok := c.pending[id]
	delete(c.pending, id)
	isBehind := ok && c.isBehind(id, next.object) // it was queued while another one was written
	c.mu.Unlock()
	if isBehind {
		c.queue.AddAfter(task{id, false}, interval)
	}
	if !ok || isBehind {
		return true
	}
	var made written
	err := safely.Within(ctx, syncTimeout, func(ctx context.Context) (err error) {
		made, err = next.do(ctx)
		return err
	})
	switch {
	case err == nil:
		c.writes.Forget(id)
		c.mu.Lock()
		c.written[id] = made
		if made.resourceVersion == next.object.GetResourceVersion() { // the CRD does not have the field that differs
			c.futile[id] = futile{digestOf(next.object), made.resourceVersion}
		}
		c.mu.Unlock()
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
		// It changed or went meanwhile. What it is by now has been seen, or will be.
		c.queue.AddAfter(task{id, false}, interval)
	case apierrors.IsInvalid(err):
		logging.Errorf("The status of %s %s/%s stays as it is: %v", id.Kind, id.Namespace, id.Name, err)
		c.mu.Lock()
		c.futile[id] = futile{digest: digestOf(next.object)}
		c.mu.Unlock()
	default:
		logging.Errorf("Trying again later: %v", fmt.Errorf("failed to write the status of %s %s/%s: %w", id.Kind, id.Namespace, id.Name, err))
		c.queue.AddAfter(task{id, false}, lastRetry)
	}
	return true
}

// merge replaces the conditions of the wanted types. Those of other types belong to others.
func merge(conditions *[]metav1.Condition, wanted []metav1.Condition, now metav1.Time) {
	for _, c := range wanted {
		c.LastTransitionTime, c.Message = now, model.Cut(c.Message, model.MaxMessage)
		meta.SetStatusCondition(conditions, c)
	}
}

// ownConditions are the types of conditions of listeners, and of entries of routes and policies, that are set here.
// Those of other types belong to others.
var ownConditions = []string{
	string(gatewayv1.ListenerConditionAccepted), string(gatewayv1.ListenerConditionProgrammed),
	string(gatewayv1.ListenerConditionResolvedRefs), string(gatewayv1.ListenerConditionConflicted),
	string(gatewayv1.RouteConditionPartiallyInvalid), appv1.ConditionShadow, appv1.ConditionUnreachableRules,
}

// maxConditions is the most that the schemas of all kinds take.
const maxConditions = 8

// renew returns the wanted conditions and the conditions of others. Conditions that do not change keep their time.
func renew(before, wanted []metav1.Condition, now metav1.Time) []metav1.Condition {
	var renewed []metav1.Condition
	for _, c := range wanted {
		if old := meta.FindStatusCondition(before, c.Type); old != nil {
			renewed = append(renewed, *old)
		}
		merge(&renewed, []metav1.Condition{c}, now)
	}
	for _, c := range before {
		if !slices.Contains(ownConditions, c.Type) && len(renewed) < maxConditions {
			renewed = append(renewed, c)
		}
	}
	return renewed
}

func setGateway(status *gatewayv1.GatewayStatus, wanted gatewayv1.GatewayStatus, now metav1.Time) {
	status.Addresses, status.AttachedListenerSets = wanted.Addresses, wanted.AttachedListenerSets
	merge(&status.Conditions, wanted.Conditions, now)
	for _, kind := range []string{
		string(gatewayv1.GatewayConditionAddressesAssigned), string(gatewayv1.GatewayConditionInsecureFrontendValidationMode),
		appv1.ConditionShadow,
	} {
		if meta.FindStatusCondition(wanted.Conditions, kind) == nil {
			meta.RemoveStatusCondition(&status.Conditions, kind)
		}
	}
	status.Listeners = renewListeners(status.Listeners, wanted.Listeners, now,
		func(l *gatewayv1.ListenerStatus) (gatewayv1.SectionName, *[]metav1.Condition) {
			return l.Name, &l.Conditions
		})
}

func setListenerSet(status *gatewayv1.ListenerSetStatus, wanted gatewayv1.ListenerSetStatus, now metav1.Time) {
	merge(&status.Conditions, wanted.Conditions, now)
	status.Listeners = renewListeners(status.Listeners, wanted.Listeners, now,
		func(l *gatewayv1.ListenerEntryStatus) (gatewayv1.SectionName, *[]metav1.Condition) {
			return l.Name, &l.Conditions
		})
}

// renewListeners returns the wanted listeners with conditions as renew makes them. parts returns the conditions of a
// listener.
func renewListeners[L any](before, wanted []L, now metav1.Time, parts func(*L) (gatewayv1.SectionName, *[]metav1.Condition)) []L {
	var renewed []L
	for _, listener := range wanted {
		name, conditions := parts(&listener)
		var old []metav1.Condition
		for i := range before {
			if other, its := parts(&before[i]); other == name {
				old = *its
			}
		}
		*conditions = renew(old, *conditions, now)
		renewed = append(renewed, listener)
	}
	return renewed
}

// entry reads an entry of a list in a status that several controllers write.
type entry[E any] struct {
	// most is how many the schema takes. what are they of.
	most       int
	what       string
	controller func(*E) string
	isSame     func(a, b *E) bool
	conditions func(*E) *[]metav1.Condition
}

var (
	parents = entry[gatewayv1.RouteParentStatus]{
		most: 32, what: "parents",
		controller: func(e *gatewayv1.RouteParentStatus) string { return string(e.ControllerName) },
		isSame:     func(a, b *gatewayv1.RouteParentStatus) bool { return isSameRef(a.ParentRef, b.ParentRef) },
		conditions: func(e *gatewayv1.RouteParentStatus) *[]metav1.Condition { return &e.Conditions },
	}
	gatewayAncestors = entry[gatewayv1.PolicyAncestorStatus]{
		most: 16, what: "Gateways",
		controller: func(e *gatewayv1.PolicyAncestorStatus) string { return string(e.ControllerName) },
		isSame:     func(a, b *gatewayv1.PolicyAncestorStatus) bool { return isSameRef(a.AncestorRef, b.AncestorRef) },
		conditions: func(e *gatewayv1.PolicyAncestorStatus) *[]metav1.Condition { return &e.Conditions },
	}
	ancestors = entry[appv1.BackendPolicyAncestor]{
		most: 16, what: "Gateways",
		controller: func(e *appv1.BackendPolicyAncestor) string { return e.ControllerName },
		isSame:     func(a, b *appv1.BackendPolicyAncestor) bool { return a.AncestorRef == b.AncestorRef },
		conditions: func(e *appv1.BackendPolicyAncestor) *[]metav1.Condition { return &e.Conditions },
	}
)

// set replaces our entries of a list, and reports whether that changed anything. The entries of other controllers stay.
// The old list is not touched.
func (e entry[E]) set(list *[]E, wanted []E, now metav1.Time) bool {
	before, after := *list, []E{}
	for i := range before {
		if e.controller(&before[i]) != string(source.ControllerName) {
			after = append(after, before[i])
		}
	}
	for _, one := range e.cut(wanted, e.most-len(after)) {
		var old []metav1.Condition
		for i := range before {
			if e.controller(&before[i]) == string(source.ControllerName) && e.isSame(&before[i], &one) {
				old = *e.conditions(&before[i])
			}
		}
		*e.conditions(&one) = renew(old, *e.conditions(&one), now)
		after = append(after, one)
	}
	*list = after
	return !slices.EqualFunc(before, after, func(a, b E) bool {
		return e.controller(&a) == e.controller(&b) && e.isSame(&a, &b) && slices.Equal(*e.conditions(&a), *e.conditions(&b))
	})
}

// cut returns as many entries as there is room for: those with something wrong first. The last one says how many are
// left out. The others keep their order, so that the status does not change by itself.
func (e entry[E]) cut(wanted []E, room int) []E {
	if len(wanted) <= room || room <= 0 {
		return wanted[:min(len(wanted), max(room, 0))]
	}
	isGood := func(one *E) int {
		isTrue := func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue }
		if slices.ContainsFunc(*e.conditions(one), func(c metav1.Condition) bool { return !isTrue(c) }) {
			return 0
		}
		return 1
	}
	kept := slices.Clone(wanted)
	slices.SortStableFunc(kept, func(a, b E) int { return isGood(&a) - isGood(&b) })
	kept = kept[:room]
	last := e.conditions(&kept[room-1])
	*last = slices.Clone(*last)
	for i := range *last {
		if c := &(*last)[i]; c.Type == string(gatewayv1.PolicyConditionAccepted) {
			said := fmt.Sprintf("%d more %s are not listed", len(wanted)-room, e.what)
			if c.Message != "" {
				said = model.Cut(c.Message, model.MaxMessage-len(said)-2) + "; " + said
			}
			c.Message = said
		}
	}
	return kept
}

// isSameRef compares two references. Reflection would take longer than all else for thousands of routes.
func isSameRef(a, b gatewayv1.ParentReference) bool {
	return a.Name == b.Name && ptr.Equal(a.Group, b.Group) && ptr.Equal(a.Kind, b.Kind) && ptr.Equal(a.Namespace, b.Namespace) &&
		ptr.Equal(a.SectionName, b.SectionName) && ptr.Equal(a.Port, b.Port)
}
