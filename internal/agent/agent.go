package agent

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gateway/generated/app/clientset/versioned"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/health"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
)

const (
	// checkInterval is how often the loop looks whether HAProxy was restarted, and tries again what did not succeed.
	checkInterval = time.Second
	// startInterval takes its place while HAProxy does not answer, as its container is about to start, and while
	// certificates are awaited.
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
	Paths ir.Paths
	Bind  render.Bind
	// Mounts are what is mounted of the Secrets and ConfigMaps that the Gateway names.
	Mounts Mounts
	// HealthAddress is where /startupz, /healthz, /readyz and /metrics are served.
	HealthAddress string
}

// Agent keeps one HAProxy running by one Gateway.
type Agent struct {
	options Options
	watch   *watcher
	report  *reporter
	probes  *probes
	exhibit *exhibit

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
	// want is the newest configuration that was rendered, from backends and material; of backends, endpoints that
	// changed since are in it too.
	want     load
	backends map[model.Backend]render.BackendState
	// observed are the keys of backends, sorted.
	observed []model.Backend
	mounts   *mountReader
	material material
	// awaiting says that certificates are not there yet.
	awaiting bool
	// fulfilled says that HAProxy answers by all of want.
	fulfilled bool
	// pending is when the oldest change was seen that HAProxy does not answer by yet; zero if there is none.
	pending time.Time
	// reported is the generation that was last reported.
	reported int64
	// littered says that there may be configurations on the disk that nobody wants: older ones, and what was refused.
	littered bool
	// provenID is the configuration on the disk that was last marked as proven.
	provenID string
	// served says that it is noted on the disk that the pod was up to date once.
	served bool
	// reloaded is when HAProxy was last made to reload; zero if it got a part then: the rest does not wait because of
	// old workers.
	reloaded time.Time
	// tidied is when leftovers were last looked at, collected is when what is not used was.
	tidied, collected time.Time
	// downSince is when HAProxy stopped answering, or was last seen to drain; zero while it answers.
	downSince time.Time
	// failing says that it has not answered for a while, and does not drain.
	failing bool
	// problem is why the last pass could not do what it wanted, if not because of what it loaded.
	problem string
}

// compiled is a Gateway's routing table.
type compiled struct {
	uid        types.UID
	generation int64
	table      *routing.Table
	// backends are those of the table, sorted.
	backends []model.Backend
}

// New returns an agent. Nothing runs before Run.
func New(options Options) (*Agent, error) {
	a := &Agent{
		options:  options,
		littered: true,
		backends: map[model.Backend]render.BackendState{},
		wake:     make(chan struct{}, 1),
		store:    store{current: options.Paths.ConfigDir, epoch: time.Now().Unix()},
		master:   runtime.NewMaster(filepath.Join(options.Paths.RunDir, "master.sock")),
		worker:   runtime.NewWorker(options.Paths.WorkerSocket()),
		mounts:   newMountReader(options.Mounts),
	}
	a.exhibit = &exhibit{worker: a.worker, master: a.master}
	a.report = newReporter(options, func(generation int64) {
		a.probes.confirm(generation)
		a.rouse()
	})
	var err error
	if a.watch, err = newWatcher(options, a.changed, a.report); err != nil {
		return nil, err
	}
	if a.state.disk.id, a.state.proven, err = a.store.open(); err != nil {
		return nil, err
	}
	a.served = a.store.served()
	a.probes = newProbes(filepath.Join(options.Paths.ConfigDir, ir.ConfigFile), a.served)
	return a, nil
}

// Run works until ctx ends, then removes the pod's entry from the Gateway's status, unless HAProxy goes on, and
// returns. An error says why it cannot work at all.
func (a *Agent) Run(ctx context.Context) error {
	registerMetrics()
	server, err := health.Start(health.Options{
		Address: a.options.HealthAddress, Checks: a.probes.checks(), Handlers: map[string]http.Handler{proxyconfig.Path: a.exhibit},
	})
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	working.Go(func() { a.report.run(ctx) })
	working.Go(func() { a.watch.run(ctx) })
	glog.Infof("Working on Gateway %s/%s", a.options.Namespace, a.options.Gateway)
	a.loop(ctx)
	working.Wait()
	// At the pod's end, HAProxy has ended before. If it goes on, the next agent makes the pod ready at once: what it
	// runs is to count until then.
	if _, err := a.worker.Process(context.Background()); err != nil {
		a.report.goodbye()
	}
	return server.Stop()
}

// changed notes that something changed in the watcher's caches. It never blocks.
func (a *Agent) changed() {
	a.seen.CompareAndSwap(0, time.Now().UnixNano())
	a.rouse()
}

// rouse makes the loop come round at once.
func (a *Agent) rouse() {
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
			a.preserve(true)
			return
		case <-a.wake:
		case <-timer.C:
		}
		a.probes.beat(time.Now())
		a.pass(ctx)
		interval := checkInterval
		if !a.state.up || a.awaiting {
			interval = startInterval
		}
		timer.Reset(interval)
	}
}

// pass brings HAProxy one step closer to what the caches say; when nothing fails, one is enough.
func (a *Agent) pass(ctx context.Context) {
	seen, waited := a.seen.Swap(0), !a.pending.IsZero()
	// Until HAProxy answers for the first time, it is its start that takes time.
	if seen != 0 && !waited && a.state.worker.PID != 0 {
		a.pending = time.Unix(0, seen)
	}
	a.look(ctx, time.Now())
	if a.gather(seen != 0, time.Now()) {
		changed, err := a.act(ctx)
		a.problem = ""
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			glog.Errorf("Gateway %s/%s generation %d: %v", a.options.Namespace, a.options.Gateway, a.want.generation, err)
			a.problem = err.Error()
		case a.fulfilled:
			if waited || changed && !a.pending.IsZero() {
				propagation.Observe(time.Since(a.pending).Seconds())
			}
			a.pending = time.Time{}
		}
	}
	a.preserve(!a.state.up || time.Since(a.state.disk.late) > checkInterval)
	a.tell()
	a.tidy(ctx, time.Now())
	a.collect(ctx, time.Now())
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
		a.suspect(ctx, now)
		if was && ctx.Err() == nil {
			glog.Warningf("HAProxy does not answer: %v", err)
		}
		return
	}
	a.downSince, a.failing = time.Time{}, false
	a.state.observe(&process)
	if process != before {
		glog.Infof("HAProxy's worker %d runs %s", process.PID, process.LoadID)
	}
}

// suspect finds out why HAProxy has not answered for a while. It asks until HAProxy does not drain: a worker that hangs
// keeps each of the master's connections on which it was asked.
func (a *Agent) suspect(ctx context.Context, now time.Time) {
	switch {
	case a.failing || now.Sub(a.downSince) < downGrace:
	case a.master.IsDraining(ctx):
		a.downSince = now
	default:
		a.failing = true
	}
}

// preserve brings the disk up to date; what was postponed, if it is time for it.
func (a *Agent) preserve(settle bool) {
	if settle {
		if err := a.settle(); err != nil {
			glog.Error(err)
		}
	}
	a.keep()
}

// keep forgets older configurations on the disk, and notes there what HAProxy has run.
func (a *Agent) keep() {
	id := a.state.disk.id
	if a.littered {
		if err := a.store.prune(id); err != nil {
			glog.Error(err)
		}
		a.littered = false
	}
	if id != a.provenID && a.state.proven && a.state.unknown == "" {
		if err := a.store.prove(id); err != nil {
			glog.Error(err)
		} else {
			a.provenID = id
		}
	}
	if !a.served && a.probes.wasServed() {
		if err := a.store.serve(); err != nil {
			glog.Error(err)
		} else {
			a.served = true
		}
	}
}

// tell passes on what runs to whoever asks: the API server, kubelet, Prometheus.
func (a *Agent) tell() {
	a.probes.observe(a.state.up, a.state.sure())
	liveGeneration.Set(float64(a.state.sure()))
	message := a.message()
	a.exhibit.observe(&a.state, a.compiled.generation, message)
	live := a.state.live
	if a.state.good.uid != a.compiled.uid {
		live = 0 // what runs is another Gateway's of this name
	}
	if a.compiled.table == nil || live == 0 && message == "" {
		return
	}
	// Who waits for a generation waits for all of it.
	if a.state.unmounted == "" {
		a.reported = live
	} else if message == "" {
		message = proxypod.AboutGeneration(live, fmt.Sprintf("%s is not mounted: %s", a.state.unmounted, proxypod.AwaitingReplacement))
	}
	a.report.set(report{uid: a.compiled.uid, generation: a.reported, live: live, message: message, problems: a.material.problems})
}

// message says in one line what keeps the newest generation from being live, "" if nothing does.
func (a *Agent) message() string {
	if a.failing {
		return "HAProxy does not answer; its log says why"
	}
	if failure, ok := a.refusal(); ok {
		return proxypod.AboutGeneration(a.want.generation, failure.message)
	}
	if a.problem != "" {
		return proxypod.AboutGeneration(a.want.generation, a.problem)
	}
	return ""
}
