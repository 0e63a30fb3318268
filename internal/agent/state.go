package agent

import (
	"maps"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
)

// Reasons for a reload that are not plan.Diff's. They are label values of a metric.
const (
	reasonAgentRestarted = "agent restarted"
	reasonUnknown        = "HAProxy runs an unknown configuration"
	reasonCommandsFailed = "runtime commands failed"
	reasonWrittenDown    = "changed while HAProxy did not answer"
)

// state is the known state of HAProxy.
type state struct {
	disk    disk
	running running
	// good is what was loaded last; it goes on when a newer one is refused. It is nil before anything was.
	good    *configuration
	refused refusals
}

// disk is what HAProxy starts on.
type disk struct {
	// configuration is the zero one if it is not known, as it was written by an earlier agent.
	configuration
	// id is the load id; "" if there is nothing on the disk.
	id string
	// proven reports whether HAProxy has run the sections, and so is sure to start on them.
	proven bool
	// written is what is on the disk: the configuration, or what it was a moment ago. writtenAt is when it was put there.
	written   configuration
	writtenAt time.Time
	// due is when the configuration has to be on the disk; zero if it is there. problem is why it could not be written.
	due     time.Time
	problem string
}

// postpone notes that HAProxy has run a change that is not on the disk yet. During many changes, later ones do not wait
// for the disk, and are written together.
func (d *disk) postpone(told plan.Plan, now time.Time) {
	due := d.writtenAt.Add(writeInterval)
	if due.Before(now) {
		due = now
	}
	if told.OnlyServers() {
		due = now.Add(writeServersInterval)
	}
	if d.due.IsZero() || due.Before(d.due) {
		d.due = due
	}
}

// isWritten reports whether everything but endpoints is on the disk.
func (d *disk) isWritten() bool { return d.due.IsZero() || d.written.version.hash == d.version.hash }

// running is what HAProxy is known to run.
type running struct {
	// up reports whether the worker answered when last asked. downSince is when it stopped answering, or was last seen to
	// drain; zero while it answers. failing reports whether it has not answered for a while, and does not drain.
	up, failing bool
	downSince   time.Time
	// worker is the one that answered last.
	worker runtime.Process
	// unknown is why it may not run exactly what is on the disk; "" when it does.
	unknown string
	// config is disk.config, and what ran before and is not used any more. unused is what has not been used since
	// unusedSince, when that was last looked for.
	config      ir.Config
	unused      plan.Unused
	unusedSince time.Time
	// switched is when the lines of names that config holds were changed; zero if it holds none.
	switched time.Time
	// draining are servers that are out of use and that HAProxy cannot delete while they have connections.
	draining map[backendServer]bool
	// pods are the ids that it was told of the pods whose requests count together; "" if that was not yet.
	pods string
	// closing is the worker that was told that the pod is to stop.
	closing runtime.Process
	// reloaded is when HAProxy was last made to reload; zero if it got a part then.
	reloaded time.Time
	// live is the version that the worker answers by. unmounted names something that is left out of it because it is not
	// mounted in this pod; "" if nothing is. complete is the newest version of which nothing was left out, and that is on
	// the disk.
	live, complete version
	unmounted      string
}

// isSettled reports whether all handshakes have ended that began before names were held.
func (r *running) isSettled(now time.Time) bool {
	return !r.switched.IsZero() && now.Sub(r.switched) > ir.HandshakeTimeout+time.Second // HAProxy's clock is another one
}

// carriedOut notes what the worker runs after a plan.
func (r *running) carriedOut(change plan.Plan, used ir.Config, now time.Time) {
	r.config, r.unused = change.After, r.unused.Without(used)
	switch {
	case len(r.config.Held) == 0:
		r.switched = time.Time{}
	case change.Switches:
		r.switched = now
	}
}

// backendServer is a server of a backend.
type backendServer struct {
	backend string
	ir.Server
}

// drain notes servers that are out of use and still have connections.
func (r *running) drain(busy []plan.Server) {
	if r.draining == nil {
		r.draining = map[backendServer]bool{}
	}
	for _, server := range busy {
		r.draining[backendServer{server.Backend, server.Server}] = true
	}
}

// observe notes which worker answers, nil if none does.
func (s *state) observe(worker *runtime.Process) {
	r := &s.running
	r.up = worker != nil
	if !r.up || *worker == r.worker {
		return
	}
	r.worker = *worker
	r.draining, r.pods = nil, ""
	switch {
	case worker.LoadID != s.disk.id:
		r.unknown, r.live, r.complete = reasonUnknown, version{}, version{}
	case len(s.disk.config.Sections) == 0:
		r.unknown, r.live, r.complete = reasonAgentRestarted, version{}, version{}
		s.disk.proven = true
	default:
		if !s.disk.due.IsZero() {
			s.disk.configuration, s.disk.due = s.disk.written, time.Time{}
		}
		s.started(*worker)
	}
}

// started notes that the worker was started on the files on the disk.
func (s *state) started(worker runtime.Process) {
	s.running.config, s.running.unused, s.running.draining, s.running.pods = s.disk.config, plan.Unused{}, nil, ""
	s.running.switched = time.Time{}
	s.runs(worker)
}

// runs notes that the worker runs exactly the files on the disk, but for names that are held.
func (s *state) runs(worker runtime.Process) {
	r := &s.running
	r.worker, r.up, r.unknown = worker, true, ""
	s.disk.proven = true
	good := s.disk.configuration
	s.good = &good
	if !s.disk.partial && r.switched.IsZero() {
		r.live, r.unmounted = s.disk.version, s.disk.material.unmounted
		if r.unmounted == "" && s.disk.isWritten() {
			r.complete = r.live
		}
	}
	s.refused.remove(&good)
}

// has notes that the worker runs a configuration already. Its inputs may be new.
func (s *state) has(target configuration) {
	if !s.isKnown() {
		return
	}
	target.config = s.disk.config
	s.disk.configuration = target
	s.runs(s.running.worker)
}

// isKnown reports whether it is known what HAProxy runs.
func (s *state) isKnown() bool { return s.running.up && s.running.unknown == "" }

// sure returns the version that the worker is known to run exactly, none if it is not known.
func (s *state) sure() version {
	if s.running.unknown != "" {
		return version{}
	}
	return s.running.live
}

const (
	firstRetry = time.Second
	// What HAProxy refuses, it refuses again unless something around it changes, and each refusal may cost something.
	// What could not be put to it, or is known to be refused without asking, is tried again soon.
	lastRetry     = 5 * time.Minute
	lastSoonRetry = 2 * time.Second
	// forgetAfter is how long a refusal is remembered that nobody asks for.
	forgetAfter = time.Hour
)

// refusals are configurations that could not be loaded, by their LoadHash.
type refusals map[string]refusal

// refusal is why a configuration could not be loaded, and the time of the next try.
type refusal struct {
	message string
	delay   time.Duration
	until   time.Time
}

// of returns the refusal of a configuration.
func (r refusals) of(c *configuration) (refusal, bool) {
	if len(r) == 0 {
		return refusal{}, false
	}
	refused, ok := r[c.config.LoadHash()]
	return refused, ok
}

// hold reports whether it is too early to retry a configuration.
func (r refusals) hold(c *configuration, now time.Time) bool {
	refused, ok := r.of(c)
	return ok && now.Before(refused.until)
}

// add notes that a configuration was refused. The time to the next try doubles, up to the longest.
func (r *refusals) add(c *configuration, message string, longest time.Duration, now time.Time) {
	before, _ := r.of(c)
	delay := min(max(2*before.delay, firstRetry), longest)
	if *r == nil {
		*r = refusals{}
	}
	maps.DeleteFunc(*r, func(_ string, refused refusal) bool { return now.Sub(refused.until) > forgetAfter })
	(*r)[c.config.LoadHash()] = refusal{message: message, delay: delay, until: now.Add(delay)}
}

func (r refusals) remove(c *configuration) {
	if len(r) > 0 {
		delete(r, c.config.LoadHash())
	}
}

// keep drops the refusals of all configurations but these.
func (r *refusals) keep(wanted ...*configuration) {
	kept := refusals{}
	for _, c := range wanted {
		if c == nil {
			continue
		}
		if refused, ok := r.of(c); ok {
			kept[c.config.LoadHash()] = refused
		}
	}
	*r = kept
}
