package agent

import (
	"time"

	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/routing"
)

// Reasons for a reload that are not config.Diff's. They are label values of a metric.
const (
	reasonAgentRestarted = "agent restarted"
	reasonUnknown        = "HAProxy runs an unknown configuration"
	reasonCommandsFailed = "runtime commands failed"
	reasonWrittenDown    = "changed while HAProxy did not answer"
)

const (
	firstRetry = time.Second
	// Each refusal may cost something: where a port is taken, HAProxy 2.6 accepts no connections for the 2 s that it tries.
	lastRetry = 5 * time.Minute
)

// load is one configuration and what it was made from.
type load struct {
	// id is the load id; "" until the configuration is written.
	id string
	// generation and table are of the Gateway it was rendered from.
	generation int64
	table      routing.Table
	config     config.Config
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
	// known says whether disk.config is: that of an earlier agent is not.
	known bool
	// proven says whether HAProxy has run disk.config's skeleton.
	proven bool

	// up says whether the worker answered when last asked.
	up bool
	// worker is the worker that answered last.
	worker runtime.Process
	// unknown says why the worker may not run exactly disk.config; "" when it does.
	unknown string
	// live is the generation the worker answers by, 0 when that is not known.
	live int64
	// good is what was loaded last; its table goes on when a newer one is refused.
	good load

	// failures holds what was refused, by skeleton.
	failures map[string]failure
	// leftovers are servers that are out of use and that HAProxy cannot delete while they have connections.
	leftovers map[config.ServerChange]bool
}

// observe takes in which worker answers. Nil means that none does.
func (s *state) observe(worker *runtime.Process) {
	s.up = worker != nil
	if !s.up || *worker == s.worker {
		return
	}
	s.worker = *worker
	s.leftovers = map[config.ServerChange]bool{}
	switch {
	case worker.LoadID != s.disk.id:
		s.unknown, s.live = reasonUnknown, 0
	case !s.known:
		s.unknown, s.live, s.proven = reasonAgentRestarted, 0, true
	default:
		s.loaded(*worker)
	}
}

// loaded notes that the worker runs exactly disk.config.
func (s *state) loaded(worker runtime.Process) {
	s.worker, s.up, s.unknown = worker, true, ""
	s.proven, s.live, s.good = true, s.disk.generation, s.disk
	delete(s.failures, s.disk.config.Skeleton)
}

// step is what one pass has to do.
type step struct {
	// write says whether after goes to the disk.
	write bool
	after config.Config
	// reload says why HAProxy has to load it from there; "" if it need not.
	reload string
	// plan is what the worker is told when there is no reload.
	plan config.Plan
}

// next says how to get from the present state to a wanted configuration.
//
// While HAProxy is down, what is on the disk decides whether it comes back. So only what it is sure to accept is written
// then: changes that need no reload of what it has run before. Before it has run anything, the newest is the best guess.
func (s *state) next(want config.Config) step {
	plan := config.Diff(want, s.disk.config)
	switch {
	case s.up && s.unknown != "":
		return step{write: true, after: want, reload: s.unknown}
	case s.up:
		return step{write: !plan.Empty(), after: plan.After, reload: plan.Reload, plan: plan}
	case s.disk.id == "" || !s.proven:
		changed := !s.known || !plan.Empty() || want.Skeleton != s.disk.config.Skeleton
		return step{write: changed, after: want}
	default:
		return step{write: s.known && !plan.Empty() && plan.Reload == "", after: plan.After}
	}
}

// choose returns the configuration to work towards, and how: the wanted one or, while its skeleton is refused, the one made
// from the last good table and today's endpoints.
func (s *state) choose(want load, fallback func(good load) load, now time.Time) (load, step) {
	next := s.next(want.config)
	if next.reload == "" || !s.refused(want.config, now) {
		return want, next
	}
	if s.good.id == "" {
		return want, step{}
	}
	want = fallback(s.good)
	next = s.next(want.config)
	if next.reload != "" && s.refused(want.config, now) {
		return want, step{}
	}
	return want, next
}

// refused says whether a configuration is not to be tried again yet.
func (s *state) refused(wanted config.Config, now time.Time) bool {
	return now.Before(s.failures[wanted.Skeleton].until)
}

// fail notes that a configuration could not be loaded; it is tried again after a while that doubles each time.
func (s *state) fail(skeleton, message string, now time.Time) {
	delay := min(max(2*s.failures[skeleton].delay, firstRetry), lastRetry)
	if s.failures == nil {
		s.failures = map[string]failure{}
	}
	s.failures[skeleton] = failure{message: message, delay: delay, until: now.Add(delay)}
}

// forget drops failures that are not of these skeletons, which nobody wants any more.
func (s *state) forget(except ...string) {
	kept := map[string]failure{}
	for _, skeleton := range except {
		if f, ok := s.failures[skeleton]; ok {
			kept[skeleton] = f
		}
	}
	s.failures = kept
}
