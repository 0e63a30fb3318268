package propagation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/test/internal/testenv"
)

// costs are counters from which a scenario's costs are taken.
type costs struct {
	at                                time.Time
	apiserver, etcd, operator, agents time.Duration
	refused                           float64
	reports, operatorWrites           int
}

// cost returns what has been used so far, with the writes since then.
func (s *shared) cost(b *testing.B, since time.Time) costs {
	b.Helper()
	c := costs{
		at: time.Now(), apiserver: server.CPU(b), etcd: testenv.CPU(server.PID(b, testenv.Etcd)),
		operator: testenv.CPU(s.operator.PID()), refused: refused(b),
	}
	for _, p := range s.pods {
		if p.agent != nil {
			c.agents += testenv.CPU(p.agent.PID())
		}
	}
	if since.IsZero() {
		return c
	}
	for _, write := range server.Writes(b, agentUser, since) {
		if strings.HasPrefix(write.Resource, "gatewayproxies") {
			c.reports++
		}
	}
	c.operatorWrites = len(server.Writes(b, operatorUser, since))
	return c
}

// refused is how many requests the API server has refused because their users had sent too many. It also answers 429
// as long as its cache of a kind is not filled, whoever asks: these do not count.
func refused(b *testing.B) float64 {
	b.Helper()
	return metric(serverMetrics(b), "apiserver_flowcontrol_rejected_requests_total")
}

// reportRefused reports how many of a scenario's requests were refused. Where none may be, the whole benchmark fails,
// but the scenario's figures are printed.
func (s *shared) reportRefused(b *testing.B, number float64) {
	b.Helper()
	b.ReportMetric(number, "429s")
	if number > 0 && !s.mayRefuse {
		s.b.Errorf("%s: the API server answered %.0f requests with 429: Too Many Requests", b.Name(), number)
	}
}

// start measures the start of pods that start together, until that is in all statuses.
func (s *shared) start(b *testing.B, pods []*pod) {
	b.Helper()
	before := s.cost(b, time.Time{})
	s.startPods(b, pods)
	s.rest(b)
	after := s.cost(b, before.at)
	s.reportRefused(b, after.refused-before.refused)
	b.ReportMetric((after.apiserver - before.apiserver).Seconds(), "apiserver-CPU-s")
	b.ReportMetric(memoryPeak(b, server.PID(b, testenv.APIServer)), "apiserver-peak-MiB")
	b.ReportMetric(float64(after.reports), "reports")
	b.ReportMetric(float64(after.operatorWrites), "operator-writes")
	b.ReportMetric(0, "ns/op")
}

// startPods starts pods, and returns when each serves all routes.
func (s *shared) startPods(b *testing.B, pods []*pod) {
	b.Helper()
	for _, p := range pods {
		s.startAgent(p)
	}
	ready := inAll(pods, s.startHAProxy)
	if slices.ContainsFunc(pods, func(p *pod) bool { return !p.ready }) {
		b.FailNow()
	}
	s.awaitLive(b, effect{host: probeHost, path: "/", answer: answers[0]})
	s.awaitLive(b, effect{host: fmt.Sprintf("host-%d.example.com", s.namespaces-1), path: "/", answer: answers[0]})
	var cpu time.Duration
	var peak float64
	for _, p := range pods {
		cpu += testenv.CPU(p.agent.PID())
		peak = max(peak, memoryPeak(b, p.agent.PID()))
	}
	b.ReportMetric(ready[0].Seconds(), "s-until-first-ready")
	b.ReportMetric(ready[len(ready)-1].Seconds(), "s-until-all-ready")
	b.ReportMetric(cpu.Seconds()/float64(len(pods)), "agent-CPU-s")
	b.ReportMetric(peak, "agent-peak-MiB")
}

// idle measures what there is when nothing changes.
func (s *shared) idle(b *testing.B) {
	b.Helper()
	s.rest(b)
	const still = 10 * time.Second
	before := s.cost(b, time.Time{})
	time.Sleep(still)
	after := s.cost(b, before.at)
	took := after.at.Sub(before.at).Seconds() / 100
	s.idleShare = (after.apiserver - before.apiserver).Seconds() / took / 100
	b.ReportMetric((after.apiserver-before.apiserver).Seconds()/took, "apiserver-CPU-percent")
	b.ReportMetric((after.agents-before.agents).Seconds()/took/float64(len(s.pods)), "agent-CPU-percent")
	b.ReportMetric(watches(b), "watches")
	b.ReportMetric((watches(b)-s.watchesOfOthers)/float64(len(s.pods)), "watches/pod")
	b.ReportMetric(memory(b, server.PID(b, testenv.APIServer)), "apiserver-MiB")
	var goroutines, stacks, agent float64
	for _, p := range s.pods {
		metrics, err := testenv.Ask(b.Context(), p.health, "/metrics")
		must(b, err)
		goroutines = max(goroutines, metric(metrics, "go_goroutines"))
		stacks = max(stacks, metric(metrics, "go_memstats_stack_inuse_bytes")/(1<<20))
		agent = max(agent, memory(b, p.agent.PID()))
	}
	b.ReportMetric(agent, "agent-MiB")
	b.ReportMetric(stacks, "agent-stacks-MiB")
	b.ReportMetric(goroutines, "agent-goroutines")
	b.ReportMetric(float64(len(s.report(b, 0))), "bytes/report")
	b.ReportMetric(load(b), "load")
	b.ReportMetric(0, "ns/op")
}

// uneven is how long a churn runs until agents report as often as they do in the long run.
const uneven = 5 * time.Second

// betweenEdits is the time between two edits when nothing else changes: each is reported by itself.
const betweenEdits = 1500 * time.Millisecond

// edits measures edits of weights, until they are live in all pods and until that is in the status: one at a time, or
// while ten other routes a second are replaced.
func (s *shared) edits(b *testing.B, churn bool) {
	b.Helper()
	if churn {
		defer s.churn(b)()
		time.Sleep(uneven)
	} else {
		s.rest(b)
	}
	times := parameter(b, "EDITS", "10")
	before := s.cost(b, time.Time{})
	s.edit(b, times, churn)
	after := s.cost(b, before.at)
	took, n := after.at.Sub(before.at).Seconds(), float64(times)
	apiserver := (after.apiserver - before.apiserver).Seconds()
	s.reportRefused(b, after.refused-before.refused)
	b.ReportMetric(float64(after.reports)/n, "reports/edit")
	b.ReportMetric(float64(after.reports)/took/float64(len(s.pods)), "reports/pod-and-s")
	b.ReportMetric((apiserver-s.idleShare*took)*1000/n, "apiserver-ms/edit")
	b.ReportMetric(apiserver/took*100, "apiserver-CPU-percent")
	b.ReportMetric((after.etcd-before.etcd).Seconds()*1000/n, "etcd-ms/edit")
	b.ReportMetric((after.operator-before.operator).Seconds()*1000/n, "operator-ms/edit")
	b.ReportMetric((after.agents-before.agents).Seconds()*1000/n/float64(len(s.pods)), "agent-ms/edit")
	b.ReportMetric(load(b), "load")
	b.ReportMetric(0, "ns/op")
}

// floor measures what the API server takes for an edit of a route that belongs to no Gateway, with as many plain
// watches as there are to be pods: no build takes less.
func (s *shared) floor(b *testing.B, pods int) {
	b.Helper()
	at := s.in(b, pods, "floor")
	at.createRoute(b, "split", "floor.example.com", "/", backendRef("zero", 1))
	routes := s.api.GatewayV1().HTTPRoutes(at.namespace)
	patch := func(text string) {
		_, err := routes.Patch(b.Context(), "split", types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		must(b, err)
	}
	patch(`[{"op":"remove","path":"/spec/parentRefs"}]`)
	for range pods {
		watcher, err := routes.Watch(b.Context(), metav1.ListOptions{})
		must(b, err)
		defer watcher.Stop()
		go func() {
			for range watcher.ResultChan() {
			}
		}()
	}
	s.rest(b)
	cost := func(does func(i int)) float64 {
		before, times := server.CPU(b), parameter(b, "EDITS", "10")
		for i := range times {
			does(i)
			time.Sleep(betweenEdits)
		}
		return (server.CPU(b) - before).Seconds() * 1000 / float64(times)
	}
	idle := cost(func(int) {})
	b.ReportMetric(cost(func(i int) {
		patch(fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/backendRefs/0/weight","value":%d}]`, i%2))
	})-idle, "apiserver-ms/edit")
	b.ReportMetric(load(b), "load")
	b.ReportMetric(0, "ns/op")
}

// edit edits as often, and reports the times until edits are live in all pods, and from then until they are Programmed.
func (s *shared) edit(b *testing.B, times int, churn bool) {
	b.Helper()
	programmed := s.watchProgrammed(b)
	var live, later []time.Duration
	for range times {
		if !churn {
			time.Sleep(betweenEdits)
		}
		begin := time.Now()
		s.awaitLive(b, routeEdits[1].do(b, s.world))
		at := time.Now()
		live = append(live, at.Sub(begin))
		later = append(later, max(0, programmed(int32(1-s.turn%2)).Sub(at)))
	}
	b.ReportMetric(milliseconds(live, 50), "live-p50-ms")
	b.ReportMetric(milliseconds(live, 100), "live-longest-ms")
	b.ReportMetric(milliseconds(later, 50), "Programmed-later-p50-ms")
	b.ReportMetric(milliseconds(later, 90), "Programmed-later-p90-ms")
	b.ReportMetric(milliseconds(later, 100), "Programmed-later-longest-ms")
}

// awaitLive waits until each pod gives the answer. None may take more than a minute.
func (s *shared) awaitLive(b *testing.B, want effect) {
	b.Helper()
	for i, p := range s.pods {
		at := p.in(s.world)
		testenv.Eventually(b, time.Minute, fmt.Sprintf("pod %d runs %+v", i, want), func(ctx context.Context) error {
			var got string
			for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(poll) {
				var err error
				if got, err = at.ask(ctx, want); err != nil || got == want.answer {
					return err
				}
			}
			return fmt.Errorf("it answers %q; it reports %s", got, s.report(b, i))
		})
	}
}

// report is what a pod has reported, as JSON.
func (s *shared) report(b *testing.B, pod int) []byte {
	b.Helper()
	report, err := server.App.AppV1().RESTClient().Get().Namespace(s.namespace).Resource("gatewayproxies").
		Name(fmt.Sprintf("pod-%d", pod)).DoRaw(b.Context())
	must(b, err)
	return report
}

// watchProgrammed watches the route that is edited. It returns a function that waits until the route is Programmed
// with a weight, and returns when that was seen.
func (s *shared) watchProgrammed(b *testing.B) func(weight int32) time.Time {
	b.Helper()
	type seen struct {
		weight int32
		at     time.Time
	}
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, "split").String()}
	watcher, err := s.api.GatewayV1().HTTPRoutes(s.namespace).Watch(b.Context(), named)
	must(b, err)
	b.Cleanup(watcher.Stop)
	all := make(chan seen, 1000)
	go func() {
		defer close(all)
		for event := range watcher.ResultChan() {
			if route, _ := event.Object.(*gatewayv1.HTTPRoute); route != nil && isProgrammed(route) == nil {
				all <- seen{*route.Spec.Rules[0].BackendRefs[0].Weight, time.Now()}
			}
		}
	}()
	return func(weight int32) time.Time {
		b.Helper()
		timeout := time.After(soon)
		for {
			select {
			case next, ok := <-all:
				if !ok {
					b.Fatal("the watch of the route ended")
				}
				if next.weight == weight {
					return next.at
				}
			case <-timeout:
				b.Fatalf("the route is not Programmed after %v", soon)
			}
		}
	}
}

// replace ends all pods, lets others start in their place while routes change, and edits: every pod has to run each
// edit.
func (s *shared) replace(b *testing.B) {
	b.Helper()
	defer s.churn(b)()
	before := s.cost(b, time.Time{})
	for _, p := range s.pods {
		p.empty(b)
	}
	s.startPods(b, s.pods)
	s.edit(b, parameter(b, "EDITS", "10"), true)
	after := s.cost(b, before.at)
	s.reportRefused(b, after.refused-before.refused)
	b.ReportMetric((after.apiserver - before.apiserver).Seconds(), "apiserver-CPU-s")
	b.ReportMetric(0, "ns/op")
}

// killServer kills the API server, starts it again after a while, and measures until it is ready and all watches are
// back.
func (s *shared) killServer(b *testing.B) {
	b.Helper()
	s.rest(b)
	const down = 5 * time.Second
	all, agents := watches(b), -s.cost(b, time.Time{}).agents
	stop := s.load(b)
	start := server.Kill(b, testenv.APIServer)
	time.Sleep(down)
	begin := time.Now()
	start()
	server.Ready(b)
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-readyz")
	testenv.Eventually(b, long, "all watches are back", func(context.Context) error {
		if now := watches(b); now < all {
			time.Sleep(seldom)
			return fmt.Errorf("%.0f of %.0f are", now, all)
		}
		return nil
	})
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-all-watches")
	b.ReportMetric(server.CPU(b).Seconds(), "apiserver-CPU-s")
	s.edit(b, 1, false)
	agents += s.cost(b, time.Time{}).agents
	b.ReportMetric(agents.Seconds()/float64(len(s.pods)), "agent-CPU-s")
	peak := 0.0
	for _, p := range s.pods {
		peak = max(peak, memoryPeak(b, p.agent.PID()))
	}
	b.ReportMetric(peak, "agent-peak-MiB")
	b.ReportMetric(memoryPeak(b, server.PID(b, testenv.APIServer)), "apiserver-peak-MiB")
	b.ReportMetric(float64(stop()), "failed-requests")
	s.reportRefused(b, refused(b))
	b.ReportMetric(load(b), "load")
	b.ReportMetric(0, "ns/op")
}
