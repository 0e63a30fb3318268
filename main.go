// Command gateway is the operator: for every Gateway object it runs a data plane and keeps the status up to date.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	clientset "gateway/generated/app/clientset/versioned"
	gatewayfactory "gateway/generated/app/informers/externalversions"
	"gateway/internal/health"
	"gateway/internal/kubeconfig"
	"gateway/internal/logging"
	"gateway/internal/memory"
	"gateway/internal/operator/gatewayapi"
	"gateway/internal/operator/ingress"
	"gateway/internal/operator/leader"
	"gateway/internal/operator/options"
	"gateway/internal/operator/preflight"
	"gateway/internal/proxypod"
	"gateway/internal/reconnect"
	"gateway/internal/version"
	"gateway/signals"
)

func main() {
	os.Exit(mainCode())
}

// mainCode is main with the exit code returned, so that deferred calls run.
func mainCode() int {
	parsed, err := options.Parse(os.Args[1:], flag.CommandLine)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(options.Usage(flag.CommandLine))
		return 0
	case err != nil:
		logging.Failed("gateway", fmt.Errorf("%w: see gateway -help", err))
		return 2
	case parsed.Version:
		fmt.Print(version.Line("gateway"))
		return 0
	}
	defer logging.Flush()
	logging.Start()
	parsed.Images.JSONLogs = logging.JSON()

	if err := run(signals.SetupSignalHandler(), parsed); err != nil {
		logging.Failed("gateway", err)
		return 1
	}
	return 0
}

// garbage is the percentage for debug.SetGCPercent: most of the time, nothing changes.
const garbage = 50

// run works until ctx is cancelled. It returns an error if the operator cannot work, or not any more.
func run(ctx context.Context, options options.Options) error {
	debug.SetGCPercent(garbage)
	memory.LeaveRoom()
	go memory.GiveBack(ctx)
	config, err := kubeconfig.Load(options.Master, options.Kubeconfig)
	if err != nil {
		return err
	}
	var started atomic.Pointer[health.Check]
	watchdog := leaderelection.NewLeaderHealthzAdaptor(leader.RenewDeadline)
	server, err := health.Start(health.Options{
		Address:   options.HealthAddress,
		Checks:    map[string]health.Check{"/healthz": watchdog.Check, "/readyz": ready(&started)},
		Profiling: options.Profiling,
	})
	if err != nil {
		return err
	}
	logging.Infof("Version %s, working on the cluster at %s; health and metrics on %s", version.String(), config.Host, server.Address())
	err = withAuthority(ctx, options, func(ctx context.Context, authority string) error {
		options.Images.KeyServerCA = authority
		return operate(ctx, config, options, watchdog, &started)
	})
	return errors.Join(err, server.Stop())
}

// ready returns the check that the Controllers exist and their caches are filled.
func ready(started *atomic.Pointer[health.Check]) health.Check {
	return func(request *http.Request) error {
		if filled := started.Load(); filled != nil {
			return (*filled)(request)
		}
		return errors.New("the API server does not answer yet")
	}
}

// fill fills the caches of Controllers until ctx ends.
func fill(ctx context.Context, controller *Controller, routes *gatewayapi.Controller, ingresses *ingress.Controller) {
	controller.Fill(ctx)
	if ingresses != nil {
		go ingresses.Fill(ctx)
	}
	if routes != nil {
		routes.Fill(ctx)
	}
}

// operate creates Controllers, and lets them work while this process leads. It sets in started the check of their
// caches.
func operate(
	ctx context.Context, config *rest.Config, options options.Options, watchdog *leaderelection.HealthzAdaptor,
	started *atomic.Pointer[health.Check],
) error {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = "gateway-operator", -1
	// The lease and events are for a client of its own, whose requests fail soon: a renewal has to be tried again
	// within its deadline.
	leaseConfig := rest.CopyConfig(config)
	leaseConfig.Timeout = leader.RenewDeadline / 2
	leaseClient, gatewayClient, err := clients(leaseConfig, options.KubeAPIQPS)
	if err != nil {
		return err
	}
	needs := preflight.Options{
		Server: config.Host, Namespace: options.Namespace, LeaseNamespace: options.LeaseNamespace(),
		IngressNamespace: options.IngressNamespace, ClusterWatch: len(options.Images.Policy.ClusterWatch) > 0,
	}
	if err := preflight.Await(ctx, leaseClient, gatewayClient, needs); err != nil || ctx.Err() != nil {
		return err
	}
	reconnect.Configure(config)
	kubeClient, gatewayClient, err := clients(config, options.KubeAPIQPS)
	if err != nil {
		return err
	}
	recorder, stopEvents, err := events(leaseClient)
	if err != nil {
		return err
	}
	defer stopEvents()
	inputs := caches(kubeClient, gatewayClient, options)
	controller, err := NewController(kubeClient, gatewayClient, inputs, recorder, options.Images, time.Now)
	if err != nil {
		return err
	}
	routes, err := gatewayAPI(config, kubeClient, gatewayClient, inputs, options)
	if err != nil {
		return err
	}
	ingresses, err := serveIngresses(config, kubeClient, recorder, inputs, options)
	if err != nil {
		return err
	}
	filled := filled(controller, routes)
	started.Store(&filled)
	// The caches are filled before there is a lease, too: whoever takes over does so at once.
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	go fill(watching, controller, routes, ingresses)
	work := func(ctx context.Context) { workOn(ctx, controller, routes, ingresses, options.Workers) }
	if !options.LeaderElect {
		work(ctx)
		return nil
	}
	return leader.Run(ctx, leader.Lease{
		Client: leaseClient.CoordinationV1(), Namespace: options.LeaseNamespace(), Name: options.LeaderElectName, Watchdog: watchdog,
	}, work)
}

// filled returns the check that the caches are filled, including the caches of routes if there are any.
func filled(controller *Controller, routes *gatewayapi.Controller) health.Check {
	return func(request *http.Request) error {
		if err := controller.Ready(request); err != nil || routes == nil {
			return err
		}
		return routes.Ready()
	}
}

// workOn runs the Controllers until ctx ends; routes and ingresses may be nil.
func workOn(ctx context.Context, controller *Controller, routes *gatewayapi.Controller, ingresses *ingress.Controller, workers int) {
	var working sync.WaitGroup
	if routes != nil {
		working.Go(func() { routes.Run(ctx) })
	}
	if ingresses != nil {
		working.Go(func() { ingresses.Run(ctx) })
	}
	controller.Run(ctx, workers)
	working.Wait()
}

// clients returns the two clients, with at most qps requests per second each; 0 or less is no limit.
func clients(config *rest.Config, qps float64) (kubernetes.Interface, clientset.Interface, error) {
	config = rest.CopyConfig(config)
	if qps > 0 {
		config.QPS, config.Burst = float32(qps), max(1, int(2*qps))
	}
	gatewayClient, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a client for Gateways: %w", err)
	}
	// Custom resources are JSON; for everything else protobuf is smaller and faster.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	kubeClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a client for Kubernetes: %w", err)
	}
	return kubeClient, gatewayClient, nil
}

// caches returns the informers that feed the controller, not started.
func caches(kubeClient kubernetes.Interface, gatewayClient clientset.Interface, options options.Options) Inputs {
	gateways := gatewayfactory.NewSharedInformerFactoryWithOptions(gatewayClient, options.Resync, gatewayfactory.WithNamespace(options.Namespace))
	return Inputs{
		Gateways:    gateways.App().V1().Gateways(),
		Proxies:     gateways.App().V1().GatewayProxies(),
		Attachments: gateways.App().V1().GatewayAttachments(),
		Configs:     gateways.App().V1().GatewayConfigs(),
		Filters:     gateways.App().V1().RouteFilters(),
		Policies:    gateways.App().V1().BackendPolicies(),
		Labelled: informers.NewSharedInformerFactoryWithOptions(kubeClient, 0,
			informers.WithNamespace(options.Namespace),
			informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = proxypod.LabelGateway })),
		Services:   informers.NewSharedInformerFactoryWithOptions(kubeClient, 0, informers.WithNamespace(options.Namespace)),
		Namespaces: informers.NewSharedInformerFactory(kubeClient, 0).Core().V1().Namespaces().Informer(),
	}
}

// gatewayAPI returns the Controller for the Gateway API. It is nil if the operator works in one namespace: classes are
// cluster-scoped.
func gatewayAPI(
	config *rest.Config, kubeClient kubernetes.Interface, gatewayClient clientset.Interface, inputs Inputs, options options.Options,
) (*gatewayapi.Controller, error) {
	if options.Namespace != "" {
		return nil, nil
	}
	routes, err := routesclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for the Gateway API: %w", err)
	}
	imports, err := gatewayapi.NewImports(config)
	if err != nil {
		return nil, err
	}
	attached := informers.NewSharedInformerFactoryWithOptions(kubeClient, 0,
		informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = gatewayapi.LabelAttached })).Rbac().V1()
	var clusterBindings cache.SharedIndexInformer
	if len(options.Images.Policy.ClusterWatch) > 0 {
		clusterBindings = attached.ClusterRoleBindings().Informer()
	}
	controller, err := gatewayapi.New(gatewayapi.Clients{Kube: kubeClient, Gateways: gatewayClient, Routes: routes}, gatewayapi.Inputs{
		Gateways: inputs.Gateways, Services: inputs.Services, Proxies: inputs.Proxies.Informer(), Attachments: inputs.Attachments.Informer(),
		Configs: inputs.Configs, Filters: inputs.Filters, Policies: inputs.Policies,
		Endpoints:  inputs.Labelled.Discovery().V1().EndpointSlices().Informer(),
		Namespaces: inputs.Namespaces,
		Bindings:   attached.RoleBindings().Informer(), ClusterBindings: clusterBindings, Imports: imports,
		MayWatchCluster: options.Images.Policy.MayWatchCluster, KeyServer: options.Images.KeyServer != "",
	}, time.Now)
	if err != nil {
		return nil, fmt.Errorf("failed to look after the Gateway API: %w", err)
	}
	return controller, nil
}

// serveIngresses returns the Controller for Ingresses, nil if they are not served.
func serveIngresses(
	config *rest.Config, kubeClient kubernetes.Interface, recorder record.EventRecorder, inputs Inputs, options options.Options,
) (*ingress.Controller, error) {
	if options.IngressNamespace == "" {
		return nil, nil
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client for what Ingresses become: %w", err)
	}
	controller, err := ingress.New(kubeClient, objects, recorder, ingress.Inputs{
		Services: inputs.Services, Gateways: inputs.Gateways, Namespaces: inputs.Namespaces, Namespace: options.IngressNamespace,
	}, time.Now)
	if err != nil {
		return nil, fmt.Errorf("failed to look after Ingresses: %w", err)
	}
	return controller, nil
}

// events returns a recorder of events, and a function that stops it. Events that are not written by then may be lost.
func events(kubeClient kubernetes.Interface) (record.EventRecorder, func(), error) {
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("failed to register the API types: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithCorrelatorOptions(record.CorrelatorOptions{SpamKeyFunc: spamKey}))
	broadcaster.StartLogging(logging.V(2).Infof)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: proxypod.FieldManager}), broadcaster.Shutdown, nil
}

// spamKey groups events for the limit of client-go, which drops some of too many. By default, all events of a Gateway
// with the same type are one group, so a failure recorded at each retry would drop warnings that are recorded once.
func spamKey(event *corev1.Event) string {
	return strings.Join([]string{string(event.InvolvedObject.UID), event.Type, event.Reason}, " ")
}
