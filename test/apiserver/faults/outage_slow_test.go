//go:build slow

package faults

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// outage is longer than a lease, and than what a program that retries more and more slowly would notice the end of in
// time.
const outage = 25 * time.Second

// TestLongOutage: an API server that is away for longer than the operator's lease. There are two operators, as
// artifacts/operator has it; the leader may end, and is then started again as kubelet does. One of the agents starts
// anew meanwhile. Traffic goes on, and what changed meanwhile is in force soon after.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	for _, fault := range []apiFault{
		// Some requests are under way when it begins.
		{"refused", (*faultproxy.Proxy).Refuse, (*faultproxy.Proxy).Accept, false, 1, 0},
		{"500", setAndCut(faultproxy.Answer(faultproxy.All, http.StatusInternalServerError, metav1.StatusReasonInternalError, 0)), none, false, 30, 0},
		{"frozen", (*faultproxy.Proxy).Freeze, (*faultproxy.Proxy).Thaw, false, 10, 0},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			s := startStack(t, "outage-"+fault.name)
			agentLeaks := watchLeaks(t, s.pod.health)
			stopTraffic := s.pod.traffic(t)
			stopKubelet := []func(){keepRunning(t, s.operator), keepRunning(t, s.startStandby(t))}
			begun := time.Now()
			fault.begin(s.proxy)
			generation := s.changeEverything(t)
			if fault.name == "refused" {
				// Its container restarts: it knows nothing but what is on the disk.
				s.pod.agent.Kill()
				s.pod.agent = s.pod.start()
			}
			<-time.After(outage - time.Since(begun))
			requests := s.proxy.Requests(begun)
			ended := time.Now()
			fault.end(s.proxy)
			s.expectChanged(t, promised, generation)
			t.Logf("in force %v after the end; %d requests in %v of the outage", time.Since(ended).Round(time.Millisecond), len(requests), outage)
			if float64(len(requests)) > fault.perSecond*outage.Seconds() {
				t.Errorf("%d requests in %v, want at most %v a second: %v", len(requests), outage, fault.perSecond, count(requests))
			}
			stopTraffic()
			for _, stop := range stopKubelet {
				stop()
			}
			agentLeaks()
		})
	}
}

// startStandby starts another operator and waits until it has seen the lease.
func (s *stack) startStandby(t *testing.T) *operator {
	t.Helper()
	started := time.Now()
	standby := startOperator(t, s.proxy, s.namespace)
	testenv.Eventually(t, soon, "the standby looks at the lease", func(context.Context) error {
		for _, request := range s.proxy.Requests(started) {
			// The leader writes it without a look.
			if request.Method == http.MethodGet && strings.HasSuffix(request.Path, "/leases/"+s.namespace) && request.Code == http.StatusOK {
				return nil
			}
		}
		return errors.New("it has not")
	})
	return standby
}

// keepRunning starts an operator again when it ends, as kubelet does: at once the first time, then after 10 s, 20 s and
// so on, until the returned function is called.
func keepRunning(t *testing.T, o *operator) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	current := o.Program
	var running sync.WaitGroup
	running.Go(func() {
		for delay := time.Duration(0); ; delay = max(2*delay, 10*time.Second) {
			select {
			case <-current.Done():
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return
			}
			current = o.again()
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
