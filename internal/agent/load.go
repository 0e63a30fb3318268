package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/golang/glog"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
)

const (
	// liveTimeout bounds the time from the master's word that it started a worker to that worker's answer.
	liveTimeout = 10 * time.Second
	livePoll    = 2 * time.Millisecond
	// stoppingTimeout bounds the wait for the worker before to stop. One that hangs for longer answers no requests
	// either.
	stoppingTimeout = 5 * time.Second
	// manyWorkers is from how many old workers on reloads are spaced out: each old one has memory of its own until the
	// drainTimeout has ended its connections. There are at most twice as many up to a drainTimeout of 4 minutes, and
	// one more for each longestSpace of it that is longer.
	manyWorkers  = 8
	longestSpace = 30 * time.Second
	// maxTidied is how many leftovers are tried at once: HAProxy holds all its threads for each, busy or not.
	maxTidied = 10
	// collectInterval is how long what is not used any more stays at least, and about twice that at most: longer than
	// any request takes to find its route.
	collectInterval = 5 * time.Second
	// downGrace is how long HAProxy may take to start, unless it drains, before the status says that it does not run.
	downGrace = 10 * time.Second
)

// act takes the step that leads to a.want, or to the next best. It returns whether HAProxy runs something new.
func (a *Agent) act(ctx context.Context) (changed bool, err error) {
	now := time.Now()
	a.fulfilled, a.state.crowded = false, false
	if a.isBare() {
		a.state.proven = false
		glog.Warningf("HAProxy has no certificates to start on: generation %d is to be on disk without", a.want.generation)
		return false, a.write(a.want, step{after: a.want.config})
	}
	others := a.others()
	want, index, next := a.choose(ctx, others, now)
	if index < 0 {
		return false, nil
	}
	if !next.write {
		a.state.runsAlready(want)
		a.judge(index)
		return false, nil
	}
	if a.state.up && next.reload != "" {
		if err := checkPorts(ctx, a.options.Bind, a.state.disk.table, want.table); err != nil {
			return false, a.unloadable(err, want, index < len(others))
		}
	}
	before, beforeKnown := a.state.disk, a.state.known
	if a.state.mayPostpone(&next, now) {
		a.postpone(want, next, now)
	} else if err := a.write(want, next); err != nil {
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
			a.judge(index)
			return true, nil
		}
		a.state.unknown, reason = reasonCommandsFailed, reasonCommandsFailed
		// A HAProxy that was told to stop forgets that when it reloads; its worker does not answer any more.
		if a.look(ctx, time.Now()); !a.state.up || a.state.unknown == "" {
			glog.Warningf("HAProxy went away while it was told changes: %v", err)
			return a.state.up, nil
		}
		glog.Warningf("HAProxy did not take commands, a reload follows: %v", err)
		if err := a.settle(); err != nil {
			return false, err
		}
	} else if _, err := a.worker.Process(ctx); errors.Is(err, syscall.ECONNREFUSED) {
		// The same may have happened while this was prepared. One that hangs is another matter: a reload brings a new
		// one.
		return false, a.rollBack(before, beforeKnown)
	}
	if err := a.reload(ctx, reason); err != nil {
		return false, a.failed(err, before, beforeKnown, index < len(others))
	}
	a.judge(index)
	return true, nil
}

// choose is state.choose, but puts off a reload that has to wait.
func (a *Agent) choose(ctx context.Context, others []func() load, now time.Time) (want load, index int, next step) {
	want, index, next = a.state.choose(a.want, others, now)
	if a.state.crowded = index >= 0 && next.reload != "" && a.isCrowded(ctx, now); a.state.crowded {
		return a.state.choose(a.want, others, now)
	}
	return want, index, next
}

// isCrowded says whether a reload has to wait because of old workers. It never has to when it is not known what runs.
func (a *Agent) isCrowded(ctx context.Context, now time.Time) bool {
	if !a.state.up || a.state.unknown != "" {
		return false
	}
	workers, err := a.master.OldWorkers(ctx)
	if err != nil || workers < manyWorkers {
		return false // the reload says what is wrong with the master
	}
	if now.Sub(a.reloaded) >= min(a.state.disk.table.DrainTimeout/manyWorkers, longestSpace) {
		return false
	}
	reloadsDelayed.Inc()
	glog.V(1).Infof("Generation %d waits for a moment: %d old workers still have connections", a.want.generation, workers)
	return true
}

// unloadable notes that a load would be refused, for a reason that may go away any time; more says that there is
// something else to try.
func (a *Agent) unloadable(err error, want load, more bool) error {
	loadFailures.Inc()
	a.state.fail(&want, err.Error(), lastSoonRetry, time.Now())
	if more {
		a.rouse()
	}
	return err
}

// failed takes back what could not be loaded; more says that there is something else to try.
func (a *Agent) failed(err error, before load, known, more bool) error {
	loadFailures.Inc()
	longest := lastSoonRetry
	if errors.As(err, new(*runtime.RejectedError)) {
		longest = lastRetry
	}
	a.state.fail(&a.state.disk, err.Error(), longest, time.Now())
	err = fmt.Errorf("failed to load %s: %w", a.state.disk.id, err)
	rollBackErr := a.rollBack(before, known)
	if more {
		a.rouse()
	}
	return errors.Join(err, rollBackErr)
}

// judge notes whether HAProxy answers by all of a.want, when a load was loaded or runs already.
func (a *Agent) judge(index int) {
	a.fulfilled = index == 0 && a.state.up && a.state.unknown == "" && !a.state.disk.partial
}

// isBare says whether HAProxy cannot start on what is on the disk: gateway-keys has no certificates for it, as when the
// node was restarted and what was in memory is gone. It is asked about them once it runs.
func (a *Agent) isBare() bool {
	return a.awaiting && !a.state.up && a.state.disk.id != "" && !a.state.disk.partial
}

// write puts what the step is to load on the disk, for HAProxy to start on.
func (a *Agent) write(want load, next step) error {
	want.id, want.config = a.store.nextID(), next.after
	files := want.config.AllFiles()
	files[ir.LoadFile] = ir.LoadContent(a.options.Namespace, a.options.Gateway, want.id)
	if !a.state.up {
		a.store.newest.files = nil // What is on the disk may be why HAProxy does not start: all is written anew.
	}
	proven := a.state.proven && next.reload == ""
	a.littered = true
	if err := a.store.write(want.id, files, proven); err != nil {
		return withoutID(err, want.id)
	}
	if proven {
		a.provenID = want.id
	}
	if err := a.store.point(want.id); err != nil {
		return withoutID(err, want.id)
	}
	want.written, want.late = want.config.Backends, time.Time{}
	a.state.disk, a.state.known = want, true
	return nil
}

// withoutID is an error without the load id. The next try has another one, and what goes wrong each second is to be
// told once.
func withoutID(err error, id string) error {
	return errors.New(strings.ReplaceAll(err.Error(), id, dirPrefix+"*"))
}

// postpone lets the disk wait for the servers of a load: to write thousands of routes for one endpoint takes longer
// than all else.
func (a *Agent) postpone(want load, next step, now time.Time) {
	was := &a.state.disk
	want.id, want.config, want.written, want.late = was.id, next.after, was.written, was.late
	if want.late.IsZero() {
		want.late = now
	}
	a.state.disk = want
}

// settle writes what was postponed.
func (a *Agent) settle() error {
	if a.state.disk.late.IsZero() {
		return nil
	}
	return a.write(a.state.disk, step{after: a.state.disk.config})
}

// rollBack makes what was on the disk before what HAProxy starts on.
func (a *Agent) rollBack(before load, known bool) error {
	if before.id == "" {
		return nil
	}
	a.state.disk, a.state.known, a.littered = before, known, true
	return a.store.point(before.id)
}

// reload makes HAProxy load what is on the disk.
func (a *Agent) reload(ctx context.Context, reason string) error {
	process, err := a.load(ctx, a.state.disk.id)
	a.exhibit.reload(time.Now(), a.state.disk, reason, err)
	if err != nil {
		return err
	}
	a.reloaded = time.Now()
	a.state.leftovers = nil
	a.state.running, a.state.unused = a.state.disk.config, plan.Unused{}
	a.state.loaded(process)
	part := ""
	if a.state.disk.partial {
		part = " in part"
		a.reloaded = time.Time{}
		a.rouse()
	}
	glog.Infof("Generation %d is live%s, as %s: reloaded because: %s", a.state.disk.generation, part, a.state.disk.id, reason)
	loads.WithLabelValues("reload", reason).Inc()
	return nil
}

// load makes HAProxy load what is on the disk and returns the worker that runs it, once the one before stops.
func (a *Agent) load(ctx context.Context, id string) (runtime.Process, error) {
	if err := a.master.Reload(ctx); err != nil {
		return runtime.Process{}, err
	}
	process, err := a.awaitLive(ctx, id)
	if err != nil {
		return runtime.Process{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, stoppingTimeout)
	defer cancel()
	if err := a.master.AwaitStopping(ctx, a.state.worker.PID); err != nil {
		glog.Warningf("HAProxy runs %s, but may answer some requests by the configuration before: %v", id, err)
	}
	return process, nil
}

// awaitLive returns the worker that runs a load, when it answers.
func (a *Agent) awaitLive(ctx context.Context, id string) (runtime.Process, error) {
	tick := time.NewTicker(livePoll)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
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

// command tells the worker what to change.
func (a *Agent) command(ctx context.Context, change plan.Plan) error {
	busy, err := a.worker.Execute(ctx, a.options.Paths, change)
	if err != nil {
		return err
	}
	for _, server := range change.AddServers {
		delete(a.state.leftovers, leftover{server.Backend, server.Server})
	}
	for _, server := range busy {
		if a.state.leftovers == nil {
			a.state.leftovers = map[leftover]bool{}
		}
		a.state.leftovers[leftover{server.Backend, server.Server}] = true
	}
	a.state.running, a.state.unused = change.After, a.state.unused.Without(change.After)
	return nil
}

// collect deletes from HAProxy what is not used any more, and was not used already when it was last looked for.
func (a *Agent) collect(ctx context.Context, now time.Time) {
	if !a.state.up || a.state.unknown != "" || now.Sub(a.collected) < collectInterval {
		return
	}
	a.collected = now
	running, used := &a.state.running, &a.state.disk.config
	if len(running.Backends) == len(used.Backends) && len(running.Contents) == len(used.Contents) && len(running.Lists) == len(used.Lists) {
		return
	}
	unused := a.state.unused.Without(a.state.disk.config)
	after, err := a.worker.Remove(ctx, a.options.Paths, plan.Collect(unused, a.state.running))
	a.state.running = after
	if err != nil {
		// It does no harm, and is gone with the next reload.
		glog.V(2).Infof("Left what is not used any more as it is: %v", err)
	}
	a.state.unused = plan.FindUnused(a.state.disk.config, a.state.running)
}

// tidy deletes the servers that were busy and are not any more, once in a while.
func (a *Agent) tidy(ctx context.Context, now time.Time) {
	if !a.state.up || len(a.state.leftovers) == 0 || now.Sub(a.tidied) < checkInterval/2 {
		return
	}
	a.tidied = now
	tries := 0
	for server := range a.state.leftovers {
		if tries++; tries > maxTidied {
			return
		}
		err := a.worker.DeleteServer(ctx, server.backend, server.server)
		if errors.Is(err, runtime.ErrServerBusy) {
			continue
		}
		delete(a.state.leftovers, server)
		if err != nil {
			// It takes no requests, does no harm, and is gone with the next reload.
			glog.V(2).Infof("Left a server of backend %s as it is: %v", server.backend, err)
			return
		}
	}
}

// summary names what a plan does, as a label of a metric.
func summary(change plan.Plan) string {
	switch {
	case len(change.AddCertificates)+len(change.RemoveCertificates) > 0:
		return "certificates"
	case change.OnlyServers():
		return "endpoints"
	case len(change.AddServers)+len(change.RemoveServers) > 0:
		return "endpoints and routes"
	default:
		return "routes"
	}
}
