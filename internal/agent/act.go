package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/logging"
	"gateway/internal/tree"
)

const (
	// stoppingTimeout bounds the wait for the worker before to stop. One that hangs for longer answers no requests
	// either.
	stoppingTimeout = 5 * time.Second
	// manyWorkers is from how many old workers on reloads are spaced out: each old one has memory of its own until the
	// drainTimeout has ended its connections. There are at most twice as many up to a drainTimeout of 4 minutes, and
	// one more for each longestSpace of it that is longer.
	manyWorkers  = 8
	longestSpace = 30 * time.Second
)

// chooseAction returns what to do, by state.decide. If that is a reload, it asks HAProxy about old workers first.
func (a *Agent) chooseAction(ctx context.Context, now time.Time) action {
	next := a.state.decide(a.wanted, a.goodNow, false, now)
	if next.kind == actionReload && a.isCrowded(ctx, now) {
		next = a.state.decide(a.wanted, a.goodNow, true, now)
	}
	return next
}

// goodNow returns what was loaded last, with the endpoints of now.
func (a *Agent) goodNow() configuration {
	return a.state.good.inputs(a.source.Cluster).render(a.options.Paths, a.options.Bind)
}

// isCrowded reports whether a reload must wait because of old workers. It never waits while it is not known what
// HAProxy runs.
func (a *Agent) isCrowded(ctx context.Context, now time.Time) bool {
	if !a.state.isKnown() {
		return false
	}
	workers, err := a.master.OldWorkers(ctx)
	if err != nil || workers < manyWorkers {
		return false // the reload reports the problem of the master
	}
	if now.Sub(a.state.running.reloaded) >= min(a.state.disk.table.DrainTimeout/manyWorkers, longestSpace) {
		return false
	}
	reloadsDelayed.Inc()
	logging.V(1).Infof("Version %s waits for a moment: %d old workers still have connections", a.wanted.version, workers)
	return true
}

// act carries out an action. It returns whether HAProxy runs something new.
func (a *Agent) act(ctx context.Context, next action) (changed bool, err error) {
	switch next.kind {
	case actionWait:
		return false, nil
	case actionNone:
		a.state.has(next.target)
		return false, nil
	case actionReload:
		return a.replace(ctx, next)
	case actionTell, actionTellFirst:
		return a.change(ctx, next)
	}
	if err := a.write(next); err != nil {
		return false, err
	}
	// A worker that was only slow to answer does not have this.
	a.state.running.unknown = reasonWrittenDown
	logging.Infof("Version %s is on disk, as %s, for HAProxy to start on", next.target.version, a.state.disk.id)
	return false, nil
}

// replace makes HAProxy load the target, once it is on the disk.
func (a *Agent) replace(ctx context.Context, next action) (changed bool, err error) {
	if err := checkPorts(ctx, a.options.Bind, a.state.disk.table, next.target.table); err != nil {
		a.refuse(&next.target, err, next.fallback)
		return false, err
	}
	before := a.state.disk
	if err := a.write(next); err != nil {
		return false, err
	}
	// A HAProxy that was told to stop forgets that when it reloads; its worker does not answer any more. One that hangs
	// is another matter: a reload brings a new one.
	if _, err := a.worker.Process(ctx); errors.Is(err, syscall.ECONNREFUSED) {
		return false, a.rollBack(before)
	}
	return a.reload(ctx, next, before)
}

// change sends HAProxy the difference to the target. If that fails, HAProxy loads the target.
func (a *Agent) change(ctx context.Context, next action) (changed bool, err error) {
	before := a.state.disk
	if next.kind == actionTellFirst {
		a.state.disk.configuration = next.target
		a.state.disk.postpone(next.plan, time.Now())
	} else if err := a.write(next); err != nil {
		return false, err
	}
	err = a.command(ctx, next.plan)
	if err == nil {
		a.state.runs(a.state.running.worker)
		logging.V(2).Infof("Version %s is live, as %s: %s", next.target.version, a.state.disk.id, next.plan.Summary())
		loads.WithLabelValues("runtime", next.plan.Summary()).Inc()
		return a.state.running.switched.IsZero(), nil
	}
	a.state.running.unknown, next.reason = reasonCommandsFailed, reasonCommandsFailed
	// It may have been told to stop, too.
	if a.observeHAProxy(ctx, time.Now()); a.state.isKnown() || !a.state.running.up {
		logging.Warningf("HAProxy went away while it was told changes: %v", err)
		return false, nil
	}
	logging.Warningf("HAProxy did not take commands, a reload follows: %v", err)
	if err := a.writePostponed(); err != nil {
		return false, err
	}
	return a.reload(ctx, next, before)
}

// command sends the worker the changes.
func (a *Agent) command(ctx context.Context, change plan.Plan) error {
	busy, err := a.worker.Execute(ctx, a.options.Paths, change)
	if err != nil {
		return err
	}
	r := &a.state.running
	for _, server := range change.AddServers {
		delete(r.draining, backendServer{server.Backend, server.Server})
	}
	r.drain(busy)
	r.carriedOut(change, a.state.disk.config, time.Now())
	return nil
}

// reload makes HAProxy load what is on the disk. If HAProxy refuses it, the earlier files are restored.
func (a *Agent) reload(ctx context.Context, next action, before disk) (changed bool, err error) {
	disk := &a.state.disk
	process, err := a.load(ctx, disk.id)
	a.proxyConfig.addReload(time.Now(), disk, next.reason, err)
	if err != nil {
		a.refuse(&disk.configuration, err, next.fallback)
		err = fmt.Errorf("failed to load %s: %w", disk.id, err)
		return false, errors.Join(err, a.rollBack(before))
	}
	a.state.started(process)
	part := ""
	if a.state.running.reloaded = time.Now(); disk.partial {
		// The rest does not wait because of old workers.
		part, a.state.running.reloaded = " in part", time.Time{}
		a.wakeUp()
	}
	logging.Infof("Version %s is live%s, as %s: reloaded because: %s", disk.version, part, disk.id, next.reason)
	loads.WithLabelValues("reload", next.reason).Inc()
	return true, nil
}

// load makes HAProxy load what is on the disk and returns the worker that runs it, once the previous one stops.
func (a *Agent) load(ctx context.Context, id string) (runtime.Process, error) {
	if err := a.master.Reload(ctx); err != nil {
		return runtime.Process{}, err
	}
	process, err := a.worker.AwaitLoad(ctx, id)
	if err != nil {
		return runtime.Process{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, stoppingTimeout)
	defer cancel()
	if err := a.master.AwaitStopping(ctx, a.state.running.worker.PID); err != nil {
		logging.Warningf("HAProxy runs %s, but may answer some requests by the configuration before: %v", id, err)
	}
	return process, nil
}

// refuse notes that a configuration could not be loaded. If HAProxy did not reject it itself, it may become possible at
// any time.
func (a *Agent) refuse(refused *configuration, err error, fallback bool) {
	loadFailures.Inc()
	longest := lastSoonRetry
	if errors.As(err, new(*runtime.RejectedError)) {
		longest = lastRetry
	}
	a.state.refused.add(refused, err.Error(), longest, time.Now())
	if !fallback && a.state.good != nil {
		a.wakeUp()
	}
}

// write puts the target on the disk, for HAProxy to start on.
func (a *Agent) write(next action) error {
	id, config := a.store.nextID(), next.target.config
	all := map[string]tree.Map[string]{}
	maps.Copy(all, config.Maps)
	all[ir.PodsFile] = tree.Of(map[string]string{ir.PodsKey: a.relay.IDs()})
	config.Maps = all
	load := ir.LoadContent(a.options.Namespace, a.options.Gateway, id)
	// The files on the disk may be why HAProxy does not start: all are written anew.
	whole := next.kind == actionReload || !a.state.running.up
	err := a.store.write(id, config, load, whole, next.proven)
	if err == nil {
		err = a.store.point(id)
	}
	if err != nil {
		a.store.files = nil
		// The next try has another id, and what goes wrong each second is to be told once.
		return errors.New(strings.ReplaceAll(err.Error(), id, dirPrefix+"*"))
	}
	a.state.disk = disk{configuration: next.target, id: id, proven: next.proven, written: next.target, writtenAt: time.Now()}
	return nil
}

// writePostponed brings the disk up to date.
func (a *Agent) writePostponed() error {
	d := &a.state.disk
	if d.due.IsZero() {
		return nil
	}
	return a.write(action{target: d.configuration, proven: d.proven})
}

// rollBack restores the configuration that was on the disk before.
func (a *Agent) rollBack(before disk) error {
	if before.id == "" {
		return nil
	}
	a.state.disk, a.store.clean, a.store.files = before, false, nil
	return a.store.point(before.id)
}
