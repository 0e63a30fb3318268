package agent

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/routing"
)

// Reasons for a reload that are not plan.Diff's. They are label values of a metric.
const (
	reasonAgentRestarted = "agent restarted"
	reasonUnknown        = "HAProxy runs an unknown configuration"
	reasonCommandsFailed = "runtime commands failed"
	reasonWrittenDown    = "changed while HAProxy did not answer"
)

const (
	firstRetry = time.Second
	// What HAProxy refuses, it refuses again unless something around it changes, and each refusal may cost something.
	// What could not be put to it, or is known to be refused without asking, is tried again soon.
	lastRetry     = 5 * time.Minute
	lastSoonRetry = 2 * time.Second
)

// load is one configuration and what it was made from.
type load struct {
	// id is the load id; "" until the configuration is written.
	id string
	// uid, generation and table are of the Gateway it was rendered from.
	uid        types.UID
	generation int64
	table      routing.Table
	config     ir.Config
	// partial says that certificates are left out of it because gateway-keys has not passed on any yet.
	partial bool
	// unmounted names something that the Gateway names and that is not mounted in this pod; "" if everything is.
	unmounted string
	// found is what the files said of certificates and authorities.
	found material
	// written are the backends that are on the disk: those of config, or what they were a moment ago.
	written map[string]*ir.Backend
	// late is since when they are not those of config; zero while they are.
	late time.Time
}

// key tells what HAProxy is to load, in so far as it can refuse it.
func (l *load) key() string {
	h := sha256.New()
	// Writing to a hash never fails.
	for _, section := range l.config.Sections {
		_, _ = fmt.Fprintf(h, "%q %q\n", section.Header, section.Lines)
	}
	for _, name := range slices.Sorted(maps.Keys(l.config.Backends)) {
		_, _ = fmt.Fprintf(h, "%q %q\n", name, l.config.Backends[name].Settings.Options)
	}
	for _, name := range slices.Sorted(maps.Keys(l.config.Files)) {
		_, _ = fmt.Fprintf(h, "%q %q\n", name, l.config.Files[name])
	}
	return string(h.Sum(nil))
}

// failure is a configuration that could not be loaded.
type failure struct {
	message string
	delay   time.Duration
	until   time.Time
}

// state is what the loop knows of HAProxy. Only the loop touches it.
type state struct {
	// disk is the configuration HAProxy starts on. Its id is "" when there is none.
	disk load
	// running is what HAProxy runs: disk.config, and what ran before and is not used any more. unused is what was not
	// used when that was last looked for.
	running ir.Config
	unused  plan.Unused
	// known says whether disk.config is: that of an earlier agent is not.
	known bool
	// proven says whether HAProxy has run disk.config's sections.
	proven bool

	// up says whether the worker answered when last asked.
	up bool
	// worker is the worker that answered last.
	worker runtime.Process
	// unknown says why the worker may not run exactly disk.config; "" when it does.
	unknown string
	// live is the generation the worker answers by, 0 when that is not known.
	live int64
	// unmounted is what is left out of it because it is not mounted in this pod; "" if nothing is.
	unmounted string
	// good is what was loaded last; its table goes on when a newer one is refused.
	good load

	// crowded says that nothing is reloaded for a moment, because many old workers are still there.
	crowded bool
	// failures holds what was refused, by its key.
	failures map[string]failure
	// leftovers are servers that are out of use and that HAProxy cannot delete while they have connections.
	leftovers map[leftover]bool
}

// leftover is a server of a backend section.
type leftover struct {
	backend string
	server  ir.Server
}

// observe takes in which worker answers. Nil means that none does.
func (s *state) observe(worker *runtime.Process) {
	s.up = worker != nil
	if !s.up || *worker == s.worker {
		return
	}
	s.worker = *worker
	s.leftovers = map[leftover]bool{}
	switch {
	case worker.LoadID != s.disk.id:
		s.unknown, s.live = reasonUnknown, 0
	case !s.known:
		s.unknown, s.live, s.proven = reasonAgentRestarted, 0, true
	default:
		if !s.disk.late.IsZero() {
			s.disk.config.Backends, s.disk.late = s.disk.written, time.Time{}
		}
		s.running, s.unused = s.disk.config, plan.Unused{}
		s.loaded(*worker)
	}
}

// loaded notes that the worker runs exactly disk.config.
func (s *state) loaded(worker runtime.Process) {
	s.worker, s.up, s.unknown = worker, true, ""
	s.proven, s.good = true, s.disk
	if !s.disk.partial {
		s.live, s.unmounted = s.disk.generation, s.disk.unmounted
	}
	if len(s.failures) > 0 {
		delete(s.failures, s.disk.key())
	}
}

// sure returns the generation that the worker is known to run exactly, 0 if it is not known.
func (s *state) sure() int64 {
	if s.unknown != "" {
		return 0
	}
	return s.live
}

// runsAlready notes that there is nothing to do for a load. What is known about it may be new all the same.
func (s *state) runsAlready(wanted load) {
	if !s.up || s.unknown != "" {
		return
	}
	s.disk.uid, s.disk.generation, s.disk.table = wanted.uid, wanted.generation, wanted.table
	s.disk.partial, s.disk.unmounted = wanted.partial, wanted.unmounted
	s.loaded(s.worker)
}

// step is what one pass has to do.
type step struct {
	// write says whether after goes to the disk.
	write bool
	after ir.Config
	// reload says why HAProxy has to load it from there; "" if it need not.
	reload string
	// plan is what the worker is told when there is no reload.
	plan plan.Plan
}

// mayPostpone says whether HAProxy can be told a step before it is on the disk: one that does nothing but add and
// remove servers. A worker that starts anew within the second of its start is not seen to be another, but by what it
// has loaded.
func (s *state) mayPostpone(next *step, now time.Time) bool {
	return s.up && next.reload == "" && next.plan.OnlyServers() && now.Unix()-s.worker.Started > 1
}

// next says how to get from the present state to a wanted configuration.
//
// While HAProxy is down, what is on the disk decides whether it comes back. So only what it is sure to accept is
// written then: changes that need no reload of what it has run before. Before it has run anything, the newest is the
// best guess; but servers that come, as they do when everything starts at once, wait until it answers: if the disk
// changed while it reads, what it runs would not be known.
func (s *state) next(want ir.Config) step {
	running := s.running
	if !s.up {
		running = s.disk.config
	}
	change := plan.Diff(want, running)
	if change.Reload == "" {
		// HAProxy is sure to start on the sections that it runs.
		want.Sections, want.Files = running.Sections, running.Files
	}
	switch {
	case s.up && s.unknown != "":
		return step{write: true, after: want, reload: s.unknown}
	case s.up:
		return step{write: !change.Empty(), after: want, reload: change.Reload, plan: change}
	case s.disk.id == "" || !s.proven:
		changed := !s.known || !change.Empty() && (!change.OnlyServers() || len(change.RemoveServers) > 0)
		return step{write: changed, after: want}
	default:
		return step{write: s.known && !change.Empty() && change.Reload == "", after: want}
	}
}

// choose returns the first load that leads somewhere, its index and how to get there: the wanted one or, while it is
// refused or has to wait, one of the others, which are made when they are needed. The index is -1 if that goes for all
// of them.
func (s *state) choose(want load, others []func() load, now time.Time) (load, int, step) {
	for i := 0; ; i++ {
		next := s.next(want.config)
		if next.reload == "" || !s.refused(&want, now) && !s.crowded {
			return want, i, next
		}
		if i == len(others) {
			return want, -1, step{}
		}
		want = others[i]()
	}
}

// refused says whether a load is not to be tried again yet.
func (s *state) refused(wanted *load, now time.Time) bool {
	return len(s.failures) > 0 && now.Before(s.failures[wanted.key()].until)
}

// forgetAfter is how long a failure is remembered that nobody asks for.
const forgetAfter = time.Hour

// fail notes that a load failed; it is tried again after a while that doubles each time, up to the longest.
func (s *state) fail(refused *load, message string, longest time.Duration, now time.Time) {
	key := refused.key()
	delay := min(max(2*s.failures[key].delay, firstRetry), longest)
	if s.failures == nil {
		s.failures = map[string]failure{}
	}
	maps.DeleteFunc(s.failures, func(_ string, f failure) bool { return now.Sub(f.until) > forgetAfter })
	s.failures[key] = failure{message: message, delay: delay, until: now.Add(delay)}
}

// forget drops failures that are not of these loads, which nobody wants any more.
func (s *state) forget(except ...*load) {
	if len(s.failures) == 0 {
		return
	}
	kept := map[string]failure{}
	for _, l := range except {
		if f, ok := s.failures[l.key()]; ok {
			kept[l.key()] = f
		}
	}
	s.failures = kept
}
