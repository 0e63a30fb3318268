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
	// fallback reports whether target is another configuration than the wanted one, which is refused, or has to wait.
	fallback bool
	// plan is the change for the running HAProxy, if kind is actionTell or actionTellFirst.
	plan plan.Plan
	// reason is why HAProxy is reloaded, if that is the kind.
	reason string
	// proven reports whether HAProxy is sure to start on target.
	proven bool
	// due is the LoadHash of the wanted configuration, if it takes a reload from the known one of HAProxy; "": none.
	due string
}

// actionKind is what to do with the target of an action.
type actionKind int

const (
	// actionWait: there is a reload to make, or an edit of names, and it has to wait.
	actionWait actionKind = iota
	// actionNone: HAProxy has the target already, or will have it when it starts or is up again.
	actionNone
	// actionWrite: the target goes to the disk, for HAProxy to start on.
	actionWrite
	// actionTell: the target goes to the disk, then HAProxy gets the difference. A worker that has just started could
	// restart unseen.
	actionTell
	// actionTellFirst: HAProxy gets the difference, and the disk gets the target a moment later. Writing thousands of
	// routes takes longer than changing one in HAProxy.
	actionTellFirst
	// actionReload: it goes to the disk, and HAProxy loads it from there.
	actionReload
)

// decide returns the way to the wanted configuration. While that is refused or must wait, it returns the way to the
// fallback, which is compiled only when needed.
func (s *state) decide(wanted configuration, fallback func() configuration, crowded bool, now time.Time) action {
	may := func(next *action) bool {
		return next.kind != actionReload || !crowded && !s.refused.hold(&next.target, now)
	}
	next := s.next(wanted, now)
	if next.kind == actionReload && s.isKnown() {
		next.due = wanted.config.LoadHash()
	}
	if may(&next) {
		return next
	}
	due := next.due
	if s.good != nil {
		next = s.next(fallback(), now)
		next.fallback, next.due = true, due
		if may(&next) {
			return next
		}
	}
	return action{kind: actionWait, due: due}
}

// next returns the action that leads from the present state to a configuration.
//
// While HAProxy is down, the files on the disk decide whether it comes back. So only files that it is sure to accept
// are written then: those that differ from what it has run by changes without a reload. Before it has run anything, the
// newest configuration is the best guess. But new servers, which come when everything starts at once, wait until it
// answers: if the disk changed while it reads, nobody would know what it runs.
func (s *state) next(target configuration, now time.Time) action {
	if target.partial && s.lacksCertificates() {
		return action{kind: actionWrite, target: target}
	}
	has := s.running.config
	if !s.running.up {
		has = s.disk.config
	}
	change := plan.Change(s.disk.config, target.config, has, s.running.isSettled(now))
	if change.Reload == "" {
		// HAProxy is sure to start on the sections that it runs.
		target.config.Sections, target.config.Files, target.config.Authorities = has.Sections, has.Files, change.After.Authorities
	}
	next := action{kind: actionNone, target: target, plan: change, reason: change.Reload, proven: s.disk.proven && change.Reload == ""}
	switch {
	case s.running.up && s.running.unknown != "":
		next.kind, next.reason, next.proven = actionReload, s.running.unknown, false
	case change.Empty() && len(change.After.Held) > 0:
		next.kind = actionWait
	case change.Empty():
	case s.running.up && change.Reload != "":
		next.kind = actionReload
	case s.running.up && s.wouldBeSeenToRestart(now) && len(change.Authorities) == 0: // gateway-keys reads their files
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

// lacksCertificates reports whether HAProxy cannot start on the files on the disk because gateway-keys has no
// certificates for them. That is so when the node was restarted and its memory is gone. HAProxy is asked about
// certificates once it runs.
func (s *state) lacksCertificates() bool {
	return !s.running.up && s.disk.id != "" && !s.disk.partial
}

// wouldBeSeenToRestart reports whether a restarted worker could be told from the present one. Within the second of its
// start, only the loaded configuration tells them apart.
func (s *state) wouldBeSeenToRestart(now time.Time) bool {
	return now.Unix()-s.running.worker.Started > 1
}
