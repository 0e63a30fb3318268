package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
)

// reporting is a rig of which only the reporter runs. It returns how many reports were written.
func reporting(t *testing.T, refuse func(n int64) error) (*rig, *reporter, *atomic.Int64) {
	t.Helper()
	r := newRig(t)
	r.createGateway(r.spec("api"))
	var writes atomic.Int64
	r.gateways.PrependReactor("patch", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := refuse(writes.Add(1))
		return err != nil, nil, err
	})
	reporter := newReporter(r.options, func(int64) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); reporter.run(ctx); reporter.goodbye() }()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(func() { r.stop() })
	return r, reporter, &writes
}

func never(int64) error { return nil }

func TestAReportIsWrittenOnceAndRemovedAtTheEnd(t *testing.T) {
	r, reporter, writes := reporting(t, never)
	for range 5 {
		reporter.set(report{uid: "uid-1", generation: 3, message: "generation 4: no"})
		r.expectReport(3, "generation 4: no")
	}
	// What the watch shows is what was written: nothing to do.
	reporter.observe(&appv1.ProxyStatus{Pod: podName, ObservedGeneration: 3, Message: "generation 4: no"}, "1")
	reporter.set(report{uid: "uid-1", generation: 4})
	r.expectReport(4, "")
	if got := writes.Load(); got != 2 {
		t.Errorf("%d writes for two different reports", got)
	}
	r.stop()
	if proxies := r.gateway().Status.Proxies; len(proxies) != 0 {
		t.Errorf("after the end the status still has %+v", proxies)
	}
}

func TestAnEntryThatSomebodyRemovedIsWrittenAgain(t *testing.T) {
	r, reporter, writes := reporting(t, never)
	reporter.set(report{uid: "uid-1", generation: 3})
	r.expectReport(3, "")
	reporter.observe(nil, "2")
	r.eventually("it is written again", func() error {
		if writes.Load() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
}

// The API server took the report in, and somebody removed it, which was seen before the answer.
func TestAnEntryThatIsRemovedBeforeTheAnswerIsWrittenAgain(t *testing.T) {
	var reporter *reporter
	var r *rig
	var writes *atomic.Int64
	r, reporter, writes = reporting(t, func(n int64) error {
		if n == 1 {
			reporter.observe(nil, "2")
		}
		return nil
	})
	reporter.set(report{uid: "uid-1", generation: 3})
	r.eventually("it is written again", func() error {
		if writes.Load() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
}

// What is seen may be older than what was written.
func TestAnEntryThatIsOlderThanTheReportIsNoNews(t *testing.T) {
	r, reporter, _ := reporting(t, never)
	var writes atomic.Int64
	r.gateways.PrependReactor("patch", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes.Add(1)
		reporter.observe(nil, "99")
		return true, &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100"}}, nil
	})
	expectWrites := func(want int64) {
		t.Helper()
		r.eventually("it is written", func() error {
			if got := writes.Load(); got != want {
				return fmt.Errorf("%d writes, want %d", got, want)
			}
			return nil
		})
	}
	reporter.set(report{uid: "uid-1", generation: 3})
	expectWrites(1)
	reporter.observe(&appv1.ProxyStatus{Pod: podName, ObservedGeneration: 2}, "98")
	reporter.observe(&appv1.ProxyStatus{Pod: podName, ObservedGeneration: 3}, "100")
	reporter.set(report{uid: "uid-1", generation: 4})
	expectWrites(2)
	reporter.observe(nil, "101")
	expectWrites(3)
	// etcd was restored from a backup.
	reporter.observe(nil, "50")
	expectWrites(4)
}

func TestAReportIsTriedAgain(t *testing.T) {
	r, reporter, _ := reporting(t, func(n int64) error {
		if n < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	reporter.set(report{uid: "uid-1", generation: 3, message: strings.Repeat("é", maxMessage), problems: make([]appv1.ProxyProblem, 2*maxProblems)})
	r.expectReport(3, "é")
	if proxy := r.gateway().Status.Proxies[0]; len(proxy.Message) > maxMessage || len(proxy.Problems) != maxProblems {
		t.Errorf("the message has %d bytes, and there are %d problems", len(proxy.Message), len(proxy.Problems))
	}
}

// What was to be told of a Gateway is not told of the next one of its name, whose status the operator has just written.
func TestAReportIsNotWrittenToTheNextGatewayOfTheName(t *testing.T) {
	gateway := func(uid types.UID, version string) *appv1.Gateway {
		return &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	for name, create := range map[string]func(handlers cache.ResourceEventHandlerFuncs){
		"its end was seen": func(handlers cache.ResourceEventHandlerFuncs) { handlers.AddFunc(gateway("uid-2", "5")) },
		"its end was not seen": func(handlers cache.ResourceEventHandlerFuncs) {
			handlers.UpdateFunc(gateway("uid-1", "2"), gateway("uid-2", "5"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, reporter, writes := reporting(t, never)
			handlers := (&watcher{changed: func() {}}).onGateway(reporter)
			handlers.AddFunc(gateway("uid-1", "1"))
			reporter.set(report{uid: "uid-1", generation: 3})
			r.expectReport(3, "")
			create(handlers)
			handlers.UpdateFunc(gateway("uid-2", "5"), gateway("uid-2", "7"))
			// The loop may not know of it yet.
			reporter.set(report{uid: "uid-1", generation: 4})
			mustDo(t, reporter.write(t.Context()))
			if got := writes.Load(); got != 1 {
				t.Errorf("%d writes, want 1", got)
			}
			reporter.set(report{uid: "uid-2", generation: 1})
			r.expectReport(1, "")
		})
	}
}

// Nor, before its news is here, to one that nobody knows of yet: the API server refuses what names another UID.
func TestAReportNamesItsGateway(t *testing.T) {
	r, reporter, _ := reporting(t, never)
	named := make(chan types.UID, 2)
	r.gateways.PrependReactor("patch", "gateways", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var gateway appv1.Gateway
		err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &gateway)
		named <- gateway.UID
		return true, &gateway, err
	})
	reporter.set(report{uid: "uid-1", generation: 3})
	if uid := <-named; uid != "uid-1" {
		t.Errorf("the report names %q", uid)
	}
	r.stop()
	if uid := <-named; uid != "uid-1" {
		t.Errorf("the end of it names %q", uid)
	}
}

// The loop may know of the next Gateway before the reporter does.
func TestAReportWaitsForNewsOfTheNextGatewayOfTheName(t *testing.T) {
	r, reporter, writes := reporting(t, never)
	reporter.follow("uid-1")
	reporter.set(report{uid: "uid-2", generation: 1})
	mustDo(t, reporter.write(t.Context()))
	if got := writes.Load(); got != 0 {
		t.Errorf("%d writes before", got)
	}
	reporter.follow("uid-2")
	r.expectReport(1, "")
}

func TestNobodyIsToldWhatNobodyKnows(t *testing.T) {
	r, reporter, writes := reporting(t, never)
	reporter.observe(nil, "2")
	r.stop()
	if got := writes.Load(); got != 0 {
		t.Errorf("%d writes before there was a report", got)
	}
}

// TestTheReportGoesWithHAProxy: a pod whose agent alone ends counts on, as the next agent makes it ready at once.
func TestTheReportGoesWithHAProxy(t *testing.T) {
	t.Parallel()
	for left, end := range []func(*rig){func(r *rig) { r.haproxy.Stop() }, func(*rig) {}} {
		r, _ := serving(t)
		end(r)
		r.stop()
		if proxies := r.gateway().Status.Proxies; len(proxies) != left {
			t.Errorf("the agent ended, and the status has %+v, want %d", proxies, left)
		}
	}
}

// TestWhatCannotBeWrittenIsTold, and is not any more once it can.
func TestWhatCannotBeWrittenIsTold(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 1)
	next := r.options.Paths.ConfigDir + ".next"
	r.must(os.MkdirAll(filepath.Join(next, "in the way"), 0o750))
	r.agent.pass(t.Context())
	if got := r.agent.report.wanted; got.generation != 0 || !strings.HasPrefix(got.message, "generation 1: failed to remove an old symlink: ") {
		t.Errorf("the report is %+v", got)
	}
	r.must(os.RemoveAll(next))
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	if got := r.agent.report.wanted; got.generation != 1 || got.message != "" {
		t.Errorf("then it is %+v", got)
	}
}

// TestReadyOnlyOnceTheReportCounts: nobody may say that all proxies run a generation without having asked a pod that is ready.
func TestReadyOnlyOnceTheReportCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.createService("api")
	r.createSlice("api", "one", newEndpoint(t, "one"))
	r.createGateway(r.spec("api"))
	var refused, later atomic.Bool
	refused.Store(true)
	answered := make(chan struct{}, 100)
	r.gateways.PrependReactor("patch", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { answered <- struct{}{} }()
		gateway := &appv1.Gateway{}
		if later.Load() {
			gateway.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionProgrammed, Status: metav1.ConditionTrue, ObservedGeneration: 2}}
		}
		if refused.Load() {
			return true, nil, errors.New("connection refused")
		}
		return later.Load(), gateway, nil
	})
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/", "one")
	<-answered
	if r.agent.probes.ready() == nil {
		t.Error("the pod is ready though its report was refused")
	}
	// The others run generation 2 already, and this pod has not seen it.
	later.Store(true)
	refused.Store(false)
	for range cap(answered) {
		select {
		case <-answered:
		default:
		}
	}
	<-answered
	if r.agent.probes.ready() == nil {
		t.Error("the pod is ready with generation 1 though generation 2 is said to be live everywhere")
	}
	later.Store(false)
	r.edit(r.spec("api"))
	r.eventually("the pod is ready", r.agent.probes.ready)
}
