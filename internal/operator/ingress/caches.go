package ingress

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/kinds"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/source/gatewayapi"
	source "gateway/internal/source/ingress"
)

// discoverInterval is how often the operator looks whether the cluster has the Gateway API by now.
const discoverInterval = 10 * time.Second

// resources are the kinds that Ingresses become.
var resources = func() map[string]schema.GroupVersionResource {
	all := map[string]schema.GroupVersionResource{}
	for _, kind := range source.Kinds {
		all[kind] = kinds.ResourceOf(kind)
	}
	return all
}()

// made is the part that is kept of an object that was made of Ingresses.
type made struct {
	metav1.ObjectMeta
	// unshared reports whether the operator alone has written fields outside of the status.
	unshared bool
	// hostnames are the hostnames of an HTTPRoute, "" for one without.
	hostnames []string
	// programmed reports whether all proxies run what a route says, at all its parents, and problem what is wrong with it.
	programmed bool
	problem    string
	// addresses are the addresses of a Gateway, and clients what it asks of clients.
	addresses []networkingv1.IngressLoadBalancerIngress
	clients   source.MadeGateway
	// listeners are the listeners of a ListenerSet.
	listeners source.MadeListenerSet
}

// addMade adds the cache of a kind.
func (c *Controller) addMade(kind string) error {
	informer := dynamicinformer.NewFilteredDynamicInformer(c.dynamic, resources[kind], metav1.NamespaceAll, 0, cache.Indexers{},
		func(list *metav1.ListOptions) { list.LabelSelector = source.LabelClass }).Informer()
	if err := informer.SetTransform(keep); err != nil {
		return fmt.Errorf("failed to set the transform of the cache of objects: %w", err)
	}
	c.made[kind] = informer
	return c.handle(informer, func(obj any) {
		object := obj.(metav1.Object)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.applied, source.Subject{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()})
	})
}

// keep strips objects that were made before they are cached. It does nothing to objects that it has returned: client-go
// may call it twice.
func keep(obj any) (any, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	kept := &made{unshared: true, ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Generation: object.GetGeneration(), CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
		OwnerReferences: object.GetOwnerReferences(),
		Labels:          map[string]string{source.LabelClass: object.GetLabels()[source.LabelClass]},
		Annotations:     map[string]string{source.AnnotationApplied: object.GetAnnotations()[source.AnnotationApplied]},
	}}
	for _, entry := range object.GetManagedFields() {
		kept.unshared = kept.unshared && (entry.Manager == fieldManager || entry.Subresource == "status")
	}
	switch object.GetKind() {
	case "HTTPRoute", "TLSRoute":
		return kept, kept.readRoute(object)
	case "Gateway":
		return kept, kept.readGateway(object)
	case "ListenerSet":
		return kept, kept.readListenerSet(object)
	}
	return kept, nil
}

// readRoute reads the hostnames and the status of a route.
func (m *made) readRoute(object *unstructured.Unstructured) error {
	var route gatewayv1.HTTPRoute // other routes have these fields, too
	partial := map[string]any{"status": object.Object["status"]}
	hostnames, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "hostnames")
	if m.hostnames = hostnames; len(hostnames) == 0 {
		m.hostnames = []string{""}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(partial, &route); err != nil {
		return fmt.Errorf("failed to read the status of %s %s: %w", object.GetKind(), nameOf(object), err)
	}
	refs, _, _ := unstructured.NestedSlice(object.Object, "spec", "parentRefs")
	live := 0
	for _, parent := range route.Status.Parents {
		if parent.ControllerName != gatewayapi.ControllerName {
			continue
		}
		for _, condition := range parent.Conditions {
			isCurrent := condition.ObservedGeneration == m.Generation
			switch {
			case !isCurrent:
			case condition.Type == "Programmed" && condition.Status == metav1.ConditionTrue:
				live++
			case condition.Type != "Programmed" && condition.Status == metav1.ConditionFalse:
				m.problem = condition.Message
			}
		}
	}
	m.programmed = live > 0 && live == len(refs)
	return nil
}

// readGateway reads the addresses of a Gateway, and what it asks of clients.
func (m *made) readGateway(object *unstructured.Unstructured) error {
	var gateway gatewayv1.Gateway
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &gateway); err != nil {
		return fmt.Errorf("failed to read Gateway %s: %w", nameOf(object), err)
	}
	m.clients = source.ReadGateway(&gateway)
	for _, address := range gateway.Status.Addresses {
		if address.Type != nil && *address.Type == gatewayv1.HostnameAddressType {
			m.addresses = append(m.addresses, networkingv1.IngressLoadBalancerIngress{Hostname: address.Value})
		} else {
			m.addresses = append(m.addresses, networkingv1.IngressLoadBalancerIngress{IP: address.Value})
		}
	}
	return nil
}

// readListenerSet reads the hostnames of a ListenerSet.
func (m *made) readListenerSet(object *unstructured.Unstructured) error {
	var set gatewayv1.ListenerSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set); err != nil {
		return fmt.Errorf("failed to read ListenerSet %s: %w", nameOf(object), err)
	}
	m.listeners = source.ReadListenerSet(&set)
	return nil
}

// readGrant reads a ReferenceGrant before it is cached. It does nothing to what it has returned.
func readGrant(obj any) (any, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	grant := &gatewayv1.ReferenceGrant{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, grant); err != nil {
		return nil, fmt.Errorf("failed to read ReferenceGrant %s: %w", nameOf(object), err)
	}
	return children.Strip(grant) //nolint:wrapcheck // it has no error
}

// stripIngress drops of managedFields what is not about the addresses that the operator has written.
func stripIngress(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone
	}
	own := slices.DeleteFunc(slices.Clone(accessor.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != fieldManager
	})
	stripped, err := children.Strip(obj)
	accessor.SetManagedFields(own)
	return stripped, err //nolint:wrapcheck // it is nil
}

// Fill fills the caches until ctx is cancelled. It waits for the kinds of the Gateway API if the cluster lacks some. It
// can be called once.
func (c *Controller) Fill(ctx context.Context) {
	known := []cache.SharedIndexInformer{c.ingresses, c.classes, c.configMaps}
	for _, informer := range known {
		go informer.RunWithContext(ctx)
	}
	err := wait.PollUntilContextCancel(ctx, discoverInterval, true, func(ctx context.Context) (bool, error) { return c.discover(ctx), nil })
	if err != nil {
		return // ctx is over
	}
	for _, informer := range append(slices.Collect(maps.Values(c.made)), c.grants) {
		known = append(known, informer)
		go informer.RunWithContext(ctx)
	}
	var done []cache.DoneChecker
	for _, informer := range append(known, c.inputs.Services.Core().V1().Services().Informer(), c.inputs.Gateways.Informer(), c.inputs.Namespaces) {
		done = append(done, informer.HasSyncedChecker())
	}
	if !cache.WaitFor(ctx, "", done...) {
		return
	}
	logging.Infof("Serving Ingresses of IngressClasses with the controller %s, by Gateways in namespace %s", source.Controller, c.inputs.Namespace)
	c.mu.Lock()
	c.ready = true
	c.mu.Unlock()
	c.queue.Add(everything)
}

// discover reports whether the cluster has all kinds that Ingresses become. It logs which ones it lacks.
func (c *Controller) discover(ctx context.Context) bool {
	served := map[schema.GroupVersionResource]bool{}
	for _, version := range []schema.GroupVersion{schema.GroupVersion(gatewayv1.GroupVersion), appv1.SchemeGroupVersion} {
		list, err := c.kube.Discovery().ServerResourcesForGroupVersion(version.String())
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			if ctx.Err() == nil {
				logging.Warningf("Trying again: failed to look for the kinds of %s: %v", version, err)
			}
			return false
		default:
			for i := range list.APIResources {
				served[version.WithResource(list.APIResources[i].Name)] = true
			}
		}
	}
	var missing []string
	for _, resource := range resources {
		if !served[resource] {
			missing = append(missing, resource.GroupResource().String())
		}
	}
	slices.Sort(missing)
	if names := strings.Join(missing, ", "); names != "" && names != c.logged {
		c.logged = names
		logging.Warningf("Ingresses wait: the cluster does not have %s: install the CRDs of a newer Gateway API", names)
	}
	return len(missing) == 0
}

// isReady reports whether the caches have been filled.
func (c *Controller) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}
