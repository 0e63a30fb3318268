package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// reporting is a rig of which only the reporter runs, by a clock that stands still.
type reporting struct {
	*rig
	reporter *reporter
	clock    *clocktesting.FakeClock
	// tries are how often the API server was asked to take in a report.
	tries atomic.Int64
	// confirmed are the Gateways that were passed to confirm, as "UID/GENERATION".
	confirmed chan string
}

// newReporting returns a rig whose API server answers the n-th report with what refuse returns.
func newReporting(t *testing.T, refuse func(n int64) error) *reporting {
	t.Helper()
	r := &reporting{rig: newRig(t), clock: clocktesting.NewFakeClock(time.Now()), confirmed: make(chan string, 10)}
	r.createGateway(r.spec("api"))
	r.gateways.PrependReactor("patch", "gatewayproxies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "status" {
			return false, nil, nil
		}
		err := refuse(r.tries.Add(1))
		return err != nil, nil, err
	})
	r.options.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	r.reporter = newReporter(r.options, r.clock, func(uid types.UID, generation int64) {
		r.confirmed <- fmt.Sprintf("%s/%d", uid, generation)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.reporter.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func never(int64) error { return nil }

func reportOf(uid types.UID, generation int64, problems ...appv1.ProxyProblem) appv1.GatewayProxyStatus {
	return appv1.GatewayProxyStatus{Gateway: appv1.ProxiedGateway{UID: uid}, ObservedGeneration: generation, Problems: problems}
}

// expectTries waits until the API server was asked so often, and not more often.
func (r *reporting) expectTries(want int64) {
	r.t.Helper()
	r.eventually("it is tried", func() error {
		if got := r.tries.Load(); got < want {
			return fmt.Errorf("%d tries, want %d", got, want)
		}
		return nil
	})
	if got := r.tries.Load(); got > want {
		r.t.Errorf("%d tries, want %d", got, want)
	}
}

// TestReportIsAnObjectOfThePod: it goes with the pod, and the operator finds it by the Gateway's name.
func TestReportIsAnObjectOfThePod(t *testing.T) {
	r := newReporting(t, never)
	secret := newProblem("https", kindSecret, namespace, "tls", "it is bad")
	r.reporter.set(reportOf("uid-1", 3, secret), 0, false)
	r.expectReport(3, "")
	got, err := r.gateways.AppV1().GatewayProxies(namespace).Get(t.Context(), podName, metav1.GetOptions{})
	r.must(err)
	want := appv1.GatewayProxyStatus{
		Gateway: appv1.ProxiedGateway{Name: gatewayN, UID: "uid-1"}, ObservedGeneration: 3, Problems: []appv1.ProxyProblem{secret},
		Addresses: []appv1.NodeAddress{"192.0.2.1", "2001:db8::1"},
	}
	if !equality.Semantic.DeepEqual(got.Status, want) || got.Labels[proxypod.LabelGateway] != gatewayN {
		t.Errorf("got %+v with the labels %v, want %+v", got.Status, got.Labels, want)
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: podName, UID: "pod-uid"}
	if !slices.Equal(got.OwnerReferences, []metav1.OwnerReference{owner}) {
		t.Errorf("it is owned by %+v", got.OwnerReferences)
	}
}

// TestAReportIsOneSmallRequest: each pod makes one for each edit. To apply it would take the API server twice the time:
// the fields that a manager owns are compared and written each time, and the text is parsed as YAML.
func TestAReportIsOneSmallRequest(t *testing.T) {
	r := newReporting(t, never)
	r.reporter.set(reportOf("uid-1", 1), 0, false)
	r.expectReport(1, "")
	made := slices.ContainsFunc(r.gateways.Actions(), func(action clienttesting.Action) bool {
		patch, ok := action.(clienttesting.PatchAction)
		return ok && strings.Contains(string(patch.GetPatch()), `"managedFields":[{}]`)
	})
	if !made {
		t.Error("the API server keeps a record of who set what")
	}
	r.gateways.ClearActions()
	problem := newProblem("https", kindSecret, namespace, "tls", "it is bad")
	r.reporter.set(reportOf("uid-1", 2, problem), 0, false)
	r.expectReport(2, "")
	r.reporter.set(reportOf("uid-1", 3), 0, false) // what is not there any more goes
	r.expectReport(3, "")
	var writes []string
	for _, action := range r.gateways.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			writes = append(writes, fmt.Sprintf("%s %s", patch.GetPatchType(), patch.GetSubresource()))
		}
	}
	if want := []string{"application/json-patch+json status", "application/json-patch+json status"}; !slices.Equal(writes, want) {
		t.Errorf("the requests are %q, want %q", writes, want)
	}
	got, err := r.reported()
	r.must(err)
	if len(got.Problems) > 0 {
		t.Errorf("there are problems left: %+v", got.Problems)
	}
}

// TestReportsAreSpacedOut: the first changes are reported at once, and those that follow within a second.
func TestReportsAreSpacedOut(t *testing.T) {
	r := newReporting(t, never)
	for range 5 {
		r.reporter.set(reportOf("uid-1", 1), 0, false)
		r.expectReport(1, "")
	}
	for generation := range int64(reportBurst) {
		r.reporter.set(reportOf("uid-1", 1+generation), 0, false)
		r.expectReport(1+generation, "")
	}
	for generation := range int64(5) {
		r.reporter.set(reportOf("uid-1", 4+generation), 0, false)
	}
	// That the pod becomes an endpoint is looked at, and by then so is what came before.
	r.reporter.set(reportOf("uid-1", 9), 0, true)
	<-r.confirmed
	r.expectTries(reportBurst)
	r.expectReport(reportBurst, "")
	r.clock.Step(reportInterval)
	r.expectReport(9, "")
	r.expectTries(reportBurst + 1)
}

// TestVersionsAloneAreNoReport: nobody waits for the resourceVersion of a status write. The next report has it, at the
// latest after a minute.
func TestVersionsAloneAreNoReport(t *testing.T) {
	r := newReporting(t, never)
	upTo := func(version string) appv1.GatewayProxyStatus {
		report := reportOf("uid-1", 1)
		report.ResourceVersion = version
		report.Resources = []appv1.ProxiedResource{{Resource: "httproutes", Namespace: "web", ResourceVersion: version}}
		return report
	}
	expect := func(version string, step time.Duration) {
		t.Helper()
		r.eventually("it is reported", func() error {
			r.clock.Step(step)
			if got, err := r.reported(); err != nil || got.ResourceVersion != version || got.Resources[0].ResourceVersion != version {
				return fmt.Errorf("got %+v, %w", got, err)
			}
			return nil
		})
	}
	r.reporter.set(upTo("100"), 1, false)
	expect("100", 0)
	r.reporter.set(upTo("110"), 1, false) // a status
	r.reporter.set(upTo("111"), 1, true)  // which has the reporter look
	<-r.confirmed
	expect("100", 0)
	r.reporter.set(upTo("120"), 2, true) // an edit
	expect("120", 0)
	r.expectTries(2)
	r.reporter.set(upTo("130"), 2, true)
	expect("130", renewInterval)
}

// TestAReportComesBack after somebody has deleted it.
func TestAReportComesBack(t *testing.T) {
	r := newReporting(t, never)
	r.reporter.set(reportOf("uid-1", 3), 0, false)
	r.expectReport(3, "")
	r.must(r.gateways.AppV1().GatewayProxies(namespace).Delete(t.Context(), podName, metav1.DeleteOptions{}))
	r.eventually("it is there again", func() error {
		r.clock.Step(renewInterval)
		_, err := r.reported()
		return err
	})
}

func TestAReportIsTriedAgain(t *testing.T) {
	r := newReporting(t, func(n int64) error {
		if n < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	problems := make([]appv1.ProxyProblem, 2*maxProblems+1)
	for i := range problems {
		problems[i] = newProblem("", kindSecret, namespace, "tls", "%s "+strings.Repeat("é", model.MaxMessage))
	}
	r.reporter.set(reportOf("uid-1", 3, problems...), 0, false)
	r.eventually("it is written", func() error {
		r.clock.Step(lastReportRetry)
		got, err := r.reported()
		if err == nil && got.ObservedGeneration != 3 {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	got, err := r.reported()
	r.must(err)
	if len(got.Problems) != maxProblems || got.OmittedProblems != maxProblems+1 {
		t.Fatalf("there are %d problems and %d more, want %d and %d", len(got.Problems), got.OmittedProblems, maxProblems, maxProblems+1)
	}
	if message := got.Problems[0].Message; len(message) > model.MaxMessage || strings.ToValidUTF8(message, "?") != message {
		t.Errorf("the message has %d bytes: %s", len(message), message)
	}
}

// TestTheGatewayIsReadAfterTheReport: the pod may become ready with what the Gateway was after its report was taken in,
// and after it became an endpoint.
func TestTheGatewayIsReadAfterTheReport(t *testing.T) {
	var refuse atomic.Bool
	r := newReporting(t, func(int64) error {
		if refuse.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	r.reporter.set(reportOf("uid-1", 1), 0, false)
	r.expectReport(1, "")
	generation := r.edit(r.spec("api"))
	if len(r.confirmed) > 0 {
		t.Errorf("it was confirmed before the pod was an endpoint: %s", <-r.confirmed)
	}
	r.reporter.set(reportOf("uid-1", 1), 0, true)
	if got := <-r.confirmed; got != fmt.Sprintf("uid-1/%d", generation) {
		t.Errorf("got %s, want generation %d", got, generation)
	}
	// Once is enough, but for another Gateway of the name.
	refuse.Store(true)
	r.must(r.gateways.AppV1().Gateways(namespace).Delete(t.Context(), gatewayN, metav1.DeleteOptions{}))
	r.createGateway(r.spec("api"), "uid-2")
	r.clock.Step(reportInterval)
	r.reporter.set(reportOf("uid-2", 1), 0, true)
	r.expectTries(2)
	if len(r.confirmed) > 0 {
		t.Errorf("it was confirmed though the report was refused: %s", <-r.confirmed)
	}
	refuse.Store(false)
	r.await("it is confirmed", func() bool {
		r.clock.Step(lastReportRetry)
		return len(r.confirmed) != 0
	})
	if got := <-r.confirmed; got != "uid-2/1" {
		t.Errorf("got %s", got)
	}
}

// TestWhatCannotBeWrittenIsReported, and is not any more once it can.
func TestWhatCannotBeWrittenIsReported(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 1)
	next := r.options.Paths.ConfigDir + ".next"
	r.must(os.MkdirAll(filepath.Join(next, "in the way"), 0o750))
	r.agent.pass(t.Context())
	got := r.agent.report.wanted.GatewayProxyStatus
	if got.ObservedGeneration != 0 || len(got.Problems) != 1 || got.Problems[0].Reason != appv1.ProblemWriteFailed || got.Problems[0].Origin.Generation != 1 ||
		!strings.HasPrefix(got.Problems[0].Message, "failed to remove an old symlink: ") {
		t.Errorf("the report is %+v", got)
	}
	r.must(os.RemoveAll(next))
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	if got := r.agent.report.wanted; got.ObservedGeneration != 1 || len(got.Problems) != 0 {
		t.Errorf("then it is %+v", got)
	}
}

// TestReadyOnlyOnceTheReportCounts: nobody may say that all proxies run a generation without having asked a pod that is
// ready.
func TestReadyOnlyOnceTheReportCounts(t *testing.T) {
	t.Parallel()
	var refused atomic.Bool
	refused.Store(true)
	answered := make(chan struct{}, 1000)
	r := starting(t, func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { answered <- struct{}{} }()
		if refused.Load() {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	<-answered
	if r.agent.probes.ready() == nil {
		t.Error("the pod is ready though its report was refused")
	}
	refused.Store(false)
	r.eventually("the pod is ready", r.agent.probes.ready)
}

// TestReadyOnlyAsAnEndpoint: the operator counts the reports of endpoints.
func TestReadyOnlyAsAnEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	own, err := r.core.DiscoveryV1().EndpointSlices(namespace).Get(t.Context(), proxypod.ChildName(gatewayN)+"-1", metav1.GetOptions{})
	r.must(err)
	r.must(r.core.DiscoveryV1().EndpointSlices(namespace).Delete(t.Context(), own.Name, metav1.DeleteOptions{}))
	r.createService("api")
	r.createSlice("api", "one", newEndpoint(t, "one"))
	r.createGateway(r.spec("api"))
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/", "one")
	r.expectReport(1, "")
	if r.agent.probes.ready() == nil {
		t.Error("the pod is ready though it is no endpoint")
	}
	_, err = r.core.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), own, metav1.CreateOptions{})
	r.must(err)
	r.eventually("the pod is ready", r.agent.probes.ready)
}
