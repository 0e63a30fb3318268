package propagation

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/source/gatewayapi"
	"gateway/internal/testbuild"
	"gateway/test/internal/peers"
	"gateway/test/internal/testenv"
)

// subject is a gateway that is measured. startControl starts what watches the API server, startProxy what answers
// requests, and settle waits until all routes are live.
type subject struct {
	name, controller                 string
	startControl, startProxy, settle func(*testing.B, *world)
}

// own is the gateway of this project, of another build if that is named.
func own(build string) subject {
	name := "gateway"
	if build != "" {
		name += "-" + build
	}
	return subject{name, string(gatewayapi.ControllerName), func(b *testing.B, w *world) {
		b.Helper()
		if build != "" {
			w.build = peers.Program(build)
		}
		// Another build may have applied its own before.
		peers.ApplyCRDs(b, server, filepath.Join(cmp.Or(w.build, testbuild.MustRoot(b)), "artifacts", "crd"))
		w.startOperator(b)
	}, startPod, settleRoutes}
}

// peer is the gateway of another project.
func peer(p peers.Peer) subject {
	gateway := func(w *world) peers.Gateway {
		return peers.Gateway{Server: server, Namespace: w.namespace, Name: gatewayName, Address: fmt.Sprintf("127.0.0.1:%d", w.port)}
	}
	return subject{p.Name, p.Controller, func(b *testing.B, w *world) {
		b.Helper()
		w.peer = p.Start(b, gateway(w))
	}, func(b *testing.B, w *world) {
		b.Helper()
		if p.StartProxy != nil {
			p.StartProxy(b, gateway(w))
		}
		w.awaitProbe(b)
	}, settlePeer}
}

// older is the build with which this one is compared.
const older = "e14b96c"

// BenchmarkPeers measures the same edits among many HTTPRoutes with several gateways, one after the other on the same
// API server: Traefik with its own proxy, and the control planes of Contour and Envoy Gateway until the push to a
// stand-in for Envoy.
func BenchmarkPeers(b *testing.B) {
	server.InstallGatewayAPI(b)
	for _, s := range []subject{
		own(""),
		own(older),
		peer(peers.Contour),
		peer(peers.EnvoyGateway),
		peer(peers.Traefik),
		peer(peers.EagerTraefik),
	} {
		b.Run(s.name, func(b *testing.B) { compare(b, s, 3000, false, true) })
	}
}

// BenchmarkSizes measures the same with few and with many routes, and the older build.
func BenchmarkSizes(b *testing.B) {
	server.InstallGatewayAPI(b)
	for _, routes := range []int{300, 10000} {
		for _, s := range []subject{own(""), own(older)} {
			b.Run(fmt.Sprintf("%s/%d", s.name, routes), func(b *testing.B) { compare(b, s, routes, false) })
		}
	}
}

// compare measures edits with a subject, while other routes stay or are replaced, how long its routes took from
// nothing, and its memory after all of it.
func compare(b *testing.B, s subject, routes int, churns ...bool) {
	b.Helper()
	w := newRoutesWorld(b, s, routes)
	for _, churn := range churns {
		for _, edit := range peerEdits {
			b.Run(fmt.Sprintf("churn=%v/%s", churn, edit.name), func(b *testing.B) { w.compareEdit(b, edit, churn) })
		}
	}
	w.rest(b)
	b.Run("routes", func(b *testing.B) {
		b.ReportMetric(w.created.Seconds(), "s-until-created")
		b.ReportMetric(w.programmed.Seconds(), "s-until-live")
		for name, program := range w.programs() {
			b.ReportMetric(memory(b, program.PID()), name+"-MiB")
		}
		if w.haproxy != nil {
			b.ReportMetric(memory(b, w.haproxy.PID)+memory(b, w.worker(b)), "HAProxy-MiB")
		}
		b.ReportMetric(load(b), "load")
		b.ReportMetric(0, "ns/op")
	})
}

// load returns the machine's load in the last five minutes.
func load(b *testing.B) float64 {
	b.Helper()
	var last, five float64
	loads, err := os.ReadFile("/proc/loadavg")
	must(b, err)
	_, err = fmt.Sscan(string(loads), &last, &five)
	must(b, err)
	return five
}

// programs are those whose CPU time and memory count.
func (w *world) programs() map[string]*testenv.Program {
	if w.peer != nil {
		return map[string]*testenv.Program{"peer": w.peer}
	}
	return map[string]*testenv.Program{"operator": w.operator, "agent": w.agent}
}

// compareEdit measures an edit. There is no load: its CPU time would be that of the programs.
func (w *world) compareEdit(b *testing.B, edit edit, churn bool) {
	b.Helper()
	if churn {
		defer w.churn(b)()
	} else {
		w.rest(b)
	}
	var took []time.Duration
	used := map[string]time.Duration{"apiserver": -server.CPU(b)}
	for name, program := range w.programs() {
		used[name] = -testenv.CPU(program.PID())
	}
	times := edit.times
	if churn {
		times /= 2
	}
	for range times {
		if edit.prepare != nil {
			edit.prepare(b, w)
		}
		if !churn {
			w.rest(b)
		}
		begin := time.Now()
		w.await(b, edit.do(b, w))
		took = append(took, time.Since(begin))
		edit.undo(b, w)
	}
	if !churn {
		w.rest(b)
	}
	used["apiserver"] += server.CPU(b)
	for name, program := range w.programs() {
		used[name] += testenv.CPU(program.PID())
	}
	for name, cpu := range used {
		b.ReportMetric(float64(cpu.Milliseconds())/float64(len(took)), name+"-ms")
	}
	b.ReportMetric(milliseconds(took, 50), "p50-ms")
	b.ReportMetric(milliseconds(took, 100), "longest-ms")
	b.ReportMetric(0, "ns/op")
}

// rest waits until the programs have nothing to do.
func (w *world) rest(b *testing.B) {
	b.Helper()
	const watched = 400 * time.Millisecond
	testenv.Eventually(b, 10*time.Minute, "the programs rest", func(context.Context) error {
		var used time.Duration
		for _, program := range w.programs() {
			used -= testenv.CPU(program.PID())
			must(b, program.Running())
		}
		time.Sleep(watched)
		for _, program := range w.programs() {
			used += testenv.CPU(program.PID())
		}
		if used > watched/10 {
			return fmt.Errorf("%v of CPU in %v", used, watched)
		}
		return nil
	})
}

// peerEdits are edits that peers take without a difference.
var peerEdits = []edit{
	{"weight", nil, routeEdits[1].do, nothing, 20},
	{"new-hostname", nil, addHost, removeHost, 20},
	{"deleted-route", func(b *testing.B, w *world) {
		b.Helper()
		w.await(b, addHost(b, w))
	}, deleteHost, nothing, 20},
}

func addHost(b *testing.B, w *world) effect {
	b.Helper()
	w.turn++
	host := fmt.Sprintf("new-%d.example.com", w.turn)
	w.createRoute(b, "added", host, "/", backendRef("zero", 1))
	return effect{host, "/", answers[0]}
}

func deleteHost(b *testing.B, w *world) effect {
	b.Helper()
	w.deleteRoute(b, "added")
	return effect{fmt.Sprintf("new-%d.example.com", w.turn), "/", notFound}
}

func removeHost(b *testing.B, w *world) {
	b.Helper()
	w.await(b, deleteHost(b, w))
}

// settlePeer waits until a route is live that was created after all others, and the peer rests.
func settlePeer(b *testing.B, w *world) {
	b.Helper()
	w.await(b, addHost(b, w))
	removeHost(b, w)
	w.rest(b)
}

// clear deletes what a subject has been measured with, so that the next one does not see it.
func (w *world) clear(b *testing.B) {
	b.Helper()
	ctx, all := context.Background(), metav1.ListOptions{}
	must(b, w.api.GatewayV1().HTTPRoutes(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(b, w.api.GatewayV1().Gateways(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(b, server.Kube.DiscoveryV1().EndpointSlices(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	services, err := server.Kube.CoreV1().Services(w.namespace).List(ctx, all)
	must(b, err)
	atOnce(len(services.Items), func(i int) {
		must(b, server.Kube.CoreV1().Services(w.namespace).Delete(ctx, services.Items[i].Name, metav1.DeleteOptions{}))
	})
}
