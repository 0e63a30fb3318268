package agent

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/utils/clock"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/internal/endpoints"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/health"
	"gateway/internal/jwks"
	"gateway/internal/logging"
	"gateway/internal/multicluster"
	"gateway/internal/peers"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
	"gateway/internal/tracing"
)

const (
	// checkInterval is how often the loop looks whether HAProxy was restarted, and tries again what did not succeed.
	checkInterval = time.Second
	// startInterval takes its place while HAProxy does not answer, as its container is about to start, and while
	// certificates are awaited.
	startInterval = 50 * time.Millisecond
	// writeInterval is the least time between two writes, and writeServersInterval how long endpoints may wait for one: a
	// rollout would write all of them once for each pod.
	writeInterval        = 100 * time.Millisecond
	writeServersInterval = time.Second
)

// Core are the clients for Services, EndpointSlices and ClusterTrustBundles. client-go's clientset has all API groups,
// which take long to compile.
type Core interface {
	CertificatesV1() certificatesv1client.CertificatesV1Interface
	CoreV1() corev1client.CoreV1Interface
	DiscoveryV1() discoveryv1client.DiscoveryV1Interface
}

// Options are the settings and clients of an agent.
type Options struct {
	// Namespace and Gateway name the Gateway, Pod and PodUID the pod the agent runs in.
	Namespace, Gateway, Pod string
	PodUID                  types.UID
	// Place is where the pod runs.
	Place endpoints.Place
	// Addresses are the addresses of the node that reach the pod.
	Addresses []netip.Addr
	// Gateways, Core and Routes reach the API server: for our own kinds, for Services, and for the Gateway API.
	Gateways versioned.Interface
	Core     Core
	Routes   routesclient.Interface
	// Imports reaches ServiceImports, of which there may be none.
	Imports *multicluster.Client
	// Source is where the objects come from in place of an API server; nil: there is one. Without an API server nothing is
	// reported, and Pod, PodUID and the clients are not used.
	Source *Source
	// Paths and Bind are HAProxy's.
	Paths ir.Paths
	Bind  render.Bind
	// Mounts are the mounted Secrets and ConfigMaps that the Gateway names.
	Mounts Mounts
	// LocalKeys lets the keys of tokens come from this machine, as they do in a try.
	LocalKeys bool
	// HealthAddress is where /startupz, /healthz, /servingz, /readyz and /metrics are served.
	HealthAddress string
	// Stopping yields something when the pod is to stop. nil: the agent does not learn of it.
	Stopping <-chan os.Signal
	// StopDelay is how long HAProxy goes on to take connections then.
	StopDelay time.Duration
}

// Agent keeps one HAProxy up to date with one Gateway.
type Agent struct {
	options Options
	watch   *watcher
	source  Source
	report  *reporter
	probes  *probes
	// reloads bounds how many are made because of one namespace.
	reloads *reloadBudget
	// proxyConfig answers who asks what runs.
	proxyConfig *configHandler
	// relay connects HAProxy with the HAProxies of other pods, which pods are.
	relay *peers.Relay
	pods  []peers.Pod
	// tracer sends spans of sampled requests.
	tracer *tracing.Exporter
	// traces answers questions in annotations of routes; nil: there is no API server.
	traces *routeTraces
	// wake holds an element when the loop is to come round at once. What is new is in the source, so one element stands
	// for any number of changes.
	wake chan struct{}
	// delay measures how long changes take.
	delay delay

	// The loop alone touches what follows.
	store  store
	master *runtime.Master
	worker *runtime.Worker
	mounts *mountReader
	keys   *jwks.Fetcher
	// inputs are what was observed but of HAProxy, and wanted is what they compile to.
	inputs inputs
	wanted configuration
	// state is the state of HAProxy, as far as known.
	state   state
	cleanup cleanup
	// problem is why the last pass could not do what it wanted, if not because of what it loaded.
	problem string
	// fault is the panic that keeps the loop from finding out what is wanted; "": none. nextLook is when it tries again.
	fault    string
	nextLook time.Time
}

// New returns an agent. Nothing runs before Run.
func New(options Options) (*Agent, error) {
	a := &Agent{
		options: options,
		wake:    make(chan struct{}, 1),
		store:   store{current: options.Paths.ConfigDir, epoch: time.Now().Unix()},
		master:  runtime.NewMaster(filepath.Join(options.Paths.RunDir, "master.sock")),
		worker:  runtime.NewWorker(options.Paths.WorkerSocket()).Exclusively(options.Mounts.CertificatesDir),
		reloads: newReloadBudget(options.Namespace),
		mounts:  newMountReader(options.Mounts),
	}
	a.mounts.files.mayTake = a.reloads.take
	a.keys = jwks.New(filepath.Join(filepath.Dir(options.Paths.ConfigDir), "jwks"), options.LocalKeys, a.wakeUp)
	a.relay = peers.New(options.Pod, options.Paths.PeersSocket(), proxypod.HealthPort)
	a.tracer = tracing.New(tracing.Source{Namespace: options.Namespace, Gateway: options.Gateway, Pod: options.Pod, PodUID: string(options.PodUID)})
	a.proxyConfig = &configHandler{worker: a.worker, master: a.master}
	if options.Source != nil {
		a.source = *options.Source
	} else {
		a.useAPIServer()
	}
	a.mounts.files.bundles = newBundles(a.source.Bundle)
	var err error
	if a.state.disk.id, a.state.disk.proven, err = a.store.open(); err != nil {
		return nil, err
	}
	a.probes = newProbes(filepath.Join(options.Paths.ConfigDir, ir.ConfigFile), a.store.served)
	return a, nil
}

// useAPIServer makes the agent read objects from the API server, and report to it.
func (a *Agent) useAPIServer() {
	a.report = newReporter(a.options, clock.RealClock{}, func(uid types.UID, generation int64) {
		a.probes.confirm(uid, generation)
		a.wakeUp()
	})
	a.watch = newWatcher(a.options)
	a.traces = newRouteTraces(a.options, a.proxyConfig)
	a.watch.traced = a.traces.note
	a.watch.reloads = a.reloads
	a.source = a.watch.source()
}

// Run works until ctx ends. It returns an error if it cannot work at all.
func (a *Agent) Run(ctx context.Context) error {
	registerMetrics()
	requests.SetNamespace(a.options.Namespace)
	decisions.source.Store(&decisionsSource{a.worker, a.options.Namespace})
	server, err := health.Start(health.Options{
		Address: a.options.HealthAddress, Checks: a.probes.checks(), Handlers: map[string]http.Handler{
			proxyconfig.Path: a.proxyConfig, proxyconfig.UnderWayPath: http.HandlerFunc(a.proxyConfig.serveUnderWay), peers.Path: a.relay,
		},
	})
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	if err := a.serveHAProxy(ctx); err != nil {
		return errors.Join(err, server.Stop())
	}
	if a.report != nil {
		working.Go(func() { a.report.run(ctx) })
		working.Go(func() { a.traces.run(ctx) })
	}
	working.Go(func() { a.tracer.Run(ctx) })
	working.Go(func() { a.source.Run(ctx, a.changed) })
	working.Go(func() { a.mounts.follow(ctx, a.wakeUp) })
	working.Go(func() { a.awaitStop(ctx) })
	logging.Infof("Working on Gateway %s/%s", a.options.Namespace, a.options.Gateway)
	a.loop(ctx)
	working.Wait()
	return server.Stop()
}

// changed notes that the source has changes. It never blocks.
func (a *Agent) changed() {
	a.delay.start(time.Now())
	a.wakeUp()
}

// wakeUp starts the next pass at once.
func (a *Agent) wakeUp() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *Agent) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			a.updateDisk(true)
			return
		case <-a.wake:
		case <-timer.C:
		}
		a.probes.beat(time.Now())
		a.pass(ctx)
		interval := checkInterval
		if !a.state.running.up || a.inputs.awaiting {
			interval = startInterval
		}
		if due := a.state.disk.due; !due.IsZero() {
			interval = min(interval, max(time.Until(due), startInterval))
		}
		timer.Reset(interval)
	}
}

// pass brings HAProxy one step closer to the wanted configuration. Without failures, one pass is enough.
func (a *Agent) pass(ctx context.Context) {
	waited := a.delay.observe(a.state.running.worker.PID != 0)
	a.observeHAProxy(ctx, time.Now())
	a.observePods(ctx)
	a.announceStop(ctx)
	a.reloads.begin(sync.OnceValue(func() bool { return a.isCrowded(ctx, time.Now()) }))
	observed := a.observe(ctx, time.Now())
	a.tracer.Update(a.inputs.table)
	if a.traces != nil {
		a.traces.update(a.inputs.table)
	}
	if observed {
		next := a.chooseAction(ctx, time.Now())
		a.reloads.charge(next.due)
		changed, err := a.act(ctx, next)
		a.problem = ""
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			logging.Errorf("Version %s: %v", a.wanted.version, err)
			a.problem = err.Error()
		case a.fault == "" && !next.fallback && (changed || next.kind == actionNone) && a.state.isKnown() && !a.state.disk.partial:
			a.delay.end(waited || changed)
		}
	}
	if a.reloads.postponed {
		a.wakeUp()
	}
	a.updateDisk(!a.state.running.up || !time.Now().Before(a.state.disk.due))
	a.reportState()
	a.deleteDrained(ctx, time.Now())
	a.deleteUnused(ctx, time.Now())
}

// updateDisk marks on the disk what HAProxy has run, and removes older configurations. all means that postponed writes
// are due.
func (a *Agent) updateDisk(all bool) {
	var errs []error
	if all && !a.state.disk.due.IsZero() {
		if err := a.writePostponed(); err != nil {
			a.state.disk.due, a.state.disk.problem = time.Now().Add(checkInterval), err.Error()
			errs = append(errs, err)
		} else if a.state.isKnown() {
			a.state.runs(a.state.running.worker)
		}
	}
	errs = append(errs, a.store.prune(a.state.disk.id))
	if a.state.disk.proven && a.state.running.unknown == "" {
		errs = append(errs, a.store.prove(a.state.disk.id))
	}
	if a.probes.wasServed() {
		errs = append(errs, a.store.serve())
	}
	for _, err := range errs {
		if err != nil {
			logging.Errorf("%v", err)
		}
	}
}

// reportState passes on what runs to the API server, kubelet and Prometheus.
func (a *Agent) reportState() {
	r, sure, problems := &a.state.running, a.state.sure(), a.problems()
	a.probes.observe(r.up, sure.uid, sure.generation())
	liveGeneration.Set(float64(sure.generation()))
	a.proxyConfig.observe(&a.state, a.wanted.version, problems)
	live, complete := r.live, r.complete
	if live.uid != a.inputs.uid { // what runs is another Gateway's of this name
		live, complete = version{}, version{}
	}
	if len(a.inputs.origins) == 0 || live.isNone() && len(problems) == 0 {
		return
	}
	if a.report == nil {
		a.probes.confirm(live.uid, live.generation())
		return
	}
	// Clients that wait for a generation wait for all of it.
	if r.unmounted != "" && len(problems) == 0 {
		problems = append(problems, a.newGatewayProblem(live, appv1.ProblemAwaitingReplacement, r.unmounted+a.options.Mounts.missing()))
	}
	problems = append(problems, a.inputs.material.problems...)
	waiting := a.reloads.problems() // where there is no room for them, they are not missed
	problems = append(problems, waiting[:max(0, min(len(waiting), maxProblems-len(problems)))]...)
	a.report.set(appv1.GatewayProxyStatus{
		Gateway: appv1.ProxiedGateway{UID: a.inputs.uid}, ObservedGeneration: complete.generation(),
		ResourceVersion: complete.versions.Base, Resources: complete.versions.Exceptions,
		Watch:    cmp.Or(complete.versions.Watch, appv1.WatchNamespaces),
		Problems: problems,
	}, complete.versions.Edits, slices.ContainsFunc(a.pods, func(pod peers.Pod) bool { return pod.Name == a.options.Pod }))
}

// problems returns what keeps the wanted configuration from being live.
func (a *Agent) problems() []appv1.ProxyProblem {
	about, reason, message := a.wanted.version, appv1.ProblemWriteFailed, cmp.Or(a.problem, a.state.disk.problem)
	if refused, ok := a.state.refused.of(&a.wanted); ok {
		reason, message = appv1.ProblemLoadFailed, refused.message
	}
	if a.fault != "" {
		about, reason, message = version{origins: a.inputs.origins}, appv1.ProblemLoadFailed, a.fault
	}
	if a.state.running.failing {
		reason, message = appv1.ProblemHAProxyNotAnswering, "HAProxy does not answer; its log says why"
	}
	if message == "" {
		return nil
	}
	return []appv1.ProxyProblem{a.newGatewayProblem(about, reason, message)}
}

// newGatewayProblem is a problem of a version of the Gateway as a whole.
func (a *Agent) newGatewayProblem(of version, reason appv1.ProxyProblemReason, message string) appv1.ProxyProblem {
	origin := appv1.ProblemOrigin{Kind: "Gateway", Namespace: a.options.Namespace, Name: a.options.Gateway, Generation: of.generation()}
	return appv1.ProxyProblem{Origin: origin, Reason: reason, Message: message}
}
