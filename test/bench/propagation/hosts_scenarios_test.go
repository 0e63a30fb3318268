package propagation

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/test/internal/testenv"
)

// handshakes is how many there are for a measurement.
const handshakes = 2_000

// reloaded is what an agent logs of a reload.
var reloaded = regexp.MustCompile(`reloaded because: .*`)

// changed measures what a scenario must not do: reload HAProxy, replace pods, or cut connections.
func (h *hosts) changed(b *testing.B) func() {
	b.Helper()
	loads, template := h.loads(b), h.deployment(b)
	seen := make([]int, len(h.pods))
	for i, p := range h.pods {
		seen[i] = len(p.agent.Output())
	}
	return func() {
		b.Helper()
		for i, p := range h.pods {
			for _, reason := range reloaded.FindAllString(p.agent.Output()[seen[i]:], -1) {
				b.Logf("pod %d %s", i, reason)
			}
		}
		replaced := 0.0
		if h.deployment(b) != template {
			replaced = float64(len(h.pods))
		}
		b.ReportMetric(h.loads(b)-loads, "reloads")
		b.ReportMetric(replaced, "pods-replaced")
		b.ReportMetric(h.cut(), fmt.Sprintf("of-%d-WebSockets-cut", len(h.sockets)))
		b.ReportMetric(memory(b, h.keys.PID()), "key-server-MiB")
		b.ReportMetric(load(b), "load")
		b.ReportMetric(0, "ns/op")
	}
}

// compare measures a bare HAProxy, with the hosts of this Gateway and of a small one, and what a host costs.
func (h *hosts) compare(b *testing.B, small *hosts) {
	b.Helper()
	few := small.startBare(b)
	few.Stop()
	many := h.startBare(b)
	many.Stop()
	more := float64(len(h.all) - len(small.all))
	perHost := func(program func(p *pod) int) float64 {
		return (anonymous(b, program(h.pods[0])) - anonymous(b, program(small.pods[0]))) / more
	}
	plain := (many.memory - few.memory) / more
	proxy := perHost(func(p *pod) int { return worker(b, p.haproxy) })
	b.ReportMetric(many.took.Seconds(), "bare-s-until-ready")
	b.ReportMetric(many.cpu.Seconds(), "bare-CPU-s")
	b.ReportMetric(plain, "bare-KiB/host")
	b.ReportMetric(proxy, "HAProxy-KiB/host")
	b.ReportMetric(proxy/plain, "HAProxy/bare")
	b.ReportMetric(perHost(func(p *pod) int { return p.agent.PID() }), "agent-KiB/host")
	b.ReportMetric(perHost(func(p *pod) int { return p.keys.PID() }), "keys-KiB/host")
	b.ReportMetric(0, "ns/op")
}

// compareHandshakes measures handshakes with this Gateway and with a small one, in turns.
func (h *hosts) compareHandshakes(b *testing.B, small *hosts) {
	b.Helper()
	var used [2]time.Duration
	const turns = 4
	for range turns {
		for i, at := range []*hosts{h, small} {
			pid := worker(b, at.pods[0].haproxy)
			before := testenv.CPU(pid)
			atOnce(handshakes/turns, func(i int) {
				connection, err := at.connect(b.Context(), at.pods[0], at.all[i*7919%len(at.all)].hostname())
				if err != nil {
					b.Error(err)
					return
				}
				_ = connection.Close()
			})
			used[i] += testenv.CPU(pid) - before
		}
	}
	b.ReportMetric(used[0].Seconds()*1000/handshakes, "HAProxy-ms/handshake")
	b.ReportMetric(used[1].Seconds()*1000/handshakes, "HAProxy-ms/handshake-with-10")
	b.ReportMetric(used[0].Seconds()/used[1].Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
}

// bring makes a host with a ListenerSet of its own.
func (h *hosts) bring(b *testing.B, one *host) {
	b.Helper()
	h.createSecrets(b, []*host{one})
	h.createSet(b, []*host{one})
	h.createHostRoute(b, one)
}

// bringNew measures how long a new host takes from before its Secret is written until all pods answer for it.
func (h *hosts) bringNew(b *testing.B) {
	b.Helper()
	report := h.changed(b)
	var took []time.Duration
	for range parameter(b, "NEW", "20") {
		one := h.host(b, len(h.all))
		begin := time.Now()
		h.bring(b, one)
		h.await(b, one.hostname(), one.pair.Leaf)
		took = append(took, time.Since(begin))
		h.all = append(h.all, one)
	}
	h.reportTimes(b, took)
	report()
}

func (h *hosts) reportTimes(b *testing.B, took []time.Duration) {
	b.Helper()
	b.ReportMetric(milliseconds(took, 50), "p50-ms")
	b.ReportMetric(milliseconds(took, 99), "p99-ms")
	b.ReportMetric(float64(len(took)), "changes")
}

// renew measures how long a new certificate takes until all pods show it.
func (h *hosts) renew(b *testing.B) {
	b.Helper()
	report := h.changed(b)
	var took []time.Duration
	for i := range parameter(b, "NEW", "20") {
		one := h.all[i*7919%len(h.all)]
		one.pair = h.authority.Issue(b, []string{one.hostname(), one.otherName()})
		begin := time.Now()
		_, err := server.Kube.CoreV1().Secrets(one.namespace).Update(b.Context(), one.secret(), metav1.UpdateOptions{})
		must(b, err)
		h.await(b, one.hostname(), one.pair.Leaf)
		took = append(took, time.Since(begin))
	}
	h.reportTimes(b, took)
	report()
}

// edit measures what it costs to give a listener another hostname.
func (h *hosts) edit(b *testing.B) {
	b.Helper()
	h.rest(b)
	report := h.changed(b)
	one, times := h.all[len(h.all)/2], parameter(b, "EDITS", "20")
	before, keys := h.cost(b, time.Time{}), h.keysCPU()
	var took []time.Duration
	for i := range times {
		time.Sleep(betweenEdits)
		name := [2]string{one.otherName(), one.hostname()}[i%2]
		begin := time.Now()
		h.rename(b, one, name)
		h.await(b, name, one.pair.Leaf)
		took = append(took, time.Since(begin))
	}
	h.rest(b)
	after, n := h.cost(b, before.at), float64(times)
	b.ReportMetric((after.agents-before.agents).Seconds()*1000/n/float64(len(h.pods)), "agent-ms/edit")
	b.ReportMetric((h.keysCPU()-keys).Seconds()*1000/n/float64(len(h.pods)), "keys-ms/edit")
	b.ReportMetric((after.operator-before.operator).Seconds()*1000/n, "operator-ms/edit")
	b.ReportMetric(float64(after.operatorWrites)/n, "operator-writes/edit")
	h.idleCosts(b, after.at.Sub(before.at).Seconds()/n)
	h.reportTimes(b, took)
	report()
}

// idleCosts measures what agent and operator take when nothing changes, for as long as an edit takes.
func (h *hosts) idleCosts(b *testing.B, seconds float64) {
	b.Helper()
	const still = 10 * time.Second
	before := h.cost(b, time.Time{})
	time.Sleep(still)
	after := h.cost(b, time.Time{})
	share := seconds / after.at.Sub(before.at).Seconds()
	b.ReportMetric((after.agents-before.agents).Seconds()*1000*share/float64(len(h.pods)), "idle-agent-ms")
	b.ReportMetric((after.operator-before.operator).Seconds()*1000*share, "idle-operator-ms")
}

func (h *hosts) keysCPU() (used time.Duration) {
	for _, p := range h.pods {
		used += testenv.CPU(p.keys.PID())
	}
	return used
}

// rename gives the listener of a host another hostname.
func (h *hosts) rename(b *testing.B, one *host, name string) {
	b.Helper()
	sets := h.api.GatewayV1().ListenerSets(one.namespace)
	set, err := sets.Get(b.Context(), one.set, metav1.GetOptions{})
	must(b, err)
	for i := range set.Spec.Listeners {
		if string(set.Spec.Listeners[i].Name) == one.name {
			patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/listeners/%d/hostname", "value": %q}]`, i, name)
			_, err = sets.Patch(b.Context(), one.set, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			must(b, err)
		}
	}
}

// burst measures how long many new hosts take that are made at once.
func (h *hosts) burst(b *testing.B) {
	b.Helper()
	report := h.changed(b)
	all := make([]*host, parameter(b, "BURST", "50"))
	atOnce(len(all), func(i int) { all[i] = h.host(b, len(h.all)+i) })
	begin := time.Now()
	h.createSecrets(b, all)
	atOnce(len(all), func(i int) {
		h.createSet(b, all[i:i+1])
		h.createHostRoute(b, all[i])
	})
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-created")
	h.awaitAll(b, all)
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-all-answered")
	h.all = append(h.all, all...)
	report()
}

// replacePod measures how long a pod takes that replaces another one, and a bare HAProxy with its crt-list.
func (h *hosts) replacePod(b *testing.B) {
	b.Helper()
	h.rest(b)
	one := h.startBare(b)
	one.Stop()
	p := h.pods[len(h.pods)-1]
	p.keys.Kill()
	p.empty(b)
	begin := time.Now()
	h.startPod(p)
	ready := time.Since(begin)
	last := h.all[len(h.all)-1]
	if _, err := h.get(context.WithoutCancel(b.Context()), p, last.hostname()); err != nil {
		b.Errorf("a ready pod does not answer for %s: %v", last.hostname(), err)
	}
	b.ReportMetric(ready.Seconds(), "s-until-ready")
	b.ReportMetric(one.took.Seconds(), "bare-s-until-ready")
	b.ReportMetric(ready.Seconds()/one.took.Seconds(), "ratio")
	b.ReportMetric(testenv.CPU(p.agent.PID()).Seconds(), "agent-CPU-s")
	b.ReportMetric(testenv.CPU(p.keys.PID()).Seconds(), "keys-CPU-s")
	b.ReportMetric(testenv.CPU(worker(b, p.haproxy)).Seconds(), "HAProxy-CPU-s")
	b.ReportMetric(one.cpu.Seconds(), "bare-CPU-s")
	b.ReportMetric(memoryPeak(b, p.agent.PID()), "agent-peak-MiB")
	b.ReportMetric(memoryPeak(b, p.keys.PID()), "keys-peak-MiB")
	b.ReportMetric(load(b), "load")
	b.ReportMetric(0, "ns/op")
}
