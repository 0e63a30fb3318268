//go:build slow

package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// apiFault is something that goes wrong on the way to the API server.
type apiFault struct {
	name string
	// begin and end make it come and go.
	begin, end func(p *faultproxy.Proxy)
	// works reports whether everything gets done all the same.
	works bool
	// perSecond is the most requests that the operator and the agent may send a second meanwhile.
	perSecond float64
	// code is what some of them are to be answered; 0 if that is not part of the fault.
	code int
}

func set(fault faultproxy.Fault) func(p *faultproxy.Proxy) {
	return func(p *faultproxy.Proxy) { p.Set(fault) }
}

// setAndCut makes a fault come, or go, for those watches, too, that are under way.
func setAndCut(fault faultproxy.Fault) func(p *faultproxy.Proxy) {
	return func(p *faultproxy.Proxy) {
		p.Set(fault)
		p.Cut()
	}
}

// none ends a fault and nothing else: what did not succeed has to be tried again without a hint.
var none = set(nil)

// writesOf are the writes of one program: what the other one writes is no hint for it, either.
func writesOf(program string) faultproxy.Match {
	return func(r *http.Request) bool { return faultproxy.Writes(r) && r.UserAgent() == program }
}

var apiFaults = []apiFault{
	{"slow", setAndCut(faultproxy.Slow(300 * time.Millisecond)), none, true, 30, 0},
	{"429", setAndCut(faultproxy.Answer(faultproxy.All, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1)), none, false, 60, 429},
	{"500", setAndCut(faultproxy.Answer(faultproxy.All, http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)), none, false, 60, 500},
	{"500-operator", set(faultproxy.Answer(writesOf("gateway-operator"), http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)), none, false, 60, 500},
	{"409-writes", set(faultproxy.Answer(faultproxy.Writes, http.StatusConflict, metav1.StatusReasonConflict, 0)), none, false, 60, 409},
	{"503-agent", set(faultproxy.Answer(writesOf("gateway-agent"), http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, 1)), none, false, 60, 503},
	{"refused", (*faultproxy.Proxy).Refuse, (*faultproxy.Proxy).Accept, false, 60, 0},
	{"dropped", (*faultproxy.Proxy).Drop, none, true, 60, 0},
	{"frozen", (*faultproxy.Proxy).Freeze, (*faultproxy.Proxy).Thaw, false, 60, 0},
	{"watches-cut", setAndCut(faultproxy.CutWatches(200 * time.Millisecond)), none, true, 60, 0},
	{"410-answers", setAndCut(faultproxy.Gone(200*time.Millisecond, false)), none, true, 60, 410},
	{"410-events", setAndCut(faultproxy.Gone(200*time.Millisecond, true)), none, true, 60, 0},
}

// faultLasts is shorter than a lease: what comes after that is TestLongOutage.
const faultLasts = 3 * time.Second

// TestAPIServerFaults: traffic goes on, the programs wait without a storm, and what changed meanwhile is in force soon
// after.
func TestAPIServerFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range apiFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			s := startStack(t, "api-"+fault.name)
			s.pod.expectAnswer(t, soon, "/edit-1", "next")
			operatorLeaks, agentLeaks := watchLeaks(t, s.operator.address), watchLeaks(t, s.pod.health)
			stopTraffic := s.pod.traffic(t)

			begun := time.Now()
			fault.begin(s.proxy)
			generation := s.changeEverything(t)
			if fault.works {
				s.expectChanged(t, soon, generation)
				t.Logf("in force %v after the change, in spite of the fault", time.Since(begun).Round(time.Millisecond))
			}
			if rest := faultLasts - time.Since(begun); rest > 0 {
				<-time.After(rest)
			}
			lasted := time.Since(begun)
			requests := s.proxy.Requests(begun)
			ended := time.Now()
			fault.end(s.proxy)
			s.expectChanged(t, promised, generation)
			t.Logf("in force %v after the end; %d requests in %v of the fault", time.Since(ended).Round(time.Millisecond), len(requests), lasted.Round(time.Millisecond))
			if float64(len(requests)) > fault.perSecond*lasted.Seconds() {
				t.Errorf("%d requests in %v, want at most %v a second: %v", len(requests), lasted, fault.perSecond, count(requests))
			}
			if fault.code != 0 && !slices.ContainsFunc(requests, func(r faultproxy.Request) bool { return r.Code == fault.code }) {
				t.Errorf("no request was answered %d: %v", fault.code, count(requests))
			}
			stopTraffic()
			operatorLeaks()
			agentLeaks()
		})
	}
}

// changeEverything edits the Gateway, moves Service "next" to another endpoint, and deletes a child. It returns the new
// generation.
func (s *stack) changeEverything(t *testing.T) int64 {
	t.Helper()
	generation := s.edit(t, "/edit-2")
	putEndpoint(t, s.namespace, "next", answering(t, "moved"))
	must.Do(t, server.Kube.PolicyV1().PodDisruptionBudgets(s.namespace).Delete(t.Context(), proxypod.ChildName(name), metav1.DeleteOptions{}))
	return generation
}

// expectChanged waits until all that changeEverything did is seen to.
func (s *stack) expectChanged(t *testing.T, within time.Duration, generation int64) {
	t.Helper()
	deadline := time.Now().Add(within)
	s.pod.expectAnswer(t, time.Until(deadline), "/edit-2", "moved")
	s.pod.expectAnswer(t, time.Until(deadline), "/edit-1", "api")
	testenv.Eventually(t, time.Until(deadline), "the deleted child", func(ctx context.Context) error {
		_, err := server.Kube.PolicyV1().PodDisruptionBudgets(s.namespace).Get(ctx, proxypod.ChildName(name), metav1.GetOptions{})
		return err
	})
	s.expectProgrammed(t, time.Until(deadline), generation)
}

// count sums up requests by what they were.
func count(requests []faultproxy.Request) map[string]int {
	counts := map[string]int{}
	for _, r := range requests {
		counts[fmt.Sprintf("%s %s %s watch=%v %d", r.Agent, r.Method, r.Path, r.Watch, r.Code)]++
	}
	return counts
}
