package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gateway/generated/app/clientset/versioned"
	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/health"
	"gateway/internal/routing"
)

const (
	// checkInterval is how often the loop looks whether HAProxy was restarted, and tries again what did not succeed.
	checkInterval = time.Second
	// startInterval takes its place while HAProxy does not answer: its container is about to start.
	startInterval = 50 * time.Millisecond
)

// Options are what an agent works with.
type Options struct {
	// Namespace and Gateway name the Gateway, Pod the pod the agent runs in, which is also its field manager.
	Namespace, Gateway, Pod string
	// Gateways and Core reach the API server.
	Gateways versioned.Interface
	Core     kubernetes.Interface
	// Paths and Bind are HAProxy's.
	Paths config.Paths
	Bind  config.Bind
	// HealthAddress is where /startupz, /healthz, /readyz and /metrics are served.
	HealthAddress string
}

// Agent keeps one HAProxy running by one Gateway.
type Agent struct {
	options Options
	watch   *watcher
	report  *reporter
	probes  *probes

	// wake holds an element when there is something new to look at. What is new is in the watcher's caches, so one
	// element stands for any number of changes.
	wake chan struct{}
	// seen is when the oldest change that no pass has looked at was seen, in Unix nanoseconds; 0 if there is none.
	seen atomic.Int64

	// The loop alone touches what follows.
	store  store
	master *runtime.Master
	worker *runtime.Worker
	state  state
	// compiled is the Gateway as of its generation; its table is nil before one was seen.
	compiled compiled
	// want is the newest configuration that was rendered, from backends.
	want     load
	backends map[routing.Backend]config.BackendState
	// keptID is the configuration on the disk that all older ones were removed for, provenID the one that was last marked
	// as proven.
	keptID, provenID string
	// tidied is when leftovers were last looked at.
	tidied time.Time
	// downSince is when HAProxy stopped answering; zero while it answers.
	downSince time.Time
	// problem is why the last pass could not do what it wanted, if not because of what it loaded.
	problem string
}

// compiled is a Gateway's routing table.
type compiled struct {
	uid        types.UID
	generation int64
	table      *routing.Table
}

// New returns an agent. Nothing runs before Run.
func New(options Options) (*Agent, error) {
	a := &Agent{
		options: options,
		wake:    make(chan struct{}, 1),
		store:   store{current: options.Paths.ConfigDir, epoch: time.Now().Unix()},
		master:  runtime.NewMaster(filepath.Join(options.Paths.RunDir, "master.sock")),
		worker:  runtime.NewWorker(options.Paths.WorkerSocket()),
		report:  newReporter(options),
	}
	var err error
	if a.watch, err = newWatcher(options, a.changed, a.report.again); err != nil {
		return nil, err
	}
	if a.state.disk.id, a.state.proven, err = a.store.open(); err != nil {
		return nil, err
	}
	a.probes = newProbes(filepath.Join(options.Paths.ConfigDir, config.ConfigFile), a.state.proven)
	return a, nil
}

// Run works until ctx ends, then removes the pod's entry from the Gateway's status and returns. An error says why it
// cannot work at all.
func (a *Agent) Run(ctx context.Context) error {
	registerMetrics()
	server, err := health.Start(health.Options{Address: a.options.HealthAddress, Checks: a.probes.checks()})
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	working.Go(func() { a.report.run(ctx) })
	working.Go(func() { a.watch.run(ctx) })
	glog.Infof("Working on Gateway %s/%s", a.options.Namespace, a.options.Gateway)
	a.loop(ctx)
	working.Wait()
	return server.Stop()
}

// changed notes that something changed in the watcher's caches. It never blocks.
func (a *Agent) changed() {
	a.seen.CompareAndSwap(0, time.Now().UnixNano())
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
			return
		case <-a.wake:
		case <-timer.C:
		}
		a.probes.beat(time.Now())
		a.pass(ctx)
		interval := checkInterval
		if !a.state.up {
			interval = startInterval
		}
		timer.Reset(interval)
	}
}

// pass brings HAProxy one step closer to what the caches say; when nothing fails, one is enough.
func (a *Agent) pass(ctx context.Context) {
	var seen time.Time
	if nanos := a.seen.Swap(0); nanos != 0 {
		seen = time.Unix(0, nanos)
	}
	a.look(ctx, time.Now())
	if a.gather(!seen.IsZero()) {
		changed, err := a.act(ctx)
		a.problem = ""
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			glog.Errorf("Gateway %s/%s generation %d: %v", a.options.Namespace, a.options.Gateway, a.want.generation, err)
			a.problem = err.Error()
		case changed && !seen.IsZero():
			propagation.Observe(time.Since(seen).Seconds())
		}
	}
	a.keep()
	a.tell()
	a.tidy(ctx, time.Now())
}

// look finds out which worker runs.
func (a *Agent) look(ctx context.Context, now time.Time) {
	was, before := a.state.up, a.state.worker
	process, err := a.worker.Process(ctx)
	if err != nil {
		a.state.observe(nil)
		if a.downSince.IsZero() {
			a.downSince = now
		}
		if was && ctx.Err() == nil {
			glog.Warningf("HAProxy does not answer: %v", err)
		}
		return
	}
	a.downSince = time.Time{}
	a.state.observe(&process)
	if process != before {
		glog.Infof("HAProxy's worker %d runs %s", process.PID, process.LoadID)
	}
}

// gather renders what the caches say into a.want, again if they may have changed. It returns false if there is no
// Gateway yet. Once there was one, its last state counts, even if it was deleted: the pod's end is not ours to bring.
func (a *Agent) gather(changed bool) bool {
	if !a.watch.synced() {
		return false
	}
	if changed || a.compiled.table == nil {
		a.compile()
	}
	if a.compiled.table == nil {
		return false
	}
	backends := backendStates(a.compiled.table.Backends(), a.watch.cluster())
	if a.want.generation == a.compiled.generation && equalStates(backends, a.backends) && a.want.config.Skeleton != "" {
		return true
	}
	a.backends = backends
	a.want = a.render(a.compiled.generation, *a.compiled.table, backends)
	a.state.forget(a.want.config.Skeleton, a.state.good.config.Skeleton)
	return true
}

func (a *Agent) compile() {
	gateway := a.watch.gateway()
	if gateway == nil || a.compiled.table != nil && a.compiled.uid == gateway.UID && a.compiled.generation == gateway.Generation {
		return
	}
	table, problems := routing.Compile(&gateway.Spec)
	for _, problem := range problems {
		glog.Warningf("Gateway %s/%s generation %d: route %s, listener %s: %s", gateway.Namespace, gateway.Name,
			gateway.Generation, problem.Route, problem.Listener, problem.Message)
	}
	if a.compiled.uid != gateway.UID {
		a.want = load{}
	}
	a.compiled = compiled{uid: gateway.UID, generation: gateway.Generation, table: &table}
	a.probes.wants(gateway.Generation)
}

func (a *Agent) render(generation int64, table routing.Table, backends map[routing.Backend]config.BackendState) load {
	return load{generation: generation, table: table, config: config.Render(config.Input{
		Namespace:  a.options.Namespace,
		Name:       a.options.Gateway,
		Generation: generation,
		Table:      table,
		Backends:   backends,
		Paths:      a.options.Paths,
		Bind:       a.options.Bind,
	})}
}

// again renders a table that was loaded before with the endpoints of today.
func (a *Agent) again(good load) load {
	return a.render(good.generation, good.table, backendStates(good.table.Backends(), a.watch.cluster()))
}

// keep forgets older configurations on the disk, and notes there what HAProxy has run.
func (a *Agent) keep() {
	id := a.state.disk.id
	if id != "" && id != a.keptID {
		if err := a.store.prune(id); err != nil {
			glog.Error(err)
		}
		a.keptID = id
	}
	if id != a.provenID && a.state.proven && a.state.unknown == "" {
		if err := a.store.prove(id); err != nil {
			glog.Error(err)
		}
		a.provenID = id
	}
}

// tell passes on what runs to whoever asks: the API server, kubelet, Prometheus.
func (a *Agent) tell() {
	a.probes.observe(a.state.up, a.state.unknown == "", a.state.live)
	liveGeneration.Set(float64(a.state.live))
	message := a.message(time.Now())
	if a.compiled.table == nil || a.state.live == 0 && message == "" {
		return
	}
	a.report.set(report{uid: a.compiled.uid, generation: a.state.live, message: message})
}

// message says in one line what keeps the newest generation from being live, "" if nothing does.
func (a *Agent) message(now time.Time) string {
	if !a.downSince.IsZero() && now.Sub(a.downSince) > downGrace {
		return "HAProxy does not answer; its log says why"
	}
	if failure, ok := a.state.failures[a.want.config.Skeleton]; ok {
		return fmt.Sprintf("generation %d: %s", a.want.generation, failure.message)
	}
	if a.problem != "" {
		return fmt.Sprintf("generation %d: %s", a.want.generation, a.problem)
	}
	return ""
}
