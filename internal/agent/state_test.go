package agent

import (
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/tree"
)

func TestRetriesBackOff(t *testing.T) {
	now, want := time.Unix(1000, 0), firstRetry
	var refused refusals
	x, y := newConfiguration(1, newConfig("x")), newConfiguration(1, newConfig("y"))
	for range 10 {
		refused.add(&x, "no", lastRetry, now)
		if !refused.hold(&x, now.Add(want-1)) || refused.hold(&x, now.Add(want)) {
			t.Errorf("the wait is not %s", want)
		}
		want = min(2*want, lastRetry)
	}
	if want != lastRetry {
		t.Errorf("after ten refusals the wait is %s", want)
	}
	refused.keep(&x, &y)
	if !refused.hold(&x, now) {
		t.Error("a refusal of what is still wanted is forgotten")
	}
	refused.keep(&y, nil)
	if refused.hold(&x, now) {
		t.Error("the refusal of a configuration that is not wanted any more is kept")
	}
	refused.add(&x, "no", lastRetry, now)
	refused.add(&y, "no", lastRetry, now.Add(2*forgetAfter))
	if len(refused) != 1 {
		t.Errorf("refusals that nobody asked for in a long time are kept: %v", refused)
	}
}

func TestOnlyWhatIsLoadedIsRefused(t *testing.T) {
	now := time.Unix(1000, 0)
	var refused refusals
	withList := func(content string) *configuration {
		config := newConfig("x")
		config.Files = map[string][]byte{"certificates-443.list": []byte(content)}
		return &configuration{config: config}
	}
	refused.add(withList("one"), "no", lastRetry, now)
	if !refused.hold(withList("one"), now) || refused.hold(withList("two"), now) {
		t.Error("other certificates are another load")
	}
	edited := withList("one")
	edited.version, edited.config.Maps = newVersion(7), map[string]tree.Map[string]{ir.HostsFile: tree.Of(map[string]string{"a": "b"})}
	if !refused.hold(edited, now) {
		t.Error("other routes are not")
	}
}

// Until certificates are passed on, what runs is not all of the generation.
func TestAPartialLoadIsNotLive(t *testing.T) {
	s := newState()
	s.disk = *newDisk("load-2", 2)
	s.disk.partial = true
	s.started(runtime.Process{LoadID: "load-2", PID: 8, Started: 200})
	if live := s.running.live.generation(); live != 1 || s.good.version.generation() != 2 {
		t.Errorf("partial: generation %d is live, and %d is good", live, s.good.version.generation())
	}
	s.disk.id, s.disk.partial, s.disk.material.unmounted = "load-3", false, "Secret shop/new"
	s.started(runtime.Process{LoadID: "load-3", PID: 9, Started: 300})
	if r := &s.running; r.live.generation() != 2 || r.complete.generation() != 1 || r.unmounted != "Secret shop/new" {
		t.Errorf("whole: generation %d is live, %d complete, unmounted=%q", r.live.generation(), r.complete.generation(), r.unmounted)
	}
}

// While names are held, nothing of the generation is live, and HAProxy keeps what they lead to. Once all handshakes
// have ended, HAProxy gets the rest.
func TestAGenerationIsLiveOnceHandshakesHaveEnded(t *testing.T) {
	names := func(identity, minVersion string) ir.Config {
		config := newConfig("a", 1)
		config.Maps = map[string]tree.Map[string]{ir.NamesFile: tree.Of(map[string]string{"443/a.io": identity})}
		config.Demands = map[string]ir.Demands{identity: {MinVersion: minVersion}}
		return config
	}
	s, now := newState(), time.Unix(1000, 0)
	s.disk = *newDisk("load-1", 1, names("old", "TLSv1.2"))
	s.started(s.running.worker)
	strict := newConfiguration(2, names("new", "TLSv1.3"))
	first := s.next(strict, now)
	if first.kind != actionNone && first.kind != actionWait || !first.plan.Switches || len(first.plan.Edits) > 0 {
		t.Fatalf("first: %+v", first)
	}
	tell := func(change plan.Plan) {
		s.running.carriedOut(change, strict.config, now)
		s.disk.configuration = strict
		s.runs(s.running.worker)
	}
	tell(first.plan)
	if live := s.sure().generation(); live != 1 || s.next(strict, now.Add(ir.HandshakeTimeout)).kind != actionWait {
		t.Errorf("while handshakes may go on, generation %d is live", live)
	}
	now = now.Add(ir.HandshakeTimeout + 2*time.Second)
	rest := s.next(strict, now)
	if rest.kind != actionTellFirst || len(rest.plan.Edits) != 1 || rest.plan.Edits[0].Edits[0].New != "new" {
		t.Fatalf("then: %+v", rest)
	}
	tell(rest.plan)
	if live := s.sure().generation(); live != 2 {
		t.Errorf("in the end, generation %d is live", live)
	}
}
