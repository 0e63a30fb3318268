// Command plain does the operator's job as sample controllers do it: shared informers of everything, and a sync that
// applies all children and the status each time, whether they differ or not. It exists to be measured against the
// operator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/golang/glog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/generated/app/informers/externalversions"
	applisters "gateway/generated/app/listers/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/health"
	"gateway/internal/operator/metrics"
	"gateway/internal/operator/resources"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` that says how to reach the cluster")
	resync := flag.Duration("resync", 30*time.Second, "how often to look at every object though nothing changed")
	workers := flag.Int("workers", 4, "`number` of Gateways to work on at the same time")
	address := flag.String("health-address", ":8080", "`address` for /metrics")
	profiling := flag.Bool("profiling", false, "serve /debug/pprof on -health-address, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := health.Start(health.Options{Address: *address, Profiling: *profiling})
	if err == nil {
		glog.Infof("Working; health and metrics on %s", server.Address())
		err = run(ctx, *kubeconfig, *resync, *workers)
	}
	if err != nil {
		glog.Exit(err)
	}
}

// controller is what sample-controller's is.
type controller struct {
	kube     kubernetes.Interface
	app      versioned.Interface
	gateways applisters.GatewayLister
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func run(ctx context.Context, kubeconfig string, resync time.Duration, workers int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // as the operator: client-go's default of 5 a second would decide everything
	app, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	gateways, children := externalversions.NewSharedInformerFactory(app, resync), informers.NewSharedInformerFactory(kube, resync)
	c := &controller{
		kube: kube, app: app, gateways: gateways.App().V1().Gateways().Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "Gateways"}),
	}
	synced, err := c.watch(gateways, children)
	if err != nil {
		return err
	}
	gateways.StartWithContext(ctx)
	children.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("stopped before the caches were filled")
	}
	glog.Infof("Looking after Gateways with %d workers", workers)
	for range workers {
		go func() {
			for c.processNextWorkItem(ctx) {
			}
		}()
	}
	<-ctx.Done()
	c.queue.ShutDown()
	return nil
}

// watch puts every Gateway into the queue that changes or is resynced, and every one whose child changes.
func (c *controller) watch(gateways externalversions.SharedInformerFactory, children informers.SharedInformerFactory) ([]cache.InformerSynced, error) {
	enqueue := func(obj any) { c.queue.Add(cache.MetaObjectToName(obj.(metav1.Object))) }
	gatewayInformer := gateways.App().V1().Gateways().Informer()
	registration, err := gatewayInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, updated any) { enqueue(updated) },
	})
	if err != nil {
		return nil, err
	}
	synced := []cache.InformerSynced{registration.HasSynced}
	for _, informer := range []cache.SharedIndexInformer{
		children.Apps().V1().Deployments().Informer(), children.Core().V1().Services().Informer(),
		children.Core().V1().ServiceAccounts().Informer(), children.Rbac().V1().Roles().Informer(),
		children.Rbac().V1().RoleBindings().Informer(), children.Policy().V1().PodDisruptionBudgets().Informer(),
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: c.enqueueOwner,
			UpdateFunc: func(old, updated any) {
				if old.(metav1.Object).GetResourceVersion() != updated.(metav1.Object).GetResourceVersion() {
					c.enqueueOwner(updated)
				}
			},
			DeleteFunc: c.enqueueOwner,
		})
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}

func (c *controller) enqueueOwner(obj any) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return // a tombstone: what is measured deletes nothing
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "Gateway" {
		c.queue.Add(cache.NewObjectName(object.GetNamespace(), owner.Name))
	}
}

func (c *controller) processNextWorkItem(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	start := time.Now()
	err := c.syncHandler(ctx, name)
	metrics.ObserveSync(time.Since(start), err != nil)
	if err != nil {
		glog.Errorf("failed to sync Gateway %s: %v", name, err)
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

// syncHandler applies everything.
func (c *controller) syncHandler(ctx context.Context, name cache.ObjectName) error {
	gateway, err := c.gateways.Gateways(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: proxypod.FieldManager, Force: true}
	_, accountErr := c.kube.CoreV1().ServiceAccounts(name.Namespace).Apply(ctx, resources.DesiredServiceAccount(gateway), options)
	_, roleErr := c.kube.RbacV1().Roles(name.Namespace).Apply(ctx, resources.DesiredRole(gateway), options)
	_, bindingErr := c.kube.RbacV1().RoleBindings(name.Namespace).Apply(ctx, resources.DesiredRoleBinding(gateway), options)
	service, serviceErr := c.kube.CoreV1().Services(name.Namespace).Apply(ctx, resources.DesiredService(gateway, nil), options)
	_, budgetErr := c.kube.PolicyV1().PodDisruptionBudgets(name.Namespace).Apply(ctx, resources.DesiredPodDisruptionBudget(gateway), options)
	deployment, deploymentErr := c.kube.AppsV1().Deployments(name.Namespace).Apply(ctx, resources.DesiredDeployment(gateway,
		resources.Options{AgentImage: "gateway:dev", HAProxyImage: "haproxy:3.4"}), options)
	if err := errors.Join(accountErr, roleErr, bindingErr, serviceErr, budgetErr, deploymentErr); err != nil {
		return err
	}
	return c.applyStatus(ctx, gateway, status.Observed{Service: service, Pods: status.Pods{Wanted: *gateway.Spec.Replicas, Existing: deployment.Status.Replicas}}, options)
}

func (c *controller) applyStatus(ctx context.Context, gateway *appv1.Gateway, observed status.Observed, options metav1.ApplyOptions) error {
	_, observed.Problems = routing.Compile(source.Translate(gateway), filters.Problem)
	computed := status.Compute(gateway, observed, time.Now())
	_, err := c.app.AppV1().Gateways(gateway.Namespace).ApplyStatus(ctx, status.ApplyConfiguration(gateway, computed), options)
	if err != nil {
		return fmt.Errorf("failed to apply the status of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	return nil
}
