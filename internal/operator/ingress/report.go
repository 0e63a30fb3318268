package ingress

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"gateway/internal/logging"
	"gateway/internal/model"
	"gateway/internal/operator/apply"
	"gateway/internal/operator/children"
	source "gateway/internal/source/ingress"
)

// The reasons of events.
const (
	// eventClosed is for paths that answer 503 because something is lost that may keep clients out.
	eventClosed = "Closed"
	// eventDiffers is for settings that are not carried over, or differ.
	eventDiffers = "Differs"
	// eventRefused is for an object that the API server does not accept, or that is not accepted as part of its Gateway.
	eventRefused = "Refused"
	// eventWaiting is for an IngressClass whose Ingresses stay as they are.
	eventWaiting = "Waiting"
	// eventProgrammed is for an Ingress that all proxies run.
	eventProgrammed = "Programmed"

	// maxEvents is how many events are recorded at a time. client-go drops some of too many.
	maxEvents = 200
)

// writeStatuses writes the addresses of the Gateways into the status of their Ingresses, and takes them back from those
// that are not ours any more. An Ingress at a Gateway of an earlier release keeps that address until its routes are
// programmed, so that no name leads to a Gateway that does not serve it yet.
func (c *Controller) writeStatuses(ctx context.Context, seen *observed, wanted *evaluation) error {
	return each(seen.ingresses, func(ingress *networkingv1.Ingress) error {
		of := wanted.served[ingress.UID]
		addresses := c.addresses(of)
		isOurs := len(ingress.ManagedFields) > 0
		isWaiting := wanted.waiting[source.ClassOf(ingress)] != "" ||
			slices.ContainsFunc(wanted.faulty, func(f fault) bool { return f.Ingress == ingress })
		isEarly := of != nil && of.isMoving && len(ingress.Status.LoadBalancer.Ingress) > 0 && !c.areProgrammed(of.routes)
		isWritten := slices.EqualFunc(addresses, ingress.Status.LoadBalancer.Ingress, func(a, b networkingv1.IngressLoadBalancerIngress) bool {
			return a.IP == b.IP && a.Hostname == b.Hostname // the rest is what only others write
		})
		if isWaiting || isEarly || len(addresses) == 0 && !isOurs || isWritten {
			return nil
		}
		return c.writeStatus(ctx, ingress, addresses)
	})
}

// areProgrammed reports whether all proxies run routes, at all of their Gateways.
func (c *Controller) areProgrammed(routes []source.Subject) bool {
	return !slices.ContainsFunc(routes, func(name source.Subject) bool {
		route := c.cached(name)
		return route == nil || !route.programmed
	})
}

// addresses returns the addresses of the Gateways of an Ingress.
func (c *Controller) addresses(of *served) []networkingv1.IngressLoadBalancerIngress {
	var all []networkingv1.IngressLoadBalancerIngress
	if of == nil {
		return nil
	}
	for _, gateway := range of.gateways {
		if made := c.cached(gateway); made != nil {
			all = append(all, made.addresses...)
		}
	}
	return all
}

func (c *Controller) writeStatus(ctx context.Context, ingress *networkingv1.Ingress, addresses []networkingv1.IngressLoadBalancerIngress) error {
	status := networkingv1ac.IngressStatus()
	if len(addresses) > 0 {
		status = apply.From[networkingv1ac.IngressStatusApplyConfiguration](networkingv1.IngressStatus{
			LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: addresses},
		})
	}
	desired := networkingv1ac.Ingress(ingress.Name, ingress.Namespace).WithUID(ingress.UID).WithResourceVersion(ingress.ResourceVersion).WithStatus(status)
	_, err := c.kube.NetworkingV1().Ingresses(ingress.Namespace).ApplyStatus(ctx, desired, force)
	return children.Failed(err, "write the status of Ingress", nameOf(ingress))
}

// event is one that was recorded, of an object. What is in of tells it apart from others of the same reason.
type event struct{ reason, of string }

// teller records events that were not recorded before.
type teller struct {
	*Controller
	// told are the events that hold now, left is how many more may be recorded.
	told map[types.UID]map[event]bool
	left int
}

// tell records what is to be told of each object, once for as long as it holds.
func (c *Controller) tell(seen *observed, wanted *evaluation) {
	t := &teller{c, map[types.UID]map[event]bool{}, maxEvents}
	about := map[source.Subject]*corev1.ObjectReference{}
	for _, ingress := range seen.ingresses {
		about[source.Subject{Kind: "Ingress", Namespace: ingress.Namespace, Name: ingress.Name}] = referTo("networking.k8s.io/v1", "Ingress", ingress)
	}
	for name, service := range seen.services {
		about[source.Subject{Kind: "Service", Namespace: name.Namespace, Name: name.Name}] = referTo("v1", "Service", service)
	}
	for name, configMap := range seen.configMaps {
		about[source.Subject{Kind: "ConfigMap", Namespace: name.Namespace, Name: name.Name}] = referTo("v1", "ConfigMap", configMap)
	}
	for _, class := range seen.classes {
		if problem := wanted.waiting[class.Name]; problem != "" {
			t.record(ofClass(class), corev1.EventTypeWarning, event{eventWaiting, problem}, problem)
		}
	}
	for _, note := range wanted.notes {
		reason := eventDiffers
		switch {
		case note.Refused:
			reason = eventRefused
		case note.Closes():
			reason = eventClosed
		}
		if object := about[note.Object]; object != nil {
			t.record(object, corev1.EventTypeWarning, event{reason, note.Text}, note.Text)
		} else { // it is about all Ingresses of the class
			t.record(ofClass(note.class), corev1.EventTypeWarning, event{reason, note.String()}, note.Text)
		}
	}
	for _, faulty := range wanted.faulty {
		const message = "it makes the operator panic, and what was made of it stays: this is a bug, please report it"
		object := referTo("networking.k8s.io/v1", "Ingress", faulty.Ingress)
		if !c.told[faulty.UID][event{eventRefused, message}] {
			logging.Errorf("Going on without Ingress %s: %s: %s", nameOf(faulty), message, faulty.cause)
		}
		t.record(object, corev1.EventTypeWarning, event{eventRefused, message}, message)
	}
	t.tellRefused(wanted)
	for _, ingress := range seen.ingresses {
		if of := wanted.served[ingress.UID]; of != nil {
			t.tellProgrammed(ingress, of, wanted)
		}
	}
	c.told = t.told
	if t.left < 0 {
		c.queue.AddAfter(everything, interval)
	}
}

func referTo(version, kind string, object metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: version, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
	}
}

func ofClass(class *networkingv1.IngressClass) *corev1.ObjectReference {
	return referTo("networking.k8s.io/v1", "IngressClass", class)
}

// record records an event, unless it was recorded before or there are too many.
func (t *teller) record(object *corev1.ObjectReference, kind string, one event, message string) {
	known := t.Controller.told[object.UID][one] || t.told[object.UID][one]
	if !known {
		if t.left--; t.left < 0 {
			return
		}
		t.recorder.Event(object, kind, one.reason, model.Cut(message, model.MaxMessage))
	}
	t.know(object.UID, one)
}

// know notes that an event was recorded, or need not be.
func (t *teller) know(of types.UID, one event) {
	if t.told[of] == nil {
		t.told[of] = map[event]bool{}
	}
	t.told[of][one] = true
}

// tellRefused tells Ingresses the API server's error for an object of theirs.
func (t *teller) tellRefused(wanted *evaluation) {
	for _, object := range slices.SortedFunc(maps.Keys(t.refused), func(a, b source.Subject) int { return strings.Compare(a.String(), b.String()) }) {
		one := wanted.byName[object]
		if one == nil || one.digest != t.refused[object].digest {
			continue
		}
		message := t.refused[object].message
		for _, owner := range one.owners {
			t.record(referTo("networking.k8s.io/v1", "Ingress", owner), corev1.EventTypeWarning, event{eventRefused, message}, message)
		}
		if len(one.owners) == 0 {
			t.record(ofClass(one.class), corev1.EventTypeWarning, event{eventRefused, message}, message)
		}
	}
}

// tellProgrammed tells that all proxies run an Ingress, or the problems of its routes. After a start, it is not told of
// an Ingress that has an address: it was.
func (t *teller) tellProgrammed(ingress *networkingv1.Ingress, of *served, wanted *evaluation) {
	object := referTo("networking.k8s.io/v1", "Ingress", ingress)
	var versions []string
	for _, name := range of.routes {
		if wanted.byName[name].held {
			const message = "another Ingress of its host makes the operator panic: what was made of both stays as it is"
			t.record(object, corev1.EventTypeWarning, event{eventWaiting, message}, message)
			return
		}
		route := t.cached(name)
		if route == nil {
			return
		}
		if route.problem != "" {
			message := fmt.Sprintf("%s %s/%s: %s", name.Kind, name.Namespace, name.Name, route.problem)
			t.record(object, corev1.EventTypeWarning, event{eventRefused, message}, message)
		}
		if !route.programmed {
			return
		}
		versions = append(versions, fmt.Sprint(route.UID, " ", route.Generation))
	}
	one := event{eventProgrammed, strings.Join(versions, ", ")}
	if t.Controller.told == nil && len(ingress.Status.LoadBalancer.Ingress) > 0 {
		t.know(ingress.UID, one)
		return
	}
	t.record(object, corev1.EventTypeNormal, one, "All proxies run it")
}
