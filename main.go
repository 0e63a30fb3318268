// Command gateway is the operator: for every Gateway object it keeps a data plane deployed and the status up to date.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	appv1 "gateway/api/app/v1"
	clientset "gateway/generated/app/clientset/versioned"
	gatewayfactory "gateway/generated/app/informers/externalversions"
	"gateway/internal/health"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/operator/lease"
	"gateway/internal/operator/resources"
	"gateway/internal/preflight"
	"gateway/internal/proxypod"
	"gateway/internal/reconnect"
	"gateway/internal/version"
	"gateway/signals"
)

const (
	// A leader that cannot renew its lease for renewDeadline writes nothing any more; after leaseDuration another one takes over.
	// A leader that stops in order gives the lease up at once.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = time.Second

	// serverPoll is how often an API server that does not answer is asked again, serverLog how often that is logged.
	serverPoll = time.Second
	serverLog  = 30 * time.Second

	// serviceAccountNamespace is where a pod finds the name of its namespace.
	serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// errLeaseLost ends the process: another operator may be at work already.
var errLeaseLost = errors.New("lost the lease: another operator takes over")

// options are the command line.
type options struct {
	master, kubeconfig                    string
	kubeAPIQPS                            float64
	images                                resources.Options
	namespace                             string
	workers                               int
	resync                                time.Duration
	leaderElect                           bool
	leaderElectName, leaderElectNamespace string
	healthAddress                         string
	profiling, version                    bool
}

func main() {
	os.Exit(mainCode())
}

// mainCode is main with the exit code returned, so that deferred calls run.
func mainCode() int {
	var options options
	options.define(flag.CommandLine)
	switch err := options.parse(flag.CommandLine, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		usage(os.Stdout, flag.CommandLine)
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "gateway: %v: see gateway -help\n", err)
		return 2
	case options.version:
		fmt.Print(version.Line("gateway"))
		return 0
	}
	defer glog.Flush()
	logging.RouteKlog()

	if err := run(signals.SetupSignalHandler(), options); err != nil {
		glog.Flush()
		fmt.Fprintf(os.Stderr, "gateway: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// define adds the flags for o to flags, with their defaults.
func (o *options) define(flags *flag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster. "+
		"If empty: $KUBECONFIG, else ~/.kube/config, else, in a pod, its ServiceAccount")
	flags.StringVar(&o.master, "master", "", "`URL` of the API server, instead of the kubeconfig's")
	flags.Float64Var(&o.kubeAPIQPS, "kube-api-qps", -1, "most `requests` per second to the API server. "+
		"0 or less: no limit here, the API server's own priority and fairness decides")
	flags.StringVar(&o.images.AgentImage, "agent-image", "gateway:dev", "`image` with /gateway-agent and /gateway-keys, for the proxy pods")
	flags.StringVar(&o.images.HAProxyImage, "haproxy-image", "haproxy:3.4", "`image` with HAProxy 3.4, for the proxy pods")
	o.images.Policy.AddFlags(flags)
	flags.StringVar(&o.namespace, "namespace", "", "the only `namespace` to work in. If empty: all of them")
	flags.IntVar(&o.workers, "workers", 4, "`number` of Gateways to work on at the same time")
	flags.DurationVar(&o.resync, "resync", 10*time.Minute, "how often to look at every Gateway though nothing changed. 0: never")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "work only while holding a lease, so that several operators can run")
	flags.StringVar(&o.leaderElectName, "leader-elect-name", "gateway-operator", "`name` of the lease")
	flags.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", "", "`namespace` of the lease. "+
		"If empty: $POD_NAMESPACE, else the pod's own, else default")
	flags.StringVar(&o.healthAddress, "health-address", ":8080", "`address` for /healthz, /readyz and /metrics")
	flags.BoolVar(&o.profiling, "profiling", false, "serve /debug/pprof on -health-address, too")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
}

// parse reads and checks the command line. The error is flag.ErrHelp if help was asked for.
func (o *options) parse(flags *flag.FlagSet, arguments []string) error {
	flags.Init(flags.Name(), flag.ContinueOnError)
	flags.SetOutput(new(strings.Builder)) // what it would print is in the error
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.workers < 1:
		return fmt.Errorf(`invalid value "%d" for flag -workers: it has to be at least 1`, o.workers)
	case o.resync < 0:
		return fmt.Errorf(`invalid value "%v" for flag -resync: it must not be negative`, o.resync)
	}
	return o.checkNames()
}

// checkNames looks for names that nothing has: by such a one, the operator would find nothing to do, or never get its lease.
func (o *options) checkNames() error {
	for _, namespace := range []struct{ name, flag string }{{o.namespace, "namespace"}, {o.leaderElectNamespace, "leader-elect-namespace"}} {
		if namespace.name != "" && len(validation.IsDNS1123Label(namespace.name)) > 0 {
			return fmt.Errorf("invalid value %q for flag -%s: it has to be the name of one namespace", namespace.name, namespace.flag)
		}
	}
	if o.leaderElect && len(validation.IsDNS1123Subdomain(o.leaderElectName)) > 0 {
		return fmt.Errorf("invalid value %q for flag -leader-elect-name: it has to be the name of a Lease, like gateway-operator", o.leaderElectName)
	}
	return nil
}

// usage writes the help.
func usage(out interface{ WriteString(string) (int, error) }, flags *flag.FlagSet) {
	var text strings.Builder
	text.WriteString(`gateway is the operator of Gateways (app.example.com/v1): for every Gateway object it keeps a data plane
deployed (proxy pods behind a Service) and writes in the status what became of it.

From a shell:  gateway -kubeconfig=$HOME/.kube/config -alsologtostderr
In a pod:      gateway -logtostderr
It needs the CRD ("make install") and the permissions in artifacts/rbac. It stops in order at the first SIGTERM or
SIGINT, and at once at the second.
`)
	groups := []struct {
		title string
		names []string
	}{
		{"Cluster", []string{"kubeconfig", "master", "kube-api-qps"}},
		{"Proxy pods", []string{"agent-image", "haproxy-image"}},
		{"What Gateways may ask for", []string{
			"allowed-service-types", "allowed-service-annotations", "allowed-load-balancer-classes", "allowed-pod-placement",
		}},
		{"Work", []string{"namespace", "workers", "resync"}},
		{"Leader election", []string{"leader-elect", "leader-elect-name", "leader-elect-namespace"}},
		{"Health, metrics, profiles", []string{"health-address", "profiling"}},
		{"Version", []string{"version"}},
	}
	rest := map[string]bool{}
	flags.VisitAll(func(f *flag.Flag) { rest[f.Name] = true })
	for _, group := range groups {
		fmt.Fprintf(&text, "\n%s:\n", group.title)
		for _, name := range group.names {
			describeFlag(&text, flags.Lookup(name))
			delete(rest, name)
		}
	}
	text.WriteString("\nLogs (glog; written to files in the temporary directory unless a flag says otherwise):\n")
	flags.VisitAll(func(f *flag.Flag) {
		if rest[f.Name] {
			describeFlag(&text, f)
		}
	})
	_, _ = out.WriteString(text.String())
}

func describeFlag(text *strings.Builder, f *flag.Flag) {
	value, description := flag.UnquoteUsage(f)
	fmt.Fprintf(text, "  %s\n        %s", strings.TrimSpace("-"+f.Name+" "+value), description)
	if !slices.Contains([]string{"", "0", "false", ":0"}, f.DefValue) {
		fmt.Fprintf(text, " (default %s)", f.DefValue)
	}
	text.WriteString("\n")
}

// run works until ctx is cancelled. An error says why the operator cannot work, or not any more.
func run(ctx context.Context, options options) error {
	config, err := preflight.Config(options.master, options.kubeconfig)
	if err != nil {
		return err
	}
	var started atomic.Pointer[Controller]
	watchdog := leaderelection.NewLeaderHealthzAdaptor(renewDeadline)
	server, err := health.Start(health.Options{
		Address:   options.healthAddress,
		Checks:    map[string]health.Check{"/healthz": watchdog.Check, "/readyz": ready(&started)},
		Profiling: options.profiling,
	})
	if err != nil {
		return err
	}
	glog.Infof("Version %s, working on the cluster at %s; health and metrics on %s", version.String(), config.Host, server.Address())
	return errors.Join(operate(ctx, config, options, watchdog, &started), server.Stop())
}

// ready returns the check that the Controller has been made and its caches are filled.
func ready(started *atomic.Pointer[Controller]) health.Check {
	return func(request *http.Request) error {
		if controller := started.Load(); controller != nil {
			return controller.Ready(request)
		}
		return errors.New("the API server does not answer yet")
	}
}

// operate makes a Controller, which it shows in started, and lets it work while this process leads.
func operate(
	ctx context.Context, config *rest.Config, options options, watchdog *leaderelection.HealthzAdaptor, started *atomic.Pointer[Controller],
) error {
	// The lease and events are for this client: they have to fail soon, and change nothing that another leader's work rests on.
	// The answer to a renewal that comes after half of its time would count from when it came.
	plain := rest.CopyConfig(config)
	plain.Timeout = renewDeadline / 2
	plainKube, plainGateways, err := clients(plain, options.kubeAPIQPS)
	if err != nil {
		return err
	}
	options.leaderElectNamespace = leaseNamespace(options)
	if err := awaitServer(ctx, plainKube, plainGateways, preflight.Options{
		Server: config.Host, Namespace: options.namespace, LeaseNamespace: options.leaderElectNamespace,
	}); err != nil || ctx.Err() != nil {
		return err
	}
	fence := &lease.Fence{Margin: leaseDuration - renewDeadline}
	config = rest.CopyConfig(config)
	reconnect.Configure(config)
	if options.leaderElect {
		config.Wrap(fence.Wrap)
	}
	kubeClient, gatewayClient, err := clients(config, options.kubeAPIQPS)
	if err != nil {
		return err
	}

	recorder, stopEvents, err := events(plainKube)
	if err != nil {
		return err
	}
	defer stopEvents()
	controller, err := NewController(kubeClient, gatewayClient, caches(kubeClient, gatewayClient, options), recorder, options.images, time.Now)
	if err != nil {
		return err
	}
	started.Store(controller)

	// The caches are filled before there is a lease, too: whoever takes over does so at once.
	watching, stopWatching := context.WithCancel(ctx)
	go controller.Fill(watching)
	err = lead(ctx, plainKube, options, watchdog, fence, func(ctx context.Context) { controller.Run(ctx, options.workers) })
	stopWatching()
	return err
}

// awaitServer returns what keeps the operator from working, if anything does, once the API server answers or ctx is cancelled.
// It waits rather than ends the process: kubelet would start that again ever more slowly.
func awaitServer(
	ctx context.Context, kubeClient kubernetes.Interface, gatewayClient clientset.Interface, options preflight.Options,
) error {
	logged := time.Time{}
	var checked error
	_ = wait.PollUntilContextCancel(ctx, serverPoll, true, func(ctx context.Context) (bool, error) {
		checked = preflight.Check(ctx, kubeClient, gatewayClient, options)
		absent := errors.As(checked, new(*preflight.AbsentError))
		if absent && ctx.Err() == nil && time.Since(logged) > serverLog {
			glog.Errorf("Trying again: %v", checked) // on standard error, too, wherever the log goes
			logged = time.Now()
		}
		return !absent, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return checked
}

// clients returns the two clients, with at most qps requests per second each; 0 or less is no limit.
func clients(config *rest.Config, qps float64) (kubernetes.Interface, clientset.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "gateway-operator"
	config.QPS = -1
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

// caches returns the informers that feed the controller, not started; they hold no more than it reads.
func caches(kubeClient kubernetes.Interface, gatewayClient clientset.Interface, options options) Inputs {
	gateways := gatewayfactory.NewSharedInformerFactoryWithOptions(gatewayClient, options.resync,
		gatewayfactory.WithNamespace(options.namespace), gatewayfactory.WithTransform(children.KeepGateways))
	return Inputs{
		Gateways: gateways.App().V1().Gateways(),
		Labelled: informers.NewSharedInformerFactoryWithOptions(kubeClient, 0,
			informers.WithNamespace(options.namespace), informers.WithTransform(children.KeepChildren),
			informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = proxypod.LabelGateway })),
		Services: informers.NewSharedInformerFactoryWithOptions(kubeClient, 0,
			informers.WithNamespace(options.namespace), informers.WithTransform(children.KeepServices)),
	}
}

// events returns what records events, and what to call when there are no more. Those that are not written by then may be lost.
func events(kubeClient kubernetes.Interface) (record.EventRecorder, func(), error) {
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("failed to register the API types: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithCorrelatorOptions(record.CorrelatorOptions{SpamKeyFunc: spamKey}))
	broadcaster.StartLogging(glog.V(2).Infof)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: proxypod.FieldManager}), broadcaster.Shutdown, nil
}

// spamKey is the same for events that count together when too many are told of: by default those of a Gateway with the same type, so
// that a failure told at each try would drop the warnings that are told once.
func spamKey(event *corev1.Event) string {
	return strings.Join([]string{string(event.InvolvedObject.UID), event.Type, event.Reason}, " ")
}

// leaseNamespace returns where the lease is, "" without leader election.
func leaseNamespace(options options) string {
	switch {
	case !options.leaderElect:
		return ""
	case options.leaderElectNamespace != "":
		return options.leaderElectNamespace
	case os.Getenv("POD_NAMESPACE") != "":
		return os.Getenv("POD_NAMESPACE")
	}
	if own, err := os.ReadFile(serviceAccountNamespace); err == nil {
		return strings.TrimSpace(string(own))
	}
	return metav1.NamespaceDefault // not in a pod
}

// lead runs work once this process holds the lease, or right away without leader election, until ctx is cancelled and work has
// returned; only then is the lease given up. If the lease cannot be renewed, work goes on behind the fence, and so does trying:
// after an outage of the API server, whoever had the lease gets it back at once, while others have to wait for its end. Once
// another process is seen to hold it, lead returns errLeaseLost without waiting.
func lead(
	ctx context.Context, kubeClient kubernetes.Interface, options options,
	watchdog *leaderelection.HealthzAdaptor, fence *lease.Fence, work func(context.Context),
) error {
	if !options.leaderElect {
		work(ctx)
		return nil
	}
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	// Not ctx: the lease must outlast the work.
	electing, stopElecting := context.WithCancel(context.Background())
	defer stopElecting()
	var begun, lost atomic.Bool
	waiting := context.AfterFunc(ctx, func() {
		if !begun.Load() { // else stopElecting is called after work
			stopElecting()
		}
	})
	defer waiting()

	hostname, _ := os.Hostname() // only for people: what follows is unique
	identity := hostname + "_" + string(uuid.NewUUID())
	callbacks := leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			if begun.CompareAndSwap(false, true) {
				work(working)
				stopElecting()
			}
		},
		OnNewLeader: func(holder string) {
			if begun.Load() && holder != "" && holder != identity {
				lost.Store(true)
				stopElecting()
			}
		},
		OnStoppedLeading: func() {},
	}
	for electing.Err() == nil {
		elector, err := newElector(kubeClient, options, identity, callbacks)
		if err != nil {
			return err
		}
		watchdog.SetLeaderElection(elector)
		fence.Guard(elector)
		elector.Run(electing)
	}
	if lost.Load() {
		return errLeaseLost
	}
	return nil
}

func newElector(
	kubeClient kubernetes.Interface, options options, identity string, callbacks leaderelection.LeaderCallbacks,
) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lease.Lock{Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: options.leaderElectNamespace, Name: options.leaderElectName},
			Client:     kubeClient.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            options.leaderElectName,
		Callbacks:       callbacks,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to set up leader election: %w", err)
	}
	return elector, nil
}
