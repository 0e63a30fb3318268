package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// apiBench runs programs of gateway-api-bench against one Gateway with one pod. It is the cluster that they expect: the
// endpoints of their backends are here.
type apiBench struct {
	*site
	t       *testing.T
	proxy   *proxy
	samples *samples
	args    []string
	// path is where the programs look for kubectl.
	path string
}

// TestGatewayAPIBench runs what gateway-api-bench has: attached routes, route propagation, route changes, backend
// failover, and its routes that change all the time. Its ListenerSets are of the kind XListenerSet: see hack/prove.sh.
func TestGatewayAPIBench(t *testing.T) {
	b := &apiBench{site: startSite(t), t: t, samples: &samples{}, path: os.Getenv("PATH")}
	b.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: infra}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]`)
	b.proxy = b.startProxy(infra, "shop")
	logs := httptest.NewServer(b.samples)
	t.Cleanup(logs.Close)
	b.args = []string{"--kubeconfig=" + server.Kubeconfig, "--gateways=" + infra + "/shop", "--victoria=" + logs.URL}
	b.createEndpoints()
	b.attachedRoutes(1000)
	b.propagation(3000)
	b.changes(100)
	b.failover()
	b.scale(5000)
}

// run runs a program of it until it ends, and returns what it says.
func (b *apiBench) run(name string, args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), long)
	defer cancel()
	command := exec.CommandContext(ctx, tool(b.t, name), args...) //nolint:gosec // built by hack/prove.sh
	command.Env = append(os.Environ(), "PATH="+b.path)
	said, err := command.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", name, err, said)
	}
	return string(said)
}

// attachedRoutes is the time until a Gateway's status counts all routes that come at once, and none when they go.
func (b *apiBench) attachedRoutes(routes int) {
	said := b.run("attachedroutes", append(b.args, fmt.Sprintf("--routes=%d", routes))...)
	values := regexp.MustCompile(`add-all=(\S+) remove-all=(\S+) writes=(\d+)`).FindStringSubmatch(said)
	if values == nil || len(b.samples.take()) == 0 {
		b.t.Fatalf("attached routes were not counted:\n%s", said)
	}
	row(b.t, fmt.Sprintf("%d attached routes: all counted, after the last was made", routes), "%s", values[1])
	row(b.t, "none counted, after the last was deleted", "%s", values[2])
	row(b.t, "statuses written to the Gateway meanwhile", "%s", values[3])
}

// propagation is the time from a new route to its first answer, one route after the other.
func (b *apiBench) propagation(routes int) {
	said := b.run("probe", append(b.args, fmt.Sprintf("--routes=%d", routes))...)
	seen := map[int64]time.Duration{} // it reports all again each time
	for _, one := range b.samples.take() {
		seen[one.Time] = time.Duration(one.Value) * time.Microsecond
	}
	all := make([]time.Duration, 0, len(seen))
	for _, latency := range seen {
		all = append(all, latency)
	}
	if len(all) != routes {
		b.t.Fatalf("%d of %d routes answered:\n%s", len(all), routes, said)
	}
	row(b.t, fmt.Sprintf("%d routes, one after the other: first answer, median", routes), "%v", median(all))
	row(b.t, "99 of 100 within", "%v", all[len(all)*99/100].Round(time.Millisecond))
	row(b.t, "answers that were neither 404 nor 200", "%d", strings.Count(said, "unexpected status code"))
}

// changes changes a route under requests, which end with the first answer that is not 200.
func (b *apiBench) changes(iterations int) {
	said := b.run("routechange", b.args[0], b.args[1], fmt.Sprintf("--iterations=%d", iterations))
	requests := regexp.MustCompile(`requests=(\d+)`).FindStringSubmatch(said)
	if requests == nil || strings.Contains(said, "unexpected status code") {
		b.t.Fatalf("a change lost a request:\n%s", said)
	}
	row(b.t, fmt.Sprintf("%d changes of one route: requests, none lost", iterations), "%s", requests[1])
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
	said := b.run("backendfailover", b.args...)
	lost, all := 0, b.samples.take()
	for _, one := range all {
		lost += int(one.Value)
	}
	if len(all) < 1000 {
		b.t.Fatalf("%d requests:\n%s", len(all), said)
	}
	row(b.t, "one endpoint of four refuses connections, five times: requests", "%d", len(all))
	row(b.t, "of them lost", "%d", lost)
}

// scale makes routes in 100 namespaces, of which one changes each second, and measures the programs for a minute.
func (b *apiBench) scale(routes int) {
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
	parts := map[string]int{"operator": b.operator.PID(), "agent": b.proxy.agent.PID(), "HAProxy": b.proxy.worker()}
	before, begin := map[string]time.Duration{}, time.Now()
	for name, pid := range parts {
		before[name] = testenv.CPU(pid)
	}
	<-time.After(time.Minute)
	for name, pid := range parts {
		used := (testenv.CPU(pid) - before[name]).Seconds() / time.Since(begin).Seconds()
		row(b.t, fmt.Sprintf("%d routes, of which one changes each second: %s", routes, name), "%.0f MiB, %.2f cores", testenv.Memory(pid), used)
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
