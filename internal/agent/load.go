package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/golang/glog"

	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/routing"
)

const (
	// liveTimeout bounds the time from the master's word that it started a worker to that worker's answer.
	liveTimeout = 10 * time.Second
	livePoll    = 2 * time.Millisecond
	// downGrace is how long HAProxy may take to start before the status says that it does not run.
	downGrace = 10 * time.Second
)

// act takes the step that leads to a.want, or to the next best. It returns whether HAProxy runs something new.
func (a *Agent) act(ctx context.Context) (changed bool, err error) {
	want, next := a.state.choose(a.want, a.again, time.Now())
	if !next.write {
		return false, nil
	}
	before, beforeKnown := a.state.disk, a.state.known
	if err := a.write(want, next); err != nil {
		return false, err
	}
	if !a.state.up {
		// A worker that was only slow to answer does not have this.
		a.state.unknown = reasonWrittenDown
		glog.Infof("Generation %d is on disk, as %s, for HAProxy to start on", want.generation, a.state.disk.id)
		return false, nil
	}
	reason := next.reload
	if reason == "" {
		if err = a.command(ctx, next.plan); err == nil {
			a.state.loaded(a.state.worker)
			glog.V(2).Infof("Generation %d is live, as %s: %s", want.generation, a.state.disk.id, summary(next.plan))
			loads.WithLabelValues("runtime", summary(next.plan)).Inc()
			return true, nil
		}
		a.state.unknown, reason = reasonCommandsFailed, reasonCommandsFailed
		// A HAProxy that was told to stop forgets that when it reloads; its worker does not answer any more.
		if a.look(ctx, time.Now()); !a.state.up || a.state.unknown == "" {
			glog.Warningf("HAProxy went away while it was told changes: %v", err)
			return a.state.up, nil
		}
		glog.Warningf("HAProxy did not take commands, a reload follows: %v", err)
	}
	if err := a.reload(ctx, reason); err != nil {
		loadFailures.Inc()
		a.state.fail(a.state.disk.config.Skeleton, err.Error(), time.Now())
		return false, errors.Join(fmt.Errorf("failed to load %s: %w", a.state.disk.id, err), a.rollBack(before, beforeKnown))
	}
	return true, nil
}

// write puts what the step is to load on the disk, for HAProxy to start on.
func (a *Agent) write(want load, next step) error {
	want.id, want.config = a.store.nextID(), next.after
	files := want.config.Files(want.id)
	if a.state.proven && next.reload == "" {
		files[provenName] = nil
	}
	if err := a.store.write(want.id, files); err != nil {
		return err
	}
	if err := a.store.point(want.id); err != nil {
		return err
	}
	a.state.disk, a.state.known = want, true
	return nil
}

// rollBack makes what was on the disk before what HAProxy starts on.
func (a *Agent) rollBack(before load, known bool) error {
	if before.id == "" {
		return nil
	}
	a.state.disk, a.state.known = before, known
	return a.store.point(before.id)
}

// reload makes HAProxy load what is on the disk.
func (a *Agent) reload(ctx context.Context, reason string) error {
	process, err := a.load(ctx, a.state.disk.id)
	if err != nil {
		return err
	}
	a.state.leftovers = nil
	a.state.loaded(process)
	glog.Infof("Generation %d is live, as %s: reloaded because: %s", a.state.live, a.state.disk.id, reason)
	loads.WithLabelValues("reload", reason).Inc()
	return nil
}

// load makes HAProxy load what is on the disk and returns the worker that runs it.
func (a *Agent) load(ctx context.Context, id string) (runtime.Process, error) {
	if err := a.master.Reload(ctx); err != nil {
		return runtime.Process{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	tick := time.NewTicker(livePoll)
	defer tick.Stop()
	for {
		process, err := a.worker.Process(ctx)
		if err == nil && process.LoadID == id {
			return process, nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("it still runs %s", process.LoadID)
			}
			return runtime.Process{}, fmt.Errorf("HAProxy's new worker did not answer: %w", err)
		case <-tick.C:
		}
	}
}

// command tells the worker what to change. A request is never sent to a server that is not there yet, nor to one that is
// not there any more: servers are added before the map, removed after it.
func (a *Agent) command(ctx context.Context, plan config.Plan) error {
	for _, change := range plan.Add {
		if err := a.worker.AddServer(ctx, change.Backend, change.Server); err != nil {
			return err
		}
		delete(a.state.leftovers, change)
	}
	if plan.ReplaceMap {
		if err := a.worker.ReplaceMap(ctx, a.options.Paths.MapPath(), plan.Map); err != nil {
			return err
		}
	}
	for _, change := range plan.Remove {
		if err := a.remove(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// remove takes a server out of use, for good or until it has no connections.
func (a *Agent) remove(ctx context.Context, change config.ServerChange) error {
	err := a.worker.RemoveServer(ctx, change.Backend, change.Server)
	if errors.Is(err, runtime.ErrServerBusy) {
		if a.state.leftovers == nil {
			a.state.leftovers = map[config.ServerChange]bool{}
		}
		a.state.leftovers[change] = true
		return nil
	}
	return err
}

// tidy deletes the servers that were busy and are not any more, once in a while.
func (a *Agent) tidy(ctx context.Context, now time.Time) {
	if !a.state.up || len(a.state.leftovers) == 0 || now.Sub(a.tidied) < checkInterval/2 {
		return
	}
	a.tidied = now
	for _, change := range slices.Collect(maps.Keys(a.state.leftovers)) {
		delete(a.state.leftovers, change)
		if err := a.remove(ctx, change); err != nil {
			// It takes no requests, does no harm, and is gone with the next reload.
			glog.V(2).Infof("Left a server of backend %s as it is: %v", change.Backend, err)
			return
		}
	}
}

// summary names what a plan does, as a label of a metric.
func summary(plan config.Plan) string {
	endpoints := len(plan.Add)+len(plan.Remove) > 0
	switch {
	case endpoints && plan.ReplaceMap:
		return "endpoints and routes"
	case endpoints:
		return "endpoints"
	default:
		return "routes"
	}
}

func equalStates(a, b map[routing.Backend]config.BackendState) bool {
	return reflect.DeepEqual(a, b)
}
