package propagation

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/source/gatewayapi"
	"gateway/internal/testbuild"
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
			w.build = peerProgram(build)
		}
		// Another build may have applied its own before.
		applyCRDs(b, filepath.Join(cmp.Or(w.build, testbuild.MustRoot(b)), "artifacts", "crd"))
		w.startOperator(b)
	}, startPod, settleRoutes}
}

// peer is a program of another project.
func peer(name, controller string, startControl, startProxy func(*testing.B, *world)) subject {
	return subject{name, controller, startControl, startProxy, settlePeer}
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
		peer("contour", "projectcontour.io/gateway-controller", startContour, standIn(contourXDS, "", "contour")),
		peer("envoy-gateway", "gateway.envoyproxy.io/gatewayclass-controller", startEnvoyGateway, standIn("127.0.0.1:18000", envoyCerts, "envoy-gateway-3000/web")),
		peer("traefik", "traefik.io/gateway-controller", nothing, startTraefik("2s")),
		peer("traefik-0s", "traefik.io/gateway-controller", nothing, startTraefik("0s")),
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

// peerProgram is the path of a program that hack/bench.sh has built.
func peerProgram(name string) string { return filepath.Join(os.Getenv("PEERS"), name) }

// applyCRDs applies those of a file or a directory, and waits until they are served.
func applyCRDs(b *testing.B, path string) {
	b.Helper()
	server.Kubectl(b, "apply", "--server-side", "--force-conflicts", "-f", path)
	server.Kubectl(b, "wait", "--for=condition=Established", "-f", path)
}

// peerDir returns the directory of the source of a peer.
func peerDir(b *testing.B, peer, module string) string {
	b.Helper()
	dir := filepath.Join(testbuild.MustRoot(b), "test", "bench", "peers", peer)
	return strings.TrimSpace(testenv.Run(b, dir, []string{"GOWORK=off"}, "go", "list", "-m", "-f", "{{.Dir}}", module))
}

// write writes a file of a peer and returns its path.
func write(b *testing.B, content string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "config.yaml")
	must(b, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const contourXDS = "127.0.0.1:18001"

// startContour starts its control plane. It asks the API server as often as it wants to.
func startContour(b *testing.B, w *world) {
	b.Helper()
	applyCRDs(b, filepath.Join(peerDir(b, "contour", "github.com/projectcontour/contour"), "examples", "contour", "01-crds.yaml"))
	config := write(b, fmt.Sprintf("gateway: {gatewayRef: {namespace: %s, name: %s}}\n", w.namespace, gatewayName))
	w.peer = testenv.Start(b, nil, peerProgram("contour"), "serve", "--insecure", "--disable-leader-election",
		"--kubeconfig="+server.Kubeconfig, "--config-path="+config, "--xds-port="+strings.TrimPrefix(contourXDS, "127.0.0.1:"), "--http-port=0", "--health-port=0",
		"--kubernetes-client-qps=1000", "--kubernetes-client-burst=1000",
		"--disable-feature=tlsroutes", "--disable-feature=tcproutes", "--disable-feature=grpcroutes", "--disable-feature=backendtlspolicies")
}

// envoyCerts is where Envoy Gateway looks for its certificates. hack/bench.sh makes such a directory for the benchmark.
const envoyCerts = "/certs"

// startEnvoyGateway starts its control plane. It asks the API server as often as it wants to.
func startEnvoyGateway(b *testing.B, w *world) {
	b.Helper()
	const namespace = "envoy-gateway-system"
	applyCRDs(b, filepath.Join(peerDir(b, "envoy", "github.com/envoyproxy/gateway"), "charts", "gateway-helm", "charts", "crds", "crds", "generated"))
	server.Kubectl(b, "create", "namespace", namespace)
	env := []string{"KUBECONFIG=" + server.Kubeconfig}
	testenv.Run(b, "", env, peerProgram("envoy-gateway"), "certgen", "--disable-topology-injector")
	secret, err := server.Kube.CoreV1().Secrets(namespace).Get(b.Context(), "envoy-gateway", metav1.GetOptions{})
	must(b, err)
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, "ca.crt"} {
		must(b, os.WriteFile(filepath.Join(envoyCerts, name), secret.Data[name], 0o600))
	}
	config := write(b, `{"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway",
		"gateway": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
		"provider": {"type": "Kubernetes", "kubernetes": {"client": {"rateLimit": {"qps": 1000, "burst": 1000}}, "leaderElection": {"disable": true}}}}`)
	w.peer = testenv.Start(b, env, peerProgram("envoy-gateway"), "server", "--config-path="+config)
}

// standIn returns what starts the stand-in for Envoy.
func standIn(xds, certs, cluster string) func(*testing.B, *world) {
	return func(b *testing.B, w *world) {
		b.Helper()
		testenv.Start(b, nil, peerProgram("envoy"), "-xds="+xds, "-certs="+certs, "-cluster="+cluster, fmt.Sprintf("-listen=127.0.0.1:%d", w.port))
		w.awaitProbe(b)
	}
}

// startTraefik returns what starts it with a throttle.
func startTraefik(throttle string) func(*testing.B, *world) {
	return func(b *testing.B, w *world) {
		b.Helper()
		w.peer = testenv.Start(b, []string{"KUBECONFIG=" + server.Kubeconfig}, peerProgram("traefik"),
			"--global.checknewversion=false", "--global.sendanonymoususage=false", "--ping=false", "--api=false",
			fmt.Sprintf("--entrypoints.web.address=127.0.0.1:%d", w.port), "--providers.kubernetesgateway=true", "--providers.providersthrottleduration="+throttle)
		w.awaitProbe(b)
	}
}
