package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	appv1 "gateway/api/app/v1"
	clientset "gateway/generated/app/clientset/versioned"
	gatewayinformers "gateway/generated/app/informers/externalversions/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/operator/metrics"
	"gateway/internal/operator/policy"
	"gateway/internal/operator/queue"
	"gateway/internal/operator/resources"
	"gateway/internal/operator/safely"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// What the operator may do, anywhere it works. It creates Roles, so it must hold all that it grants in them: reading
// Gateways, RouteFilters, Services, EndpointSlices and the Gateway API, and writing GatewayProxies. It can read no
// Secret, no ConfigMap and no pod.
//
// +kubebuilder:rbac:groups=app.example.com,resources=gateways,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=app.example.com,resources=gatewayattachments,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=app.example.com,resources=gatewayconfigs;routefilters;backendpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=app.example.com,resources=backendpolicies/status,verbs=update
// +kubebuilder:rbac:groups=app.example.com,resources=gateways/status;gatewayproxies/status,verbs=patch
// +kubebuilder:rbac:groups=app.example.com,resources=gatewayproxies,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses;gateways;listenersets;httproutes;grpcroutes;tlsroutes;tcproutes;udproutes;backendtlspolicies;referencegrants,verbs=list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gatewayclasses/status;gateways/status;listenersets/status;httproutes/status;grpcroutes/status;tlsroutes/status;tcproutes/status;udproutes/status;backendtlspolicies/status,verbs=update
// +kubebuilder:rbac:groups=gateway.networking.x-k8s.io,resources=xtelemetrypolicies,verbs=list;watch
// +kubebuilder:rbac:groups=gateway.networking.x-k8s.io,resources=xtelemetrypolicies/status,verbs=update
// +kubebuilder:rbac:groups=multicluster.x-k8s.io,resources=serviceimports,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gateway-system,resources=leases,verbs=get;create;update

const (
	// eventSynced is the reason of the Normal event for a sync that changed something or was the first of a generation.
	eventSynced = "Synced"
	// eventStatusFailed is the reason of the Warning event for a status that could not be written. Warnings for what the
	// status says carry the reason of the condition.
	eventStatusFailed = "StatusFailed"

	// A sync that failed is tried again after firstRetry, and then ever more slowly, but at least every lastRetry: that
	// bounds how long the status is wrong once the cause is gone.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 3 * time.Second

	// syncTimeout is how long one sync may wait for the API server, and childrenTimeout for the children alone: what
	// keeps them from being made, as a webhook that hangs, leaves time to write that into the status.
	syncTimeout     = 30 * time.Second
	childrenTimeout = syncTimeout * 2 / 3

	// maxCompared is up to how many matches, at all listeners and hostnames, rules are looked for that get no requests:
	// each sync of a Gateway does it anew.
	maxCompared = 8192
)

// Controller creates and updates the children and the status of every Gateway.
type Controller struct {
	// kubeClient and gatewayClient read what a cache may not have yet. gatewayClient writes the status of Gateways.
	kubeClient    kubernetes.Interface
	gatewayClient clientset.Interface
	// children creates and updates what belongs to a Gateway.
	children *children.Set
	// gateways is the informer's cache of Gateways, overlaid with the statuses just written. Never modify its objects.
	gateways cache.MutationCache
	// gatewayIndexer is the same cache without the overlay; it has children.IndexBackends.
	gatewayIndexer cache.Indexer
	// services lists all Services, stripped to what children.Set.Keep leaves.
	services corelisters.ServiceLister
	// endpointSlices holds the EndpointSlices of the Gateways' own Services, reports the GatewayProxies, and attachments
	// the GatewayAttachments, with children.IndexOwner.
	endpointSlices, reports, attachments cache.Indexer
	// informers fill the caches.
	informers []cache.SharedIndexInformer
	// synced report that the caches above and the caches of the children have been filled.
	synced []cache.InformerSynced
	// working reports whether Run has begun. Before, nothing is put into the queue: while another process leads, all
	// Gateways would wait there, and the queue's metrics would count them as work.
	working atomic.Bool
	// queue holds the names of Gateways to look at. It never hands out one name to two workers at a time.
	queue *queue.Queue
	// recorder writes events.
	recorder record.EventRecorder
	// now is the clock that condition transitions are dated by.
	now func() time.Time
	// policy is what the administrator allows.
	policy *policy.Policy
}

// Inputs is what a Controller reads from. The informers must not have been started: the Controller adds indexes to
// them.
type Inputs struct {
	// A Controller reads Gateways, Proxies and Attachments. Configs, Filters and Policies are for others.
	Gateways    gatewayinformers.GatewayInformer
	Proxies     gatewayinformers.GatewayProxyInformer
	Attachments gatewayinformers.GatewayAttachmentInformer
	Configs     gatewayinformers.GatewayConfigInformer
	Filters     gatewayinformers.RouteFilterInformer
	Policies    gatewayinformers.BackendPolicyInformer
	// Labelled makes the informers of everything that carries proxypod.LabelGateway.
	Labelled informers.SharedInformerFactory
	// Services makes the informer of all Services. Namespaces are for others, too.
	Services   informers.SharedInformerFactory
	Namespaces cache.SharedIndexInformer
}

// NewController returns a Controller that is fed by inputs and writes through the two clients. Call Fill
// afterwards, and Run.
func NewController(
	kubeClient kubernetes.Interface, gatewayClient clientset.Interface, inputs Inputs,
	recorder record.EventRecorder, options resources.Options, now func() time.Time,
) (*Controller, error) {
	gateways := inputs.Gateways.Informer()
	if err := gateways.AddIndexers(cache.Indexers{children.IndexBackends: children.BackendKeys}); err != nil {
		return nil, fmt.Errorf("failed to index Gateways by Service: %w", err)
	}
	endpointSlices := inputs.Labelled.Discovery().V1().EndpointSlices().Informer()
	if err := endpointSlices.AddIndexers(cache.Indexers{children.IndexOwner: children.OwnerKeys}); err != nil {
		return nil, fmt.Errorf("failed to index EndpointSlices by Gateway: %w", err)
	}
	reports := inputs.Proxies.Informer()
	if err := reports.AddIndexers(cache.Indexers{children.IndexOwner: children.OwnerKeys}); err != nil {
		return nil, fmt.Errorf("failed to index GatewayProxies by Gateway: %w", err)
	}
	attachments := inputs.Attachments.Informer()
	if err := attachments.AddIndexers(cache.Indexers{children.IndexOwner: children.OwnerKeys}); err != nil {
		return nil, fmt.Errorf("failed to index GatewayAttachments by Gateway: %w", err)
	}
	c := &Controller{
		kubeClient:     kubeClient,
		gatewayClient:  gatewayClient,
		children:       children.NewSet(kubeClient, inputs.Labelled, inputs.Services, options),
		gateways:       children.Overlay(gateways.GetIndexer()),
		gatewayIndexer: gateways.GetIndexer(),
		services:       inputs.Services.Core().V1().Services().Lister(),
		endpointSlices: endpointSlices.GetIndexer(),
		reports:        reports.GetIndexer(),
		attachments:    attachments.GetIndexer(),
		queue:          queue.New("Gateways", firstRetry, lastRetry),
		recorder:       recorder,
		now:            now,
		policy:         &options.Policy,
	}
	return c, c.watch(inputs)
}

// watch queues the name of a Gateway at every change that may matter to it.
func (c *Controller) watch(inputs Inputs) error {
	informers, err := c.children.Informers()
	if err != nil {
		return err
	}
	endpointSlices, gateways := inputs.Labelled.Discovery().V1().EndpointSlices().Informer(), inputs.Gateways.Informer()
	reports, attachments := inputs.Proxies.Informer(), inputs.Attachments.Informer()
	for _, informer := range []cache.SharedIndexInformer{endpointSlices, gateways, reports, attachments} {
		if err := informer.SetTransform(children.Strip); err != nil {
			return fmt.Errorf("failed to set the transform of the cache of objects: %w", err)
		}
	}
	informers = append(informers, endpointSlices, attachments)
	c.informers = append(slices.Clone(informers), reports, gateways)
	if err := c.handle(reports, queue.OnOther(status.SaysTheSame, c.enqueueOwner)); err != nil {
		return err
	}
	for _, informer := range informers {
		if err := c.handle(informer, queue.OnChange(c.enqueueOwner)); err != nil {
			return err
		}
	}
	if err := c.handle(inputs.Services.Core().V1().Services().Informer(), queue.OnChange(c.enqueueUsers)); err != nil {
		return err
	}
	return c.handle(gateways, cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { c.enqueueGateway(obj, queue.PriorityOf(initial)) },
		UpdateFunc: c.updateGateway,
		// A deleted Gateway's children are the garbage collector's.
	})
}

func (c *Controller) handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("failed to watch for changes: %w", err)
	}
	c.synced = append(c.synced, registration.HasSynced)
	return nil
}

// Fill starts the informers, each once the previous one has its objects. It returns when all have them, or ctx is
// cancelled, which stops them. A listed kind is in memory in full before its objects are stripped: that is a multiple
// of what is kept, and too much for all kinds at once.
func (c *Controller) Fill(ctx context.Context) {
	for _, informer := range c.informers {
		go informer.RunWithContext(ctx)
		if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
			return
		}
	}
}

// Run waits for the caches and then works with the given number of workers until ctx is cancelled. It returns only
// after the last worker has: from then on the Controller writes nothing. It can be called once.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer utilruntime.HandleCrashWithContext(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown() // before Wait: it is what ends the workers

	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced...) {
		return // cancelled
	}
	c.working.Store(true)
	for _, gateway := range c.gatewayIndexer.List() {
		c.enqueueGateway(gateway, queue.Low)
	}
	logging.Infof("Looking after Gateways with %d workers", workers)
	for range workers {
		running.Go(func() {
			for c.processNextWorkItem(ctx) {
			}
		})
	}
	<-ctx.Done()
	logging.Infof("Stopping: waiting for the workers")
}

// Ready returns an error until the caches have been filled.
func (c *Controller) Ready(*http.Request) error {
	for _, synced := range c.synced {
		if !synced() {
			return errors.New("the caches are not filled yet")
		}
	}
	return nil
}

// processNextWorkItem waits for a Gateway and syncs it. It returns false once the queue is shut down.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)

	start := time.Now()
	err := safely.Within(ctx, syncTimeout, func(ctx context.Context) error { return c.syncHandler(ctx, name) })
	outdated := children.OnlyOutdated(err)
	metrics.ObserveSync(time.Since(start), err != nil && !outdated)
	switch {
	case err == nil:
		c.queue.Forget(name)
		logging.V(4).Infof("Synced Gateway %s in %v", name, time.Since(start))
	case ctx.Err() != nil:
		// The shutdown cut it short: the next leader does it again.
	case outdated:
		logging.V(2).Infof("Trying again with what is newer: %s", oneLine(err))
		c.queue.AddRateLimited(name)
	default:
		logging.Errorf("Trying again later: failed to sync Gateway %s: %s", name, oneLine(err))
		c.queue.AddRateLimited(name)
	}
	return true
}

// oneLine is the message of an error that may be several joined ones.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// syncHandler makes the children and the status of one Gateway as they should be. It returns an error exactly if it
// must be called again although no watched object may change.
func (c *Controller) syncHandler(ctx context.Context, name cache.ObjectName) error {
	gateway, err := c.get(name)
	if err != nil {
		return err
	}
	if gateway == nil || gateway.DeletionTimestamp != nil {
		return nil // gone or going, and its children with it
	}
	if gateway, err = c.withAttachments(gateway); err != nil {
		return err
	}
	making, cancel := context.WithTimeout(ctx, childrenTimeout)
	defer cancel()
	made, childErr := c.children.Ensure(making, gateway)
	if errors.Is(childErr, children.ErrNamespaceGone) {
		return nil // the Gateway is about to go, too
	}
	observed, err := c.observe(gateway, made)
	if err != nil {
		return errors.Join(childErr, err)
	}
	observed.Failure = children.Failure(childErr)

	computed := status.Compute(gateway, observed, c.now())
	if status.BecomesProgrammed(gateway, computed) {
		observed.Slices, observed.Reports, err = children.ListProxies(ctx, c.kubeClient, c.gatewayClient, gateway)
		if err != nil {
			return errors.Join(childErr, err)
		}
		computed = status.Compute(gateway, observed, c.now())
	}
	statusErr := c.updateStatus(ctx, gateway, computed)
	c.recordEvents(gateway, computed, made, observed.Failure, childErr, statusErr)
	return errors.Join(childErr, statusErr)
}

// get returns a Gateway, to be only read, or nil if there is none.
func (c *Controller) get(name cache.ObjectName) (*appv1.Gateway, error) {
	obj, exists, err := c.gateways.GetByKey(name.String())
	if err != nil {
		return nil, fmt.Errorf("failed to look up Gateway %s: %w", name, err)
	}
	if !exists {
		return nil, nil
	}
	return obj.(*appv1.Gateway), nil
}

// withAttachments returns a Gateway with the content of its GatewayAttachments.
func (c *Controller) withAttachments(gateway *appv1.Gateway) (*appv1.Gateway, error) {
	found, err := c.attachments.ByIndex(children.IndexOwner, cache.MetaObjectToName(gateway).String())
	if err != nil {
		return nil, fmt.Errorf("failed to look up GatewayAttachments of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	attachments := make([]*appv1.GatewayAttachment, len(found))
	for i, obj := range found {
		attachments[i] = obj.(*appv1.GatewayAttachment)
	}
	slices.SortFunc(attachments, func(a, b *appv1.GatewayAttachment) int { return strings.Compare(a.Name, b.Name) })
	return source.WithAttachments(gateway, attachments), nil
}

// observe collects everything that the status of a Gateway depends on.
func (c *Controller) observe(gateway *appv1.Gateway, made children.Result) (status.Observed, error) {
	translated := source.Translate(gateway)
	compiler := &routing.Compiler{Check: filters.Problem, MostCompared: maxCompared}
	observed := status.Observed{
		Routes:       translated.Routes,
		Problems:     compiler.Problems(translated),
		Unreachable:  compiler.Unreachable(),
		WithoutHTTP3: translated.WithoutHTTP3(),
		Backends:     map[string]*corev1.Service{},
		Service:      made.Service,
		Pods:         made.Pods,
		Refused:      made.Refused,

		MayWatchCluster: c.policy.MayWatchCluster(gateway),
	}
	for _, name := range children.BackendNames(gateway) {
		service, err := c.services.Services(gateway.Namespace).Get(name)
		switch {
		case err == nil:
			observed.Backends[name] = service
		case !apierrors.IsNotFound(err):
			return observed, fmt.Errorf("failed to look up Service %s/%s: %w", gateway.Namespace, name, err)
		}
	}
	found, err := c.endpointSlices.ByIndex(children.IndexOwner, cache.MetaObjectToName(gateway).String())
	if err != nil {
		return observed, fmt.Errorf("failed to look up EndpointSlices of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	for _, slice := range found {
		observed.Slices = append(observed.Slices, slice.(*discoveryv1.EndpointSlice))
	}
	if found, err = c.reports.ByIndex(children.IndexOwner, cache.MetaObjectToName(gateway).String()); err != nil {
		return observed, fmt.Errorf("failed to look up GatewayProxies of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	for _, report := range found {
		observed.Reports = append(observed.Reports, report.(*appv1.GatewayProxy))
	}
	return observed, nil
}

// updateStatus writes the operator's part of the status if it has changed. The API server refuses it if the Gateway was
// changed after the status was computed.
func (c *Controller) updateStatus(ctx context.Context, gateway *appv1.Gateway, computed appv1.GatewayStatus) error {
	if !status.Changed(gateway, computed) {
		return nil
	}
	updated, err := c.gatewayClient.AppV1().Gateways(gateway.Namespace).ApplyStatus(ctx,
		status.ApplyConfiguration(gateway, computed).WithResourceVersion(gateway.ResourceVersion),
		metav1.ApplyOptions{FieldManager: proxypod.FieldManager, Force: true})
	if err == nil {
		c.gateways.Mutation(updated)
	}
	return children.Failed(err, "apply the status of Gateway", cache.MetaObjectToName(gateway))
}

// recordEvents records what a sync did, and problems that were not in the status before. A sync without changes records
// nothing.
func (c *Controller) recordEvents(
	gateway *appv1.Gateway, computed appv1.GatewayStatus, made children.Result, failure *status.ChildFailure, childErr, statusErr error,
) {
	warn := func(reason, message string) { c.recorder.Event(gateway, corev1.EventTypeWarning, reason, message) }
	switch {
	case statusErr == nil:
		for _, warning := range status.Warnings(gateway, computed) {
			warn(warning.Reason, warning.Message)
		}
	case !errors.Is(statusErr, children.ErrOutdated):
		warn(eventStatusFailed, statusErr.Error())
	}
	switch {
	case childErr != nil && failure == nil && !children.OnlyOutdated(childErr):
		warn(status.ReasonApplyFailed, childErr.Error())
	case childErr == nil && len(made.Written) > 0:
		c.recordSynced(gateway, "applied "+strings.Join(made.Written, ", "))
	case childErr == nil && statusErr == nil && gateway.Status.ObservedGeneration != gateway.Generation:
		c.recordSynced(gateway, "nothing to apply but the status")
	}
}

func (c *Controller) recordSynced(gateway *appv1.Gateway, what string) {
	c.recorder.Eventf(gateway, corev1.EventTypeNormal, eventSynced, "generation %d: %s", gateway.Generation, what)
}

// updateGateway queues a Gateway at a resync or after a change by others. The operator's own writes to the conditions
// do not count: a failure with a new text each time would be retried without a pause. The operator never removes a
// condition.
func (c *Controller) updateGateway(old, updated any) {
	before, after := old.(*appv1.Gateway), updated.(*appv1.Gateway)
	switch {
	case before.ResourceVersion == after.ResourceVersion:
		c.enqueueGateway(after, queue.Low)
	case before.UID != after.UID, before.Generation != after.Generation, after.DeletionTimestamp != nil,
		(before.Status.Attachments == nil) != (after.Status.Attachments == nil),
		len(after.Status.Conditions) < len(before.Status.Conditions):
		c.enqueueGateway(after, queue.High)
	}
}

// enqueue puts a Gateway into the queue, once Run has begun.
func (c *Controller) enqueue(name cache.ObjectName, priority queue.Priority) {
	if c.working.Load() {
		c.queue.AddWithPriority(name, priority)
	}
}

// enqueueGateway puts a Gateway into the queue.
func (c *Controller) enqueueGateway(obj any, priority queue.Priority) {
	c.enqueue(cache.MetaObjectToName(obj.(metav1.Object)), priority)
}

// enqueueOwner queues the Gateway of an object: its controller, or the one in its label.
func (c *Controller) enqueueOwner(obj any, priority queue.Priority) {
	object := obj.(metav1.Object)
	if owner, ok := children.Owner(object); ok {
		c.enqueue(owner, priority)
	}
	if name := object.GetLabels()[proxypod.LabelGateway]; name != "" {
		c.enqueue(cache.NewObjectName(object.GetNamespace(), name), priority)
	}
}

// enqueueUsers queues every Gateway with a route to the Service, with priority Low: there may be thousands.
func (c *Controller) enqueueUsers(obj any, _ queue.Priority) {
	keys, err := c.gatewayIndexer.IndexKeys(children.IndexBackends, cache.MetaObjectToName(obj.(metav1.Object)).String())
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("failed to look up Gateways by Service: %w", err)) // no such index: a bug
		return
	}
	for _, key := range keys {
		if name, err := cache.ParseObjectName(key); err == nil { // the keys of a cache are object names
			c.enqueue(name, queue.Low)
		}
	}
}
