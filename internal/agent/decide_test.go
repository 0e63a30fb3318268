package agent

import (
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/model"
	"gateway/internal/tree"
)

// newConfig has one backend, with defaults of its own.
func newConfig(backend string, ports ...int32) ir.Config {
	var servers []ir.Server
	for _, port := range ports {
		servers = append(servers, ir.Server{Address: "10.0.0.1", Port: port})
	}
	return ir.Config{
		Sections: []ir.Section{
			{Header: "defaults " + backend, Reason: ir.ReloadDefaults, MayStay: true},
			{Header: "frontend 80", Reason: ir.ReloadPorts, Lines: ir.Lines("", "bind :80")},
		},
		Backends: tree.Of(map[string]*ir.Backend{backend: ir.Backend{Defaults: backend}.WithServers(servers)}),
	}
}

// newDisk has a configuration, newConfig("a", 1) if none is given, written as the id.
func newDisk(id string, generation int64, config ...ir.Config) *disk {
	config = append(config, newConfig("a", 1))
	return &disk{id: id, configuration: newConfiguration(generation, config[0])}
}

func newConfiguration(generation int64, config ir.Config) configuration {
	return configuration{version: newVersion(generation), config: config}
}

func newVersion(generation int64) version {
	return version{uid: "uid-1", origins: []model.Origin{{Kind: "Gateway", Namespace: namespace, Name: gatewayN, Generation: generation}}}
}

// newState is one in which HAProxy runs newConfig("a", 1), written as "load-1", of generation 1.
func newState(mods ...func(*state)) state {
	s := state{disk: *newDisk("load-1", 1)}
	s.observe(&runtime.Process{LoadID: "load-1", PID: 7, Started: 100})
	for _, mod := range mods {
		mod(&s)
	}
	return s
}

func down(s *state)     { s.observe(nil) }
func unproven(s *state) { s.disk.proven = false }
func adopted(s *state) {
	*s = state{disk: disk{id: "load-1", proven: true}}
}

// observed has HAProxy answer as another process.
func observed(id string) func(s *state) {
	return func(s *state) { s.observe(&runtime.Process{LoadID: id, PID: 8, Started: 101}) }
}

func partial(c configuration) configuration {
	c.partial = true
	return c
}

func TestNext(t *testing.T) { //nolint:funlen // it is a table
	late, early := time.Unix(102, 0), time.Unix(101, 0)
	maps := newConfig("a", 1, 2)
	maps.Maps = map[string]tree.Map[string]{ir.HostsFile: tree.Of(map[string]string{"80/": "http"})}
	tests := map[string]struct {
		// HAProxy is in a state, and want is to run at a time, late if it is zero.
		state state
		want  ir.Config
		now   time.Time
		// The next action is of a kind, for a reason, and adds some servers.
		kind   actionKind
		reason string
		adds   int
	}{
		"nothing changed":            {state: newState(), want: newConfig("a", 1), kind: actionNone},
		"an endpoint came":           {state: newState(), want: newConfig("a", 1, 2), kind: actionTellFirst, adds: 1},
		"a backend came":             {state: newState(), want: newConfig("b", 1), kind: actionReload, reason: ir.ReloadDefaults},
		"an endpoint and a map came": {state: newState(), want: maps, kind: actionTellFirst, adds: 1},
		// It could not be seen that a worker that starts anew is another one.
		"an endpoint came just after a start": {
			state: newState(), want: newConfig("a", 1, 2), now: early, kind: actionTell, adds: 1,
		},
		"the first configuration, no HAProxy": {state: state{}, want: newConfig("a"), kind: actionWrite, reason: ir.ReloadFirst},
		"down, an endpoint came: the next start has it": {
			state: newState(down), want: newConfig("a", 1, 2), kind: actionWrite, adds: 1,
		},
		"down, a backend came: a reload will tell": {
			state: newState(down), want: newConfig("b", 1), kind: actionNone, reason: ir.ReloadDefaults,
		},
		"down, nothing changed": {state: newState(down), want: newConfig("a", 1), kind: actionNone},
		"never ran, a backend came: it cannot get worse": {
			state: newState(down, unproven), want: newConfig("b", 1), kind: actionWrite, reason: ir.ReloadDefaults,
		},
		"never ran, an endpoint came: HAProxy will be told": {
			state: newState(down, unproven), want: newConfig("a", 1, 2), kind: actionNone, adds: 1,
		},
		"never ran, an endpoint went": {state: newState(down, unproven), want: newConfig("a"), kind: actionWrite},
		"never ran, nothing changed":  {state: newState(down, unproven), want: newConfig("a", 1), kind: actionNone},
		"down, an earlier agent's configuration is good": {
			state: newState(adopted), want: newConfig("a", 1), kind: actionNone, reason: ir.ReloadFirst,
		},
		"down, and an earlier agent's never ran": {
			state: newState(adopted, unproven), want: newConfig("a", 1), kind: actionWrite, reason: ir.ReloadFirst,
		},
		"down since something was written down": {
			state: newState(down, func(s *state) { s.running.unknown = reasonWrittenDown }), want: newConfig("b", 1), kind: actionNone, reason: ir.ReloadDefaults,
		},
		"a worker of another load": {
			state: newState(observed("load-0")), want: newConfig("a", 1), kind: actionReload, reason: reasonUnknown,
		},
		"a worker of an earlier agent's load": {
			state: newState(adopted, observed("load-1")), want: newConfig("a", 1), kind: actionReload, reason: reasonAgentRestarted,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.now.IsZero() {
				test.now = late
			}
			got := test.state.next(newConfiguration(2, test.want), test.now)
			if got.kind != test.kind || got.reason != test.reason || len(got.plan.AddServers) != test.adds {
				t.Errorf("got kind %d, reason %q and %d servers to add, want kind %d, reason %q and %d",
					got.kind, got.reason, len(got.plan.AddServers), test.kind, test.reason, test.adds)
			}
			if proven := test.state.disk.proven && test.reason == ""; got.proven != proven {
				t.Errorf("it passes for proven: %t, want %t", got.proven, proven)
			}
		})
	}
}

// TestWithoutCertificatesHAProxyStartsOnAPart: what was in memory is gone after a restart of the node.
func TestWithoutCertificatesHAProxyStartsOnAPart(t *testing.T) {
	now, part := time.Unix(1000, 0), partial(newConfiguration(2, newConfig("b", 1)))
	if s := newState(down); s.next(part, now).kind != actionWrite || s.next(part, now).proven {
		t.Errorf("HAProxy would look for certificates: %+v", s.next(part, now))
	}
	if s := newState(); s.next(part, now).kind != actionReload {
		t.Errorf("while HAProxy runs: %+v", s.next(part, now))
	}
	s := newState(down, unproven, func(s *state) { s.disk.configuration = part })
	if next := s.next(part, now); next.kind != actionNone {
		t.Errorf("it is on the disk already: %+v", next)
	}
}

func TestARestartedWorkerRunsWhatIsOnTheDisk(t *testing.T) {
	s := newState()
	expect := func(what, unknown string, live int64) {
		t.Helper()
		if got := s.sure().generation(); s.running.unknown != unknown || got != live || !s.running.up {
			t.Errorf("%s: up=%t unknown=%q live=%d", what, s.running.up, s.running.unknown, got)
		}
	}
	// Commands took the worker further than what it was started on.
	s.disk = *newDisk("load-2", 2, newConfig("a", 2))
	s.runs(s.running.worker)
	s.observe(&runtime.Process{LoadID: "load-1", PID: 7, Started: 100})
	expect("the same worker", "", 2)
	s.observe(nil)
	s.observe(&runtime.Process{LoadID: "load-2", PID: 7, Started: 200})
	expect("restarted", "", 2)
	// It started a moment before load-2 was written: a rare thing, and one that a reload puts right.
	s.observe(&runtime.Process{LoadID: "load-1", PID: 7, Started: 300})
	expect("restarted on an old load", reasonUnknown, 0)
	if !s.running.live.isNone() || !s.running.complete.isNone() {
		t.Errorf("it passes for %s, and %s", s.running.live, s.running.complete)
	}
}

// TestAWorkerThatStartsBeforeTheDiskHasAll gets the difference again, and does not count as running the target.
func TestAWorkerThatStartsBeforeTheDiskHasAll(t *testing.T) {
	s, newest, now := newState(), newConfig("a", 1, 2), time.Unix(200, 0)
	s.disk.written, s.disk.due = s.disk.configuration, now
	s.disk.configuration, s.running.config = newConfiguration(2, newest), newest
	s.runs(s.running.worker)
	if next := s.next(newConfiguration(2, newest), now); next.kind != actionNone || s.sure().generation() != 2 {
		t.Fatalf("before: %+v", next)
	}
	s.observe(&runtime.Process{LoadID: "load-1", PID: 8, Started: 101})
	next := s.next(newConfiguration(2, newest), now)
	if next.reason != "" || len(next.plan.AddServers) != 1 || !s.disk.due.IsZero() || s.sure().generation() != 1 {
		t.Errorf("after: %+v", next)
	}
}

// TestPostpone: servers may wait for longer than all else, which waits only for the time between two writes.
func TestPostpone(t *testing.T) {
	now, later, d := time.Unix(200, 0), time.Unix(200, 5), disk{}
	servers, more := plan.Plan{AddServers: []plan.Server{{}}}, plan.Plan{Backends: []plan.Backend{{}}}
	for i, step := range []struct {
		told     plan.Plan
		now, due time.Time
	}{
		{told: servers, now: now, due: now.Add(writeServersInterval)},
		{told: servers, now: later, due: now.Add(writeServersInterval)},
		{told: more, now: later, due: later},
		{told: servers, now: later, due: later},
	} {
		if d.postpone(step.told, step.now); d.due != step.due {
			t.Errorf("step %d: due at %s, want %s", i, d.due, step.due)
		}
	}
	d = disk{writtenAt: now}
	if d.postpone(more, later); d.due != now.Add(writeInterval) {
		t.Errorf("soon after a write, due at %s, want %s", d.due, now.Add(writeInterval))
	}
}

func TestWhileARefusedConfigurationWaitsTheLastGoodOneGoesOn(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newState()
	bad, fixed := newConfiguration(2, newConfig("bad", 1)), newConfiguration(3, newConfig("b", 1))
	today, worse := newConfiguration(1, newConfig("a", 1, 2)), newConfiguration(1, newConfig("worse", 1))
	expect := func(what string, wanted, fallback configuration, crowded bool, now time.Time, kind actionKind, generation int64) {
		t.Helper()
		next := s.decide(wanted, func() configuration { return fallback }, crowded, now)
		if next.kind != kind || next.target.version.generation() != generation || next.fallback != (kind != actionWait && generation == 1) {
			t.Errorf("%s: kind %d, generation %d, fallback %t", what, next.kind, next.target.version.generation(), next.fallback)
		}
	}
	expect("before it was refused", bad, today, false, now, actionReload, 2)
	expect("reloads have to wait", bad, today, true, now, actionTellFirst, 1)
	expect("all of them have to wait", bad, worse, true, now, actionWait, 0)
	s.refused.add(&bad, "no", lastRetry, now)
	expect("the second best was not refused yet", bad, worse, false, now, actionReload, 1)
	expect("while it waits", bad, today, false, now, actionTellFirst, 1)
	s.refused.add(&worse, "no", lastRetry, now)
	expect("both were refused", bad, worse, false, now, actionWait, 0)
	expect("after the wait", bad, today, false, now.Add(firstRetry), actionReload, 2)
	expect("another one need not wait", fixed, today, false, now, actionReload, 3)
	s.good = nil
	expect("with nothing else", bad, today, false, now, actionWait, 0)
}
