package gatewayapi

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/children"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// resourceList is what reports of agents of an earlier release call the list in the status of a Gateway.
const resourceList = "attachments"

// Missing returns what not all proxies of a data plane run yet of the needs of an object, "" if they run all of it. An
// object that was live stays so: new proxies begin with the present objects.
func (o *observed) Missing(plane source.Parent, needs source.Needs) string {
	version := o.controller.versions[needs.Object]
	stays := version.before.has(plane) || version.live.has(plane) || version.before == nil && needs.WasLive
	missing, live := "", false
	if live, _, _ = o.Plane(plane); live {
		missing = o.missing(plane, needs, stays)
	} else if noteAt(o.idle, plane, needs.Object); !stays {
		return ""
	}
	if version.live.set(plane, missing == ""); missing != "" {
		noteAt(o.waiting, plane, needs.Object)
	}
	return missing
}

// noteAt notes an object of a data plane.
func noteAt(all map[source.Parent]map[source.Object]bool, plane source.Parent, object source.Object) {
	if all[plane] == nil {
		all[plane] = map[source.Object]bool{}
	}
	all[plane][object] = true
}

func (o *observed) missing(plane source.Parent, needs source.Needs, stays bool) string {
	once := append([]source.Object{needs.Object}, needs.Parents...)
	for i, object := range slices.Concat(once, needs.Uses) {
		version := o.controller.versions[object]
		isKnown := stays && (i < len(once) || version != nil && version.confirmed.has(plane))
		isDone := isKnown || version != nil && o.has(plane, resourceOfKind(object.Kind), object.Namespace, version.first)
		switch {
		case !isDone && i == 0:
			return "not all proxies run it yet" + o.whyLate(plane, object.Namespace)
		case !isDone:
			return "not all proxies run " + object.Kind + " " + object.Name + " yet" + o.whyLate(plane, object.Namespace)
		case !o.isAttached(plane, object, needs, isKnown):
			return "not all proxies watch namespace " + object.Namespace + " yet"
		case !isKnown:
			version.confirmed.set(plane, true)
		}
	}
	return ""
}

// whyLate returns why proxies of a data plane wait with edits of a namespace, "" if none says so.
func (o *observed) whyLate(plane source.Parent, namespace string) string {
	for _, problem := range o.live[plane].Problems {
		if problem.Reason == appv1.ProblemAwaitingReload && problem.Origin.Name == namespace {
			return ": " + problem.Message
		}
	}
	return ""
}

// isAttached reports whether the agents of a data plane have been told to watch where an object is, and follow that. An
// agent that does not may still report a higher version. isKnown reports whether they ran the object before.
func (o *observed) isAttached(plane source.Parent, object source.Object, needs source.Needs, isKnown bool) bool {
	if object.Kind == "Gateway" { // they watch theirs without being told
		return true
	}
	isAttached := func(resources []string, labels map[string]string, resource, version string) bool {
		if !slices.Contains(resources, resourceOfKind(object.Kind)) {
			return false
		}
		isSelected := object != needs.Object || needs.Labels == nil || maps.Equal(labels, needs.Labels)
		return isKnown || isSelected && (version == "" || o.has(plane, resource, o.own[plane].Namespace, version))
	}
	if own := o.own[plane]; own != nil && own.Status.Attachments != nil { // agents of an earlier release follow it
		for _, listed := range own.Status.Attachments.Namespaces {
			if listed.Name == object.Namespace && isAttached(listed.Resources, listed.Labels, resourceList, listed.Since) {
				return true
			}
		}
	}
	attachment, version := o.attachment(plane, object.Namespace)
	return attachment != nil && meta.IsStatusConditionTrue(attachment.Status.Conditions, appv1.ConditionBound) &&
		isAttached(attachment.Spec.Resources, attachment.Spec.Labels, proxypod.ResourceAttachments, version)
}

// attachment returns the GatewayAttachment of a namespace at a data plane, and the version by which it arrived; nil:
// there is none, or it is about to be looked at.
func (o *observed) attachment(plane source.Parent, namespace string) (*appv1.GatewayAttachment, string) {
	own := o.own[plane]
	if own == nil {
		return nil, ""
	}
	p := place{nameOf(own), namespace}
	version := o.controller.versions[source.Object{Kind: kindAttached, Namespace: own.Namespace, Name: p.attachmentName()}]
	if version == nil {
		return nil, ""
	}
	return version.object.(*appv1.GatewayAttachment), version.first
}

// has reports whether all proxies of a data plane run a resource of a namespace up to a version. Before it returns
// true, it asks the API server: the caches may lack a pod that is about to receive traffic. Such a pod has reported,
// so it is enough that all that have reported run it. A pod that does not run it may receive no traffic.
func (o *observed) has(plane source.Parent, resource, namespace, version string) bool {
	return o.live[plane].Has(resource, namespace, version) &&
		(o.allNow(plane).Has(resource, namespace, version) || o.liveNow(plane).Has(resource, namespace, version))
}

// resourceOfKind returns the resource of a kind that proxies run objects of.
func resourceOfKind(kind string) string {
	switch kind {
	case kindFilter:
		return proxypod.ResourceFilters
	case kindPolicy:
		return proxypod.ResourceBackendPolicies
	case kindAttached:
		return proxypod.ResourceAttachments
	case kindImport: // nobody waits for it
		return ""
	}
	return resourceOf[kind]
}

// Unreadable returns why the proxies of a data plane may not read a namespace, "" if nothing is known.
func (o *observed) Unreadable(plane source.Parent, namespace string) string {
	if attachment, _ := o.attachment(plane, namespace); attachment != nil {
		return unbound(attachment)
	}
	return ""
}

// allNow returns what the proxies of a data plane run that have reported, by the API server. It asks once for all
// objects. That takes the API server less than liveNow: it looks at all EndpointSlices of the namespace for those.
func (o *observed) allNow(parent source.Parent) status.Live {
	return o.readOnce(o.reportedNow, parent, func() (status.Live, error) {
		reports, err := children.ListReports(o.ctx, o.controller.Gateways, o.own[parent])
		return status.LiveOfAll(o.own[parent], reports), err
	})
}

// liveNow returns what the proxies of a data plane run, by the API server. It asks once for all objects.
func (o *observed) liveNow(parent source.Parent) status.Live {
	return o.readOnce(o.read, parent, func() (status.Live, error) {
		slices, reports, err := children.ListProxies(o.ctx, o.controller.Kube, o.controller.Gateways, o.own[parent])
		return status.LiveOf(o.own[parent], slices, reports), err
	})
}

func (o *observed) readOnce(known map[source.Parent]status.Live, parent source.Parent, read func() (status.Live, error)) status.Live {
	live, ok := known[parent]
	if ok {
		return live
	}
	live, err := read()
	if err != nil {
		o.readErr, live = errors.Join(o.readErr, err), status.Live{}
	}
	known[parent] = live
	return live
}
