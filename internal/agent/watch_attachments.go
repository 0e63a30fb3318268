package agent

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	informers "gateway/generated/app/informers/externalversions/app/v1"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// attachments are the GatewayAttachments of the Gateway.
type attachments struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration

	mu sync.Mutex
	// sent are those that the API server sent, by name, and newest is the highest resourceVersion that one had. isNews
	// says that they changed since they were taken in last.
	sent   map[string]*appv1.GatewayAttachment
	newest string
	isNews bool

	// The loop alone touches what follows. namespaces are those that have objects of the Gateway, by name, as it was taken
	// in, up to version.
	gateway    *appv1.Gateway
	namespaces map[string]appv1.GatewayAttachmentSpec
	version    string
}

// watchAttachments returns the GatewayAttachments. changed is called when they change.
func watchAttachments(options Options, changed func()) (*attachments, error) {
	a := &attachments{
		sent: map[string]*appv1.GatewayAttachment{},
		informer: informers.NewFilteredGatewayAttachmentInformer(options.Gateways, options.Namespace, 0, nil,
			func(list *metav1.ListOptions) { list.LabelSelector = proxypod.PodSelector(options.Gateway).String() }),
	}
	note := func(found any, isThere bool) {
		a.note(found, isThere)
		changed()
	}
	var err error
	a.handler, err = a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { note(object, true) }, UpdateFunc: func(_, object any) { note(object, true) },
		DeleteFunc: func(object any) {
			if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = final.Obj
			}
			note(object, false)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to watch GatewayAttachments: %w", err)
	}
	return a, nil
}

// note notes what the API server sent.
func (a *attachments) note(found any, isThere bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isNews = true
	if accessor, err := meta.Accessor(found); err == nil {
		a.newest = later(a.newest, accessor.GetResourceVersion())
		if delete(a.sent, accessor.GetName()); isThere {
			a.sent[accessor.GetName()] = found.(*appv1.GatewayAttachment)
		}
	}
}

// takeIn takes in what is known by now of a Gateway, and reports whether that is something else than before.
func (a *attachments) takeIn(gateway *appv1.Gateway) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gateway == gateway && !a.isNews {
		return false
	}
	namespaces := gatewayapi.Attached(gateway, maps.Values(a.sent))
	differs := a.gateway == nil || a.gateway.UID != gateway.UID || !equality.Semantic.DeepEqual(namespaces, a.namespaces)
	a.gateway, a.namespaces, a.version, a.isNews = gateway, namespaces, a.newest, false
	if old := gateway.Status.Attachments; old != nil {
		for _, namespace := range old.Namespaces {
			a.version = later(a.version, namespace.Since)
		}
	}
	return differs
}
