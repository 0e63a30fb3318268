package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gateway/internal/testbuild"
	"gateway/test/internal/peers"
	"gateway/test/internal/testenv"
)

// sample is what the programs of gateway-api-bench report, one in a line. Value is the count of attached routes,
// microseconds, or 1 for a request that failed, as the test is.
type sample struct {
	Test  string `json:"test"`
	Time  int64  `json:"_time"` // nanoseconds since 1970
	Value int64  `json:"value"`
}

// samples is a stand-in for VictoriaLogs, which the programs report to.
type samples struct {
	mu  sync.Mutex
	all []sample
}

func (s *samples) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for decoder := json.NewDecoder(r.Body); decoder.More(); {
		var one sample
		if err := decoder.Decode(&one); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.all = append(s.all, one)
	}
}

// take returns the samples since the last call.
func (s *samples) take() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

// apiBench runs programs of gateway-api-bench against one Gateway. It is the cluster that they expect: the endpoints of
// their backends are here.
type apiBench struct {
	*site
	t *testing.T
	// name is the name of what is measured, namespace the one of its Gateway shop.
	name, namespace string
	// within bounds each program.
	within  time.Duration
	samples *samples
	args    []string
	// path is where the programs look for kubectl.
	path string
}

// TestGatewayAPIBench runs what gateway-api-bench has: attached routes, route propagation, route changes, backend
// failover, and its routes that change all the time. Its ListenerSets are not run: its programs are built with the
// Gateway API v1.4, where the kind is XListenerSet. hack/prove.sh runs each subtest on an API server of its own.
// Traefik gets fewer routes, because each takes it longer. It checks no endpoints of HTTPRoutes, so it is not
// measured how it fails over. The other peers have no proxy here.
func TestGatewayAPIBench(t *testing.T) {
	t.Run("gateway", func(t *testing.T) {
		b := newAPIBench(t, startSite(t), "gateway", infra)
		b.createGateway("gateway")
		proxy := b.startProxy(infra, "shop")
		b.attachedRoutes(1000)
		b.propagation(3000)
		b.changes(100)
		b.failover()
		b.scale(proxy, 5000)
	})
	t.Run(peers.Traefik.Name, func(t *testing.T) {
		b := startPeer(t, peers.Traefik)
		b.attachedRoutes(1000)
		b.propagation(100)
		b.changes(100)
	})
	for _, peer := range []peers.Peer{peers.Contour, peers.EnvoyGateway} {
		t.Run(peer.Name, func(t *testing.T) { startPeer(t, peer).attachedRoutes(1000) })
	}
}

// newAPIBench returns one for the Gateway shop in a namespace.
func newAPIBench(t *testing.T, s *site, name, namespace string) *apiBench {
	t.Helper()
	b := &apiBench{site: s, t: t, name: name, namespace: namespace, within: long, samples: &samples{}, path: os.Getenv("PATH")}
	logs := httptest.NewServer(b.samples)
	t.Cleanup(logs.Close)
	b.args = []string{"--kubeconfig=" + server.Kubeconfig, "--gateways=" + namespace + "/shop", "--victoria=" + logs.URL}
	b.createEndpoints()
	return b
}

// startPeer starts a peer. Requests come to this machine's address.
func startPeer(t *testing.T, peer peers.Peer) *apiBench {
	t.Helper()
	server.InstallGatewayAPI(t)
	b := newAPIBench(t, &site{t: t}, peer.Name, peer.Name)
	b.within = 10 * time.Minute
	b.createNamespace(peer.Name)
	peer.Start(t, peers.Gateway{Server: server, Namespace: peer.Name, Name: "shop", Address: net.JoinHostPort(testenv.OwnAddress(t), "80")})
	b.apply(`{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: %s}, spec: {controllerName: %s}}`, peer.Name, peer.Controller)
	b.createGateway(peer.Name)
	return b
}

func (b *apiBench) createGateway(class string) {
	b.t.Helper()
	b.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: %s}
spec:
  gatewayClassName: %s
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]`, b.namespace, class)
}

// row is row with what is measured.
func (b *apiBench) row(what, format string, values ...any) {
	b.t.Helper()
	row(b.t, b.name+": "+what, format, values...)
}

// run runs a program of it until it ends, and returns what it says. When its time is over, it is interrupted, reports
// what it has seen, and cleans up.
func (b *apiBench) run(name string, args ...string) (string, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), b.within)
	defer cancel()
	command := exec.CommandContext(ctx, tool(b.t, name), args...) //nolint:gosec // built by hack/prove.sh
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = soon
	command.Env = append(os.Environ(), "PATH="+b.path)
	said, err := command.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not within %v", b.within)
	}
	return string(said), err
}

// attachedRoutes is the time until a Gateway's status counts all routes that come at once, and none when they go.
func (b *apiBench) attachedRoutes(routes int) {
	said, err := b.run("attachedroutes", append(b.args, fmt.Sprintf("--routes=%d", routes))...)
	values := regexp.MustCompile(`add-all=(\S+) remove-all=(\S+) writes=(\d+)`).FindStringSubmatch(said)
	added := fmt.Sprintf("%d attached routes: all counted, after the last was made", routes)
	if counts := b.samples.take(); values == nil || len(counts) == 0 {
		b.row(added, "%v", err)
		b.t.Errorf("attached routes were not counted: %v\n%s", err, said)
		return
	}
	if err != nil {
		b.t.Errorf("attached routes were counted after they were deleted: %v\n%s", err, said)
		values[2] = err.Error()
	}
	b.row(added, "%s", values[1])
	b.row("none counted, after the first was deleted", "%s", values[2])
	b.row("statuses written to the Gateway meanwhile", "%s", values[3])
}

// propagation is the time from a new route to its first answer, one route after the other.
func (b *apiBench) propagation(routes int) {
	said, err := b.run("probe", append(b.args, fmt.Sprintf("--routes=%d", routes))...)
	seen := map[int64]time.Duration{} // it reports all again each time
	for _, one := range b.samples.take() {
		seen[one.Time] = time.Duration(one.Value) * time.Microsecond
	}
	all := make([]time.Duration, 0, len(seen))
	for _, latency := range seen {
		all = append(all, latency)
	}
	if err != nil || len(all) != routes {
		b.row(fmt.Sprintf("%d routes, one after the other: answered", routes), "%d, %v", len(all), err)
		b.t.Errorf("%d of %d routes answered: %v\n%s", len(all), routes, err, said)
		return
	}
	b.row(fmt.Sprintf("%d routes, one after the other: first answer, median", routes), "%v", median(all))
	b.row("99 of 100 within", "%v", all[len(all)*99/100].Round(time.Millisecond))
	b.row("answers that were neither 404 nor 200", "%d", strings.Count(said, "unexpected status code"))
}

// changes changes a route under requests, which end with the first that is lost.
func (b *apiBench) changes(iterations int) {
	said, err := b.run("routechange", b.args[0], b.args[1], fmt.Sprintf("--iterations=%d", iterations))
	requests, result := regexp.MustCompile(`requests=(\d+)`).FindString(said), "none lost"
	if err != nil {
		b.t.Errorf("a change lost a request: %v\n%s", err, said)
		result = "ended early: " + err.Error()
	}
	b.row(fmt.Sprintf("%d changes of one route", iterations), "%s, %s", requests, result)
}

// failover has one of four endpoints refuse connections five times, for 22 seconds each, by iptables. The routes
// forbid retries, and the endpoints are checked as the program asks it of others.
func (b *apiBench) failover() {
	b.t.Helper()
	b.apply(foreignKinds)
	b.apply(`
apiVersion: app.example.com/v1
kind: BackendPolicy
metadata: {name: backend, namespace: default}
spec:
  targetRefs: [{name: backend}]
  healthCheck: {path: /healthz, interval: 1s, timeout: 1s, unhealthyThreshold: 1, healthyThreshold: 1}
  outlierDetection: {consecutiveErrors: 5}`)
	for _, name := range []string{"istio-system", "envoy"} {
		b.createNamespace(name)
	}
	// Its "kubectl exec POD -- iptables ..." runs iptables in the network of the endpoint.
	directory := b.t.TempDir()
	must(b.t, os.WriteFile(filepath.Join(directory, "kubectl"), fmt.Appendf(nil, "#!/bin/sh\nshift 4\nexec ip netns exec %s \"$@\"\n", b.createFailing()), 0o700)) //nolint:gosec // it is run
	b.path = directory + ":" + b.path
	said, err := b.run("backendfailover", b.args...)
	lost, all := 0, b.samples.take()
	for _, one := range all {
		lost += int(one.Value)
	}
	if err != nil || len(all) < 1000 {
		b.t.Errorf("%d requests: %v\n%s", len(all), err, said)
	}
	b.row("one endpoint of four refuses connections, five times: requests", "%d", len(all))
	b.row("of them lost", "%d", lost)
}

// scale makes routes in 100 namespaces, of which one changes each second, and measures the programs for a minute.
func (b *apiBench) scale(p *proxy, routes int) {
	b.t.Helper()
	config := filepath.Join(b.t.TempDir(), "cluster.yaml")
	must(b.t, os.WriteFile(config, fmt.Appendf(nil, `
jitter: {workloads: 2s, config: 1s}
namespaces:
- name: mesh
  replicas: 100
  applications:
  - {name: app, replicas: %d, pods: 1, type: plain, configs: [{name: httproute, config: {gateways: [infra/shop]}}]}
nodes: [{name: node, count: 20}]`, routes/100), 0o600))
	load := testenv.Start(b.t, nil, tool(b.t, "pilot-load"), "cluster", b.args[0], "--config="+config)
	testenv.Eventually(b.t, long, "all routes", func(ctx context.Context) error {
		gateway, err := b.api.GatewayV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		if err == nil && int(gateway.Status.Listeners[0].AttachedRoutes) < routes {
			err = fmt.Errorf("%d of %d", gateway.Status.Listeners[0].AttachedRoutes, routes)
		}
		return errors.Join(err, load.Running())
	})
	parts := map[string]int{"operator": b.operator.PID(), "agent": p.agent.PID(), "HAProxy": p.worker()}
	before, begin := map[string]time.Duration{}, time.Now()
	for name, pid := range parts {
		before[name] = testenv.CPU(pid)
	}
	<-time.After(time.Minute)
	for name, pid := range parts {
		used := (testenv.CPU(pid) - before[name]).Seconds() / time.Since(begin).Seconds()
		b.row(fmt.Sprintf("%d routes, of which one changes each second: %s", routes, name), "%.0f MiB, %.2f cores", testenv.Memory(pid), used)
	}
}

// createEndpoints makes what is behind the backends of the programs: two ports of one endpoint.
func (b *apiBench) createEndpoints() {
	for _, name := range []string{"http", "http-alt"} {
		b.createEndpoint(name, name)
	}
}

// createEndpoint starts a backend behind a port of the Service, in an EndpointSlice of its own.
func (b *apiBench) createEndpoint(slice, portName string) {
	b.t.Helper()
	port := discoveryv1.EndpointPort{Name: &portName, Port: ptr.To(b.startEcho())}
	must(b.t, createSlice(b.t.Context(), "default", slice, "backend", testenv.OwnAddress(b.t), port))
}

// createFailing makes three endpoints more. One has a network of its own, whose name it returns.
func (b *apiBench) createFailing() (network string) {
	for _, slice := range []string{"second", "third"} {
		b.createEndpoint(slice, "http")
	}
	const address, port = "198.51.100.99", 8080
	network = newNetwork(b.t, 99, address)
	inNetwork(b.t, network, func() {
		testenv.Start(b.t, nil, testbuild.Program(b.t, "test/echo"), fmt.Sprintf("-listen=%s:%d", address, port), "-tls-listen=", "-proxy-listen=")
	})
	must(b.t, createSlice(b.t.Context(), "default", "unhealthy", "backend", address, discoveryv1.EndpointPort{Name: ptr.To("http"), Port: ptr.To[int32](port)}))
	return network
}

// foreignKinds are the kinds of two other projects of which backendfailover makes one object each.
const foreignKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: destinationrules.networking.istio.io}
spec:
  group: networking.istio.io
  scope: Namespaced
  names: {kind: DestinationRule, plural: destinationrules, singular: destinationrule}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backendtrafficpolicies.gateway.envoyproxy.io}
spec:
  group: gateway.envoyproxy.io
  scope: Namespaced
  names: {kind: BackendTrafficPolicy, plural: backendtrafficpolicies, singular: backendtrafficpolicy}
  versions:
    - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`
