package agent

import (
	"time"

	"gateway/internal/haproxy/plan"
)

// action is what one pass does.
type action struct {
	kind actionKind
	// target is what the disk, and HAProxy if it runs, are to have.
	target configuration
	// fallback says that target is not what is wanted: that is refused, or has to wait.
	fallback bool
	// plan is what HAProxy is told, if that is the kind.
	plan plan.Plan
	// reason is why HAProxy is reloaded, if that is the kind.
	reason string
	// proven says that HAProxy is sure to start on target.
	proven bool
}

// actionKind is what is to be done with the target of an action.
type actionKind int

const (
	// actionWait: there is a reload to make, and it has to wait.
	actionWait actionKind = iota
	// actionNone: HAProxy has the target already, or will have it when it starts or is up again.
	actionNone
	// actionWrite: the target goes to the disk, for HAProxy to start on.
	actionWrite
	// actionTell: it goes to the disk, and HAProxy is told the difference: a restart of a worker that has just started
	// would not be seen.
	actionTell
	// actionTellFirst: HAProxy is told the difference, and the disk has the target a moment later: to write thousands of
	// routes takes longer than to tell HAProxy about one.
	actionTellFirst
	// actionReload: it goes to the disk, and HAProxy loads it from there.
	actionReload
)

// decide says how to get to what is wanted or, while that is refused or has to wait, to the fallback, which is made
// when it is needed.
func (s *state) decide(wanted configuration, fallback func() configuration, crowded bool, now time.Time) action {
	may := func(next *action) bool {
		return next.kind != actionReload || !crowded && !s.refused.hold(&next.target, now)
	}
	next := s.next(wanted, now)
	if may(&next) {
		return next
	}
	if s.good != nil {
		next = s.next(fallback(), now)
		next.fallback = true
		if may(&next) {
			return next
		}
	}
	return action{kind: actionWait}
}

// next says how to get from the present state to a configuration.
//
// While HAProxy is down, what is on the disk decides whether it comes back. So only what it is sure to accept is
// written then: changes that need no reload of what it has run before. Before it has run anything, the newest is the
// best guess; but servers that come, as they do when everything starts at once, wait until it answers: if the disk
// changed while it reads, what it runs would not be known.
func (s *state) next(target configuration, now time.Time) action {
	if target.partial && s.lacksCertificates() {
		return action{kind: actionWrite, target: target}
	}
	has := s.running.config
	if !s.running.up {
		has = s.disk.config
	}
	change := plan.Diff(target.config, has)
	if change.Reload == "" {
		// HAProxy is sure to start on the sections that it runs.
		target.config.Sections, target.config.Files = has.Sections, has.Files
	}
	next := action{kind: actionNone, target: target, plan: change, reason: change.Reload, proven: s.disk.proven && change.Reload == ""}
	switch {
	case s.running.up && s.running.unknown != "":
		next.kind, next.reason, next.proven = actionReload, s.running.unknown, false
	case change.Empty():
	case s.running.up && change.Reload != "":
		next.kind = actionReload
	case s.running.up && s.wouldBeSeenToRestart(now):
		next.kind = actionTellFirst
	case s.running.up:
		next.kind = actionTell
	case s.disk.proven && change.Reload == "":
		next.kind = actionWrite
	case !s.disk.proven && (!change.OnlyServers() || len(change.RemoveServers) > 0):
		next.kind = actionWrite
	}
	return next
}

// lacksCertificates says whether HAProxy cannot start on what is on the disk: gateway-keys has no certificates for it,
// as when the node was restarted and what was in memory is gone. It is asked about them once HAProxy runs.
func (s *state) lacksCertificates() bool {
	return !s.running.up && s.disk.id != "" && !s.disk.partial
}

// wouldBeSeenToRestart says whether a worker that starts anew would be seen to be another. Within the second of its
// start, only what it has loaded tells that.
func (s *state) wouldBeSeenToRestart(now time.Time) bool {
	return now.Unix()-s.running.worker.Started > 1
}
