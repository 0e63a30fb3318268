package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// attach says how each namespace has to be that has objects for one of our Gateways. Others write that.
func (c *Controller) attach(ctx context.Context, seen *observed, evaluated *evaluation) error {
	var errs []error
	wanted, names := map[place]wantedPlace{}, map[types.NamespacedName]bool{}
	for _, own := range c.ownGateways(seen) {
		told, specs := c.told(own.Gateway), evaluated.attachments[own.parent]
		switch {
		case seen.unknown[own.parent]:
			specs = told
		case len(seen.stalled) > 0:
			specs = both(told, specs)
		}
		name := nameOf(own.Gateway)
		names[name] = true
		mayCluster := len(specs) > 0 && c.inputs.MayWatchCluster != nil && c.inputs.MayWatchCluster(own.Gateway)
		all := place{gateway: name}
		if mayCluster {
			wanted[all] = wantedPlace{own: own.Gateway}
		}
		binding := c.attacher.binding(all)
		isClusterBound := mayCluster && binding != nil && binding.grants(all) && seen.watch[own.parent] == appv1.WatchCluster
		left := map[leftOut]bool{}
		for namespace, spec := range specs {
			spec.GatewayName = own.Name
			spec, omitted := bounded(told[namespace], spec, left)
			wanted[place{name, namespace}] = wantedPlace{own.Gateway, spec, omitted, namespace != own.Namespace && !isClusterBound, false}
		}
		c.noteLeft(own.Gateway, left)
		errs = append(errs, c.replaceList(ctx, own.Gateway, wanted))
	}
	c.attacher.set(wanted)
	maps.DeleteFunc(c.left, func(name types.NamespacedName, _ map[leftOut]bool) bool { return !names[name] })
	return errors.Join(errs...)
}

// replaceList removes the list that an operator of an earlier release wrote to the status of a Gateway, once no pod
// needs it. Until then, its namespaces stay readable.
func (c *Controller) replaceList(ctx context.Context, own *appv1.Gateway, wanted map[place]wantedPlace) error {
	list := own.Status.Attachments
	if list == nil {
		return nil
	}
	live, watch, err := c.liveOf(own)
	switch {
	case err != nil:
		return err
	case watch != "" && (live.Ready > 0 || own.Status.Replicas == 0):
		desired := applyappv1.Gateway(own.Name, own.Namespace).WithResourceVersion(own.ResourceVersion).WithUID(own.UID).
			WithStatus(applyappv1.GatewayStatus())
		_, err := c.Gateways.AppV1().Gateways(own.Namespace).ApplyStatus(ctx, desired, force)
		return children.Failed(err, "remove the attachments of Gateway", nameOf(own))
	}
	for _, namespace := range list.Namespaces {
		p := place{nameOf(own), namespace.Name}
		if one, ok := wanted[p]; namespace.Name != own.Namespace {
			one.own, one.isBound, one.isOld = own, true, !ok
			wanted[p] = one
		}
	}
	return nil
}

// both returns what two attachments need together. For what is in both, the second one counts.
func both(told, wanted map[string]appv1.GatewayAttachmentSpec) map[string]appv1.GatewayAttachmentSpec {
	all := maps.Clone(told)
	if all == nil {
		all = map[string]appv1.GatewayAttachmentSpec{}
	}
	byName := func(a, b appv1.ObjectReference) int { return strings.Compare(a.Name, b.Name) }
	for namespace, one := range wanted {
		before := told[namespace]
		one.Resources = sortedUnion(one.Resources, before.Resources, strings.Compare)
		one.ConfigMaps = sortedUnion(one.ConfigMaps, before.ConfigMaps, byName)
		one.Users = sortedUnion(one.Users, before.Users, byName)
		one.Logins = sortedUnion(one.Logins, before.Logins, byName)
		one.VerifiesNames, one.WAF = one.VerifiesNames || before.VerifiesNames, one.WAF || before.WAF
		all[namespace] = one
	}
	return all
}

func sortedUnion[T comparable](a, b []T, compare func(T, T) int) []T {
	return slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(a, b)), compare))
}

// attachmentsOf returns the GatewayAttachments of a Gateway.
func (c *Controller) attachmentsOf(gateway *appv1.Gateway) []*appv1.GatewayAttachment {
	found, err := c.inputs.Attachments.GetIndexer().ByIndex(children.IndexOwner, cache.MetaObjectToName(gateway).String())
	if err != nil {
		logging.Errorf("Failed to look up GatewayAttachments of Gateway %s: %v", nameOf(gateway), err) // no such index: a bug
	}
	var all []*appv1.GatewayAttachment
	for _, obj := range found {
		all = append(all, obj.(*appv1.GatewayAttachment))
	}
	return all
}

// told returns what the GatewayAttachments of a Gateway say, by namespace, and what the list of an earlier release says
// of others.
func (c *Controller) told(gateway *appv1.Gateway) map[string]appv1.GatewayAttachmentSpec {
	all := map[string]appv1.GatewayAttachmentSpec{}
	if list := gateway.Status.Attachments; list != nil {
		for _, one := range list.Namespaces {
			all[one.Name] = appv1.GatewayAttachmentSpec{Namespace: one.Name, Labels: one.Labels, Resources: one.Resources}
		}
	}
	for _, attachment := range c.attachmentsOf(gateway) {
		if metav1.IsControlledBy(attachment, gateway) {
			all[attachment.Spec.Namespace] = attachment.Spec
		}
	}
	return all
}

// attachable is one of our Gateways, and what objects call it.
type attachable struct {
	*appv1.Gateway
	parent source.Parent
}

// ownGateways returns our Gateways that have, or had, something of the Gateway API.
func (c *Controller) ownGateways(seen *observed) []attachable {
	var all []attachable
	for _, obj := range c.inputs.Gateways.Informer().GetStore().List() {
		gateway := obj.(*appv1.Gateway)
		parent := parentOfOwn(gateway)
		if own := seen.own[parent]; (own != nil && own.UID == gateway.UID || c.wasAttached(gateway)) && gateway.DeletionTimestamp == nil {
			all = append(all, attachable{gateway, parent})
		}
	}
	return all
}

// wasAttached reports whether a Gateway has GatewayAttachments.
func (c *Controller) wasAttached(gateway *appv1.Gateway) bool {
	return gateway.Status.Attachments != nil || len(c.attachmentsOf(gateway)) > 0
}

// parentOfOwn returns what objects call one of our Gateways.
func parentOfOwn(own *appv1.Gateway) source.Parent {
	if name := proxypod.Parent(own); name != "" {
		return source.GatewayParent(own.Namespace, name)
	}
	return source.OwnParent(own.Namespace, own.Name)
}

// watchOf returns how all proxies of a Gateway watch, by their reports: "" if one reads the list in the status, or may.
func watchOf(gateway *appv1.Gateway, live status.Live, reports []*appv1.GatewayProxy) appv1.WatchMode {
	if live.Silent {
		return ""
	}
	mode := appv1.WatchCluster
	for _, report := range reports {
		switch {
		case report.Status.Gateway.UID != gateway.UID:
		case report.Status.Watch == "":
			return ""
		case report.Status.Watch == appv1.WatchNamespaces:
			mode = appv1.WatchNamespaces
		}
	}
	return mode
}

// unbound returns why agents may not read the namespace of a GatewayAttachment, "" if they may.
func unbound(attachment metav1.Object) string {
	one, ok := attachment.(*appv1.GatewayAttachment)
	if !ok || one == nil {
		return ""
	}
	if c := meta.FindStatusCondition(one.Status.Conditions, appv1.ConditionBound); c != nil && c.Status == metav1.ConditionFalse {
		return c.Message
	}
	return ""
}

// changeAttachment takes in that a GatewayAttachment is another one. Objects that wait for proxies are looked at, and
// all if agents may not read the namespace any more, or may again.
func (c *Controller) changeAttachment(seen *observed, id source.Object) bool {
	object := c.object(id)
	var before metav1.Object
	if version := c.versions[id]; version != nil {
		before = version.object
	}
	c.noteVersion(id, object)
	for _, one := range []metav1.Object{before, object} {
		attachment, ok := one.(*appv1.GatewayAttachment)
		if !ok {
			continue
		}
		own := c.ownGateway(attachment.Namespace, attachment.Spec.GatewayName)
		if own == nil {
			continue
		}
		for _, parent := range []source.Parent{source.OwnParent(own.Namespace, own.Name), parentOfOwn(own)} {
			maps.Copy(seen.look, seen.waiting[parent])
			delete(seen.waiting, parent)
		}
	}
	return unbound(before) == unbound(object)
}

// The kinds of what may be left out, as messages have them.
const (
	leftConfigMap = "ConfigMaps"
	leftUsers     = "Secrets with users or keys"
)

// leftOut is something that the pods of a Gateway do not mount, because they mount so much for its namespace.
type leftOut struct{ kind, namespace, name string }

// problem is what the statuses of those who ask for it say.
func (l leftOut) problem() string {
	return fmt.Sprintf("the Gateway mounts %d %s for namespace %s already: remove some, or use another Gateway", appv1.MaxMounted, l.kind, l.namespace)
}

// bounded returns the part of what a namespace needs that there is room for, and says what is left out. What was
// mounted before keeps its place.
func bounded(told, wanted appv1.GatewayAttachmentSpec, left map[leftOut]bool) (appv1.GatewayAttachmentSpec, string) {
	var omitted []string
	within := func(kind string, before, refs []appv1.ObjectReference) []appv1.ObjectReference {
		if len(refs) <= appv1.MaxMounted {
			return refs
		}
		isOld := func(ref appv1.ObjectReference) bool { return slices.Contains(before, ref) }
		kept := slices.Concat(filter(refs, isOld), filter(refs, func(ref appv1.ObjectReference) bool { return !isOld(ref) }))
		for _, ref := range kept[appv1.MaxMounted:] {
			left[leftOut{kind, wanted.Namespace, ref.Name}] = true
		}
		omitted = append(omitted, fmt.Sprintf("the pods mount %d %s for this namespace, and %d more are left out, such as %s",
			appv1.MaxMounted, kind, len(kept)-appv1.MaxMounted, kept[appv1.MaxMounted].Name))
		kept = kept[:appv1.MaxMounted]
		slices.SortFunc(kept, func(a, b appv1.ObjectReference) int { return strings.Compare(a.Name, b.Name) })
		return kept
	}
	wanted.ConfigMaps = within(leftConfigMap, told.ConfigMaps, wanted.ConfigMaps)
	wanted.Users = within(leftUsers, told.Users, wanted.Users)
	wanted.Logins = filter(wanted.Logins, func(ref appv1.ObjectReference) bool { return slices.Contains(wanted.Users, ref) })
	return wanted, strings.Join(omitted, "; ")
}

func filter[E any](list []E, keep func(E) bool) []E {
	return slices.DeleteFunc(slices.Clone(list), func(e E) bool { return !keep(e) })
}

// noteLeft notes what the pods of a Gateway do not mount. If that is something else than before, all statuses are
// looked at.
func (c *Controller) noteLeft(gateway *appv1.Gateway, left map[leftOut]bool) {
	name := nameOf(gateway)
	if maps.Equal(left, c.left[name]) {
		return
	}
	if c.left[name] = left; len(left) == 0 {
		delete(c.left, name)
	}
	c.queue.Add(rebuild)
}

// leftProblem returns why something is left out at a data plane, "" if it is not.
func (o *observed) leftProblem(plane source.Parent, l leftOut) string {
	if own := o.own[plane]; own != nil && o.controller.left[nameOf(own)][l] {
		return l.problem()
	}
	return ""
}
