package agent

import (
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
)

// newConfig has one backend, with defaults of its own.
func newConfig(backend string, ports ...int32) ir.Config {
	var servers []ir.Server
	for _, port := range ports {
		servers = append(servers, ir.Server{Address: "10.0.0.1", Port: port})
	}
	return ir.Config{
		Sections: []ir.Section{{Header: "defaults " + backend}, {Header: "frontend 80", Lines: []string{"bind :80"}}},
		Backends: map[string]*ir.Backend{backend: {Defaults: backend, Servers: servers}},
	}
}

// newState is one in which HAProxy runs newConfig("a", 1), written as "load-1", of generation 1.
func newState(mods ...func(*state)) state {
	s := state{disk: load{id: "load-1", generation: 1, config: newConfig("a", 1)}, known: true}
	s.observe(&runtime.Process{LoadID: "load-1", PID: 7, Started: 100})
	for _, mod := range mods {
		mod(&s)
	}
	return s
}

func down(s *state)     { s.observe(nil) }
func unproven(s *state) { s.proven = false }
func adopted(s *state) {
	*s = state{disk: load{id: "load-1"}, proven: true}
}

func TestNextStep(t *testing.T) {
	tests := map[string]struct {
		state  state
		want   ir.Config
		write  bool
		reload string
		adds   int
	}{
		"nothing changed":                                   {newState(), newConfig("a", 1), false, "", 0},
		"an endpoint came":                                  {newState(), newConfig("a", 1, 2), true, "", 1},
		"a backend came":                                    {newState(), newConfig("b", 1), true, plan.ReloadDefaults, 0},
		"the first configuration, no HAProxy":               {state{}, newConfig("a"), true, "", 0},
		"down, an endpoint came: the next start has it":     {newState(down), newConfig("a", 1, 2), true, "", 1},
		"down, a backend came: a reload will tell":          {newState(down), newConfig("b", 1), false, "", 0},
		"down since something was written down":             {newState(down, func(s *state) { s.unknown = reasonWrittenDown }), newConfig("b", 1), false, "", 0},
		"down, nothing changed":                             {newState(down), newConfig("a", 1), false, "", 0},
		"never ran, a backend came: it cannot get worse":    {newState(down, unproven), newConfig("b", 1), true, "", 0},
		"never ran, an endpoint came: HAProxy will be told": {newState(down, unproven), newConfig("a", 1, 2), false, "", 0},
		"never ran, an endpoint went":                       {newState(down, unproven), newConfig("a"), true, "", 0},
		"never ran, nothing changed":                        {newState(down, unproven), newConfig("a", 1), false, "", 0},
		"down, an earlier agent's configuration is good":    {newState(adopted), newConfig("a", 1), false, "", 0},
		"down, and an earlier agent's never ran":            {newState(adopted, unproven), newConfig("a", 1), true, "", 0},
		"a worker of another load": {
			newState(func(s *state) { s.observe(&runtime.Process{LoadID: "load-0", PID: 8, Started: 101}) }),
			newConfig("a", 1), true, reasonUnknown, 0,
		},
		"a worker of an earlier agent's load": {
			newState(adopted, func(s *state) { s.observe(&runtime.Process{LoadID: "load-1", PID: 8, Started: 101}) }),
			newConfig("a", 1), true, reasonAgentRestarted, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.state.next(test.want)
			if got.write != test.write || got.reload != test.reload || test.state.up && len(got.plan.AddServers) != test.adds {
				t.Errorf("got write=%t reload=%q and %d servers to add, want write=%t reload=%q and %d",
					got.write, got.reload, len(got.plan.AddServers), test.write, test.reload, test.adds)
			}
		})
	}
}

func TestARestartedWorkerRunsWhatIsOnTheDisk(t *testing.T) {
	s := newState()
	// Commands took the worker further than what it was started on.
	s.disk = load{id: "load-2", generation: 2, config: newConfig("a", 2)}
	s.loaded(s.worker)
	s.observe(&runtime.Process{LoadID: "load-1", PID: 7, Started: 100})
	if s.unknown != "" || s.live != 2 {
		t.Errorf("the same worker: unknown=%q live=%d", s.unknown, s.live)
	}
	s.observe(nil)
	s.observe(&runtime.Process{LoadID: "load-2", PID: 7, Started: 200})
	if s.unknown != "" || s.live != 2 || !s.up {
		t.Errorf("restarted: unknown=%q live=%d up=%t", s.unknown, s.live, s.up)
	}
	// It started a moment before load-2 was written: a rare thing, and one that a reload puts right.
	s.observe(&runtime.Process{LoadID: "load-1", PID: 7, Started: 300})
	if s.unknown == "" || s.live != 0 {
		t.Errorf("restarted on an old load: unknown=%q live=%d", s.unknown, s.live)
	}
}

// TestAWorkerThatStartsBeforeTheDiskHasAllServers is told of them again.
func TestAWorkerThatStartsBeforeTheDiskHasAllServers(t *testing.T) {
	s, newest := newState(), newConfig("a", 1, 2)
	s.disk.written, s.disk.late = s.disk.config.Backends, time.Now()
	s.disk.config, s.running = newest, newest
	if next := s.next(newest); next.write {
		t.Fatalf("before: %+v", next)
	}
	s.observe(&runtime.Process{LoadID: "load-1", PID: 8, Started: 101})
	if next := s.next(newest); next.reload != "" || len(next.plan.AddServers) != 1 || !s.disk.late.IsZero() {
		t.Errorf("after: %+v", next)
	}
}

// TestServersMayBePostponed, and nothing else; nor while a worker that starts anew could be taken for the one before.
func TestServersMayBePostponed(t *testing.T) {
	s, late, early := newState(), time.Unix(102, 0), time.Unix(101, 0)
	maps := newConfig("a", 1, 2)
	maps.Maps = map[string]map[string]string{ir.HostsFile: {"80/": "http"}}
	for name, test := range map[string]struct {
		state state
		want  ir.Config
		now   time.Time
		may   bool
	}{
		"a server":                     {s, newConfig("a", 1, 2), late, true},
		"a server, just after a start": {s, newConfig("a", 1, 2), early, false},
		"a server, HAProxy is down":    {newState(down), newConfig("a", 1, 2), late, false},
		"a server and a map":           {s, maps, late, false},
		"a backend":                    {s, newConfig("b", 1), late, false},
		"nothing":                      {s, newConfig("a", 1), late, false},
	} {
		next := test.state.next(test.want)
		if got := test.state.mayPostpone(&next, test.now); got != test.may {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestWhileARefusedSkeletonWaitsTheLastGoodTableGoesOn(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newState()
	bad := load{generation: 2, config: newConfig("bad", 1)}
	today := load{generation: 1, config: newConfig("a", 1, 2)}
	worse := load{generation: 2, config: newConfig("worse", 1)}
	others := []func() load{func() load { return worse }, func() load { return today }}

	got, index, next := s.choose(bad, others, now)
	if got.generation != 2 || index != 0 || next.reload == "" {
		t.Errorf("before it was refused: %d, generation %d, %+v", index, got.generation, next)
	}
	s.fail(&bad, "no", lastRetry, now)
	if _, index, next = s.choose(bad, others, now); index != 1 || next.reload == "" {
		t.Errorf("the second best was not refused yet: %d, %+v", index, next)
	}
	s.fail(&worse, "no", lastRetry, now)
	got, index, next = s.choose(bad, others, now)
	if got.generation != 1 || index != 2 || next.reload != "" || len(next.plan.AddServers) != 1 {
		t.Errorf("while it waits: %d, generation %d, %+v", index, got.generation, next)
	}
	if _, index, next = s.choose(bad, others[:1], now); index != -1 || next.write {
		t.Errorf("with nothing else: %d, %+v", index, next)
	}
	got, index, next = s.choose(bad, others, now.Add(firstRetry))
	if got.generation != 2 || index != 0 || next.reload == "" {
		t.Errorf("after the wait: %d, generation %d, %+v", index, got.generation, next)
	}
	fixed := load{generation: 3, config: newConfig("b", 1)}
	got, index, next = s.choose(fixed, others, now)
	if got.generation != 3 || index != 0 || next.reload == "" {
		t.Errorf("another one need not wait: %d, generation %d, %+v", index, got.generation, next)
	}
}

func TestRetriesBackOff(t *testing.T) {
	now := time.Unix(1000, 0)
	var s state
	want := firstRetry
	x, y := load{config: newConfig("x")}, load{config: newConfig("y")}
	for range 10 {
		s.fail(&x, "no", lastRetry, now)
		if !s.refused(&x, now.Add(want-1)) || s.refused(&x, now.Add(want)) {
			t.Errorf("the wait is not %s", want)
		}
		want = min(2*want, lastRetry)
	}
	if want != lastRetry {
		t.Errorf("after ten failures the wait is %s", want)
	}
	s.forget(&x, &y)
	if !s.refused(&x, now) {
		t.Error("a failure of what is still wanted is forgotten")
	}
	s.forget(&y)
	if s.refused(&x, now) {
		t.Error("a failure nobody asks for is kept")
	}
	s.fail(&x, "no", lastRetry, now)
	s.fail(&y, "no", lastRetry, now.Add(2*forgetAfter))
	if len(s.failures) != 1 {
		t.Errorf("failures that nobody asked for in a long time are kept: %v", s.failures)
	}
}

func TestOnlyWhatIsLoadedIsRefused(t *testing.T) {
	now := time.Unix(1000, 0)
	var s state
	withList := func(content string) *load {
		config := newConfig("x")
		config.Files = map[string][]byte{"certificates-443.list": []byte(content)}
		return &load{config: config}
	}
	s.fail(withList("one"), "no", lastRetry, now)
	if !s.refused(withList("one"), now) || s.refused(withList("two"), now) {
		t.Error("other certificates are another load")
	}
	edited := withList("one")
	edited.generation, edited.config.Maps = 7, map[string]map[string]string{ir.HostsFile: {"a": "b"}}
	if !s.refused(edited, now) {
		t.Error("other routes are not")
	}
}

// Until certificates are passed on, what runs is not all of the generation.
func TestAPartialLoadIsNotLive(t *testing.T) {
	s := newState()
	s.disk = load{id: "load-2", generation: 2, partial: true, config: newConfig("a", 1)}
	s.loaded(runtime.Process{LoadID: "load-2", PID: 8, Started: 200})
	if s.live != 1 || s.good.id != "load-2" {
		t.Errorf("partial: live=%d good=%s", s.live, s.good.id)
	}
	s.disk.id, s.disk.partial, s.disk.unmounted = "load-3", false, "Secret shop/new"
	s.loaded(runtime.Process{LoadID: "load-3", PID: 9, Started: 300})
	if s.live != 2 || s.unmounted != "Secret shop/new" {
		t.Errorf("whole: live=%d unmounted=%q", s.live, s.unmounted)
	}
}
