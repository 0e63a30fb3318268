package copier

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/logging"
)

const (
	// discoverInterval is how often the copier looks whether the cluster has more of the Gateway API by now.
	discoverInterval = 10 * time.Second
	// listTimeout is how long the API server may take to list all objects, until the log tells what is missing.
	listTimeout = 15 * time.Second
)

const (
	resourceClasses    = "gatewayclasses"
	resourceGateways   = "gateways"
	resourceSets       = "listenersets"
	resourceGrants     = "referencegrants"
	resourceNamespaces = "namespaces"
	resourceSecrets    = "secrets"
)

// resources are those that copies depend on. A cluster need not have ListenerSets.
var resources = []string{
	resourceClasses, resourceGateways, resourceSets, resourceGrants, resourceNamespaces, resourceSecrets,
}

// discover starts the informers of the resources that the cluster has by now, and waits for their objects. It logs
// changes of what is there or missing.
func (c *Copier) discover(ctx context.Context) {
	list, err := c.kube.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		if ctx.Err() == nil {
			logging.Warningf("Trying again: failed to look for the Gateway API: %v", err)
		}
		return
	}
	if err == nil {
		c.start(ctx, list)
	}
	var lists []cache.DoneChecker
	for _, name := range resources {
		if informer := c.informer(name); informer != nil {
			lists = append(lists, informer.HasSyncedChecker())
		}
	}
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	cache.WaitFor(bounded, "", lists...)
	ready, state := c.state()
	if state == c.logged || ctx.Err() != nil {
		return
	}
	c.logged = state
	if !ready {
		logging.Warningf("Waiting: %s", state)
		return
	}
	logging.Infof("Copying certificates, by %s", state)
	c.queue.Add(everything)
}

// start starts those informers of a list of resources that do not run yet.
func (c *Copier) start(ctx context.Context, list *metav1.APIResourceList) {
	found := map[string]cache.SharedIndexInformer{}
	for _, name := range resources {
		isServed := slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
		if !isServed || c.informer(name) != nil {
			continue
		}
		generic, err := c.factory.ForResource(schema.GroupVersion(gatewayv1.GroupVersion).WithResource(name))
		if err == nil {
			err = c.handle(generic.Informer())
		}
		if err != nil {
			logging.Errorf("Not looking at %s: %v", name, err)
			continue
		}
		found[name] = generic.Informer()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, informer := range found { // all of them, before the first one has its objects: nothing is ready before
		c.informers[name] = informer
		go informer.RunWithContext(ctx)
	}
}

// informer returns the informer of a resource, nil if the cluster does not have it.
func (c *Copier) informer(resource string) cache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.informers[resource]
}

// state reports whether everything that is needed was listed once, and names what was listed, or what is missing.
func (c *Copier) state() (ready bool, state string) {
	var absent, unlisted, listed []string
	for _, name := range resources {
		switch informer := c.informer(name); {
		case informer == nil && name != resourceSets:
			absent = append(absent, name)
		case informer == nil:
		case informer.HasSynced():
			listed = append(listed, name)
		default:
			unlisted = append(unlisted, name)
		}
	}
	switch {
	case len(absent) > 0:
		return false, fmt.Sprintf("the cluster does not have %s of %s: install the CRDs of a newer Gateway API",
			strings.Join(absent, ", "), gatewayv1.GroupVersion)
	case len(unlisted) > 0:
		return false, "the API server has not listed " + strings.Join(unlisted, ", ")
	}
	return true, strings.Join(listed, ", ")
}
