package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	"gateway/internal/logging"
	"gateway/internal/multicluster"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

const (
	// discoverInterval is how often the operator looks whether the cluster has more of the Gateway API by now.
	discoverInterval = 10 * time.Second
	// listTimeout is how long the API server may take to list the objects of a kind. Afterwards the operator goes on
	// without them.
	listTimeout = 15 * time.Second
)

// The resources that must exist, and those that may exist.
const (
	resourceClasses      = "gatewayclasses"
	resourceGateways     = "gateways"
	resourceListenerSets = "listenersets"
	resourceGrants       = "referencegrants"
	resourceTelemetry    = "xtelemetrypolicies"
	resourceConfigs      = "gatewayconfigs"
	resourceOwn          = "gateways.app.example.com"
	resourceBundles      = "clustertrustbundles"
)

// resourceOf are the resources of the kinds of the Gateway API.
var resourceOf = map[string]string{
	"GatewayClass": resourceClasses, "Gateway": resourceGateways, "ListenerSet": resourceListenerSets, "ReferenceGrant": resourceGrants,
	"BackendTLSPolicy": "backendtlspolicies", "HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes", "TLSRoute": "tlsroutes",
	"TCPRoute": "tcproutes", "UDPRoute": "udproutes", "XTelemetryPolicy": resourceTelemetry, kindImport: proxypod.ResourceImports,
}

// groupVersionOf returns the group and version of a resource of resourceOf.
func groupVersionOf(resource string) schema.GroupVersion {
	switch resource {
	case resourceTelemetry:
		return schema.GroupVersion(v1alpha1.GroupVersion)
	case proxypod.ResourceImports:
		return multicluster.Versions[0]
	}
	return schema.GroupVersion(gatewayv1.GroupVersion)
}

// Other kinds. Objects of kindProxies are our Gateways that reports and EndpointSlices are of. One of kindLate
// is one of our Gateways that is not Programmed any more.
const (
	kindService   = "Service"
	kindImport    = "ServiceImport"
	kindProxies   = "proxies"
	kindNamespace = "Namespace"
	kindBinding   = "RoleBinding"
	kindCluster   = "ClusterRoleBinding"
	kindConfig    = "GatewayConfig"
	kindFilter    = "RouteFilter"
	kindPolicy    = "BackendPolicy"
	kindAttached  = "GatewayAttachment"
	kindBundle    = "ClusterTrustBundle"
	kindLate      = "late"
)

// required are the resources that the Controller cannot do without.
var required = []string{
	resourceClasses, resourceGateways, resourceOwn, "services", "gatewayproxies", "endpointslices", "namespaces",
	"rolebindings", "clusterrolebindings", proxypod.ResourceAttachments,
}

// input is an informer of objects that are not of the Gateway API. Fill runs it if it is ours.
type input struct {
	cache.SharedIndexInformer
	name, kind string
	ours       bool
}

func (i *Inputs) informers() []input {
	all := []input{
		{i.Gateways.Informer(), resourceOwn, source.KindOwn, false},
		{i.Services.Core().V1().Services().Informer(), "services", kindService, false},
		{i.Proxies, "gatewayproxies", kindProxies, false},
		{i.Attachments, proxypod.ResourceAttachments, kindAttached, false},
		{i.Endpoints, "endpointslices", kindProxies, false},
		{i.Namespaces, "namespaces", kindNamespace, true},
		{i.Bindings, "rolebindings", kindBinding, true},
		{i.Configs.Informer(), resourceConfigs, kindConfig, true},
		{i.Filters.Informer(), proxypod.ResourceFilters, kindFilter, true},
		{i.Policies.Informer(), proxypod.ResourceBackendPolicies, kindPolicy, true},
	}
	if i.ClusterBindings != nil {
		all = append(all, input{i.ClusterBindings, "clusterrolebindings", kindCluster, true})
	}
	return all
}

// Fill fills the caches one after the other, and looks which kinds of the Gateway API the cluster has, until ctx is
// cancelled. It can be called once.
func (c *Controller) Fill(ctx context.Context) {
	for _, input := range c.inputs.informers() {
		if input.ours {
			c.fill(ctx, input.name, input.SharedIndexInformer)
		}
	}
	wait.UntilWithContext(ctx, c.discover, discoverInterval)
}

// fill starts an informer, and waits until it has its objects or the time is over.
func (c *Controller) fill(ctx context.Context, name string, informer cache.SharedIndexInformer) {
	go informer.RunWithContext(ctx)
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if cache.WaitFor(bounded, "", informer.HasSyncedChecker()) || ctx.Err() != nil {
		return
	}
	logging.Errorf("The API server has not listed %s in %v: what needs them stays as it is", name, listTimeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled[name] = true
	c.queue.Add(rebuild)
}

// discover starts the informers of those resources that the cluster has by now.
func (c *Controller) discover(ctx context.Context) {
	c.recover()
	has, err := c.has()
	if err != nil {
		if ctx.Err() == nil {
			logging.Warningf("Trying again: failed to look for the Gateway API: %v", err)
		}
		return
	}
	found := map[string]cache.SharedIndexInformer{}
	for kind, name := range resourceOf {
		resource := groupVersionOf(name).WithResource(name)
		if c.informer(name) != nil || !has[resource] {
			continue
		}
		informer := c.inputs.Imports
		if kind != kindImport {
			generic, err := c.factory.ForResource(resource)
			if err != nil {
				logging.Errorf("Not looking after %s: %v", name, err)
				continue
			}
			informer = generic.Informer()
		}
		if err := c.handle(kind, informer); err != nil {
			logging.Errorf("Not looking after %s: %v", name, err)
			continue
		}
		found[name] = informer
	}
	c.mu.Lock()
	maps.Copy(c.served, found) // all of them, before the first one has its objects: nothing is ready before
	c.discovered = true
	// While a control plane is upgraded, one API server has them and another does not. What has been there stays.
	if !c.bundles && has[certificatesv1.SchemeGroupVersion.WithResource(resourceBundles)] {
		c.bundles = true
		c.queue.Add(rebuild)
	}
	c.mu.Unlock()
	names := slices.Sorted(maps.Keys(found))
	if len(names) > 0 {
		logging.Infof("Looking after objects of the Gateway API: %s", strings.Join(names, ", "))
		c.queue.Add(rebuild)
	}
	for _, name := range names {
		c.fill(ctx, name, found[name])
	}
}

// recover notes which stalled resources have been listed meanwhile.
func (c *Controller) recover() {
	missing := c.missing()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.stalled {
		if !slices.Contains(missing, name) {
			logging.Infof("The API server has listed %s after all", name)
			delete(c.stalled, name)
			c.queue.Add(rebuild)
		}
	}
}

// hasBundles reports whether the cluster has had ClusterTrustBundles.
func (c *Controller) hasBundles() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bundles
}

// has returns the resources that the cluster has of the Gateway API's groups, and of ClusterTrustBundles and
// ServiceImports. ServiceImports of any version count as of the first one.
func (c *Controller) has() (map[schema.GroupVersionResource]bool, error) {
	all := map[schema.GroupVersionResource]bool{}
	groups := slices.Concat(multicluster.Versions, []schema.GroupVersion{
		schema.GroupVersion(gatewayv1.GroupVersion), schema.GroupVersion(v1alpha1.GroupVersion), certificatesv1.SchemeGroupVersion,
	})
	for _, group := range groups {
		list, err := c.Kube.Discovery().ServerResourcesForGroupVersion(group.String())
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, err
		}
		for i := range list.APIResources {
			all[group.WithResource(list.APIResources[i].Name)] = true
		}
	}
	for _, version := range multicluster.Versions {
		if all[version.WithResource(proxypod.ResourceImports)] {
			all[multicluster.Versions[0].WithResource(proxypod.ResourceImports)] = true
		}
	}
	return all, nil
}

// informer returns the informer of a resource, nil if the cluster does not have it.
func (c *Controller) informer(resource string) cache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served[resource]
}

// servedResources returns the resources that the cluster has.
func (c *Controller) servedResources() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(slices.Collect(maps.Keys(c.served)), proxypod.ResourceFilters, proxypod.ResourceBackendPolicies)
}

// missing returns the resources whose objects have not been listed yet.
func (c *Controller) missing() []string {
	var names []string
	for _, input := range c.inputs.informers() {
		if !input.HasSynced() {
			names = append(names, input.name)
		}
	}
	for _, name := range slices.Sorted(maps.Values(resourceOf)) {
		if informer := c.informer(name); informer != nil && !informer.HasSynced() {
			names = append(names, name)
		}
	}
	return names
}

// stalledResources returns the missing resources without which the operator goes on.
func (c *Controller) stalledResources() map[string]bool {
	missing := c.missing()
	c.mu.Lock()
	defer c.mu.Unlock()
	stalled := map[string]bool{}
	for _, name := range missing {
		if c.stalled[name] && !slices.Contains(required, name) {
			stalled[name] = true
		}
	}
	return stalled
}

// isReady reports whether the Gateway API exists, and everything that is needed was listed once.
func (c *Controller) isReady() bool {
	if c.informer(resourceClasses) == nil || c.informer(resourceGateways) == nil {
		return false
	}
	return len(c.missing()) == len(c.stalledResources())
}

// Ready returns an error until the caches have been filled. It names those that have not.
func (c *Controller) Ready() error {
	missing := c.missing()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(missing) > 0:
		return fmt.Errorf("the API server has not listed %s yet", strings.Join(missing, ", "))
	case !c.discovered:
		return errors.New("the API server has not said yet which kinds of the Gateway API there are")
	}
	return nil
}
