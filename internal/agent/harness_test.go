package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/legacyregistry"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/proxypod"
)

const (
	namespace = "shop"
	gatewayN  = "web"
	podName   = "web-gateway-abc12"
	// timeout is how long a test waits for what has to happen, on a machine that is busy with other tests.
	timeout = 20 * time.Second
)

// rig is a cluster that exists in memory, an agent, and a real HAProxy.
type rig struct {
	t        testing.TB
	gateways *gatewayfake.Clientset
	core     *kubefake.Clientset
	options  Options
	agent    *Agent
	haproxy  *haproxytest.Instance
	port     int32
	stop     func()
}

// newRig returns a rig in which nothing runs yet.
func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, gateways: gatewayfake.NewClientset(), core: kubefake.NewClientset(), port: haproxytest.FreePort(t)}
	r.options = Options{
		Namespace: namespace, Gateway: gatewayN, Pod: podName, PodUID: "pod-uid",
		Gateways: r.gateways, Core: r.core,
		Paths:         haproxytest.NewPaths(t),
		Bind:          render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)},
		HealthAddress: "127.0.0.1:0",
	}
	// The pod is an endpoint, and not ready.
	own := newSlice(proxypod.ChildName(gatewayN), r.port, discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: podName},
		Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
	})
	own.Labels[proxypod.LabelGateway] = gatewayN
	_, err := r.core.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), own, metav1.CreateOptions{})
	r.must(err)
	return r
}

// startAgent starts an agent, which stops with the test at the latest.
func (r *rig) startAgent(mods ...func(*Agent)) {
	r.t.Helper()
	var err error
	if r.agent, err = New(r.options); err != nil {
		r.t.Fatal(err)
	}
	if r.agent.report != nil {
		r.agent.report.limit.SetLimit(rate.Inf)
	}
	for _, mod := range mods {
		mod(r.agent)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
	r.t.Cleanup(r.stop)
}

// startHAProxy starts HAProxy on what is on the disk, once there is something, as kubelet does.
func (r *rig) startHAProxy() {
	r.t.Helper()
	r.eventually("a configuration is on disk", func() error { return r.agent.probes.started() })
	r.haproxy = haproxytest.Start(r.t, r.options.Paths, nil)
}

// serving is a rig in which everything runs with one Service, "api", of one endpoint, "one".
func serving(t *testing.T) (*rig, *endpoint) {
	t.Helper()
	r := newRig(t)
	one := newEndpoint(t, "one")
	r.createService("api")
	r.createSlice("api", "one", one)
	r.createGateway(r.spec("api"))
	r.startAgent()
	r.startHAProxy()
	r.eventually("the pod is ready", r.agent.probes.ready)
	r.expectReport(1, "")
	r.expectBody("/", "one")
	return r, one
}

// eventually waits until check returns nil.
func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	deadline := time.After(timeout)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			r.t.Fatalf("timed out before %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// await waits until something holds.
func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	r.eventually(what, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

// spec returns a spec whose routes send /SERVICE to each of the services, and everything else to the first.
func (r *rig) spec(services ...string) appv1.GatewaySpec {
	spec := appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: r.port, Protocol: appv1.ProtocolHTTP}}}
	weight := int32(1) // the API server's default
	for i, service := range services {
		path := "/" + service
		if i == 0 {
			path = "/"
		}
		spec.Routes = append(spec.Routes, appv1.Route{Name: appv1.Name(service), Rules: []appv1.RouteRule{{
			Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: path}}},
			BackendRefs: []appv1.BackendRef{{Name: service, Port: 80, Weight: &weight}},
		}}})
	}
	return spec
}

// reloading is a spec whose routes, but for the first, have conditions on headers of names of their own: each takes a
// reload.
func (r *rig) reloading(services ...string) appv1.GatewaySpec {
	spec := r.spec(services...)
	for i, service := range services[1:] {
		match := &spec.Routes[1+i].Rules[0].Matches[0]
		match.Headers = []appv1.HeaderMatch{{Name: appv1.HeaderName("X-" + service), Value: "x"}}
	}
	return spec
}

func (r *rig) createGateway(spec appv1.GatewaySpec, uid ...types.UID) {
	r.t.Helper()
	uid = append(uid, "uid-1")
	gateway := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN, UID: uid[0], Generation: 1, ResourceVersion: "1"}, Spec: spec,
	}
	_, err := r.gateways.AppV1().Gateways(namespace).Create(r.t.Context(), gateway, metav1.CreateOptions{})
	r.must(err)
}

// deleteGateway returns when the agent has seen it, too.
func (r *rig) deleteGateway() {
	r.t.Helper()
	r.must(r.gateways.AppV1().Gateways(namespace).Delete(r.t.Context(), gatewayN, metav1.DeleteOptions{}))
	r.eventually("the Gateway is gone", func() error {
		return r.locked(func() bool { return r.agent.watch.gateway() == nil })
	})
}

// edit changes the Gateway's spec; the API server would count the generation.
func (r *rig) edit(spec appv1.GatewaySpec) int64 {
	r.t.Helper()
	gateway := r.gateway().DeepCopy()
	gateway.Spec = spec
	gateway.Generation++
	_, err := r.gateways.AppV1().Gateways(namespace).Update(r.t.Context(), gateway, metav1.UpdateOptions{})
	r.must(err)
	return gateway.Generation
}

func (r *rig) gateway() *appv1.Gateway {
	r.t.Helper()
	gateway, err := r.gateways.AppV1().Gateways(namespace).Get(r.t.Context(), gatewayN, metav1.GetOptions{})
	r.must(err)
	return gateway
}

func (r *rig) createService(name string) {
	r.t.Helper()
	_, err := r.core.CoreV1().Services(namespace).Create(r.t.Context(), newService(name), metav1.CreateOptions{})
	r.must(err)
}

// createSlice makes an EndpointSlice of one endpoint.
func (r *rig) createSlice(service, name string, e *endpoint) {
	r.t.Helper()
	slice := newSlice(service, e.port, newReady("127.0.0.1"))
	slice.Name = service + "-" + name
	_, err := r.core.DiscoveryV1().EndpointSlices(namespace).Create(r.t.Context(), slice, metav1.CreateOptions{})
	r.must(err)
}

func (r *rig) deleteSlice(service, name string) {
	r.t.Helper()
	r.must(r.core.DiscoveryV1().EndpointSlices(namespace).Delete(r.t.Context(), service+"-"+name, metav1.DeleteOptions{}))
}

// moveSlice gives the only endpoint of an EndpointSlice another address.
func (r *rig) moveSlice(service, name string, e *endpoint) {
	r.t.Helper()
	slice := newSlice(service, e.port, newReady("127.0.0.1"))
	slice.Name = service + "-" + name
	_, err := r.core.DiscoveryV1().EndpointSlices(namespace).Update(r.t.Context(), slice, metav1.UpdateOptions{})
	r.must(err)
}

// onDisk returns nil if the configuration that HAProxy starts on contains the text.
func (r *rig) onDisk(text string) error {
	content, err := os.ReadFile(filepath.Join(r.options.Paths.ConfigDir, ir.ConfigFile))
	if err == nil && !strings.Contains(string(content), text) {
		err = fmt.Errorf("it does not contain %q", text)
	}
	return err
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// get returns the status and body of a request on a connection of its own.
func (r *rig) get(path string) (int, string, error) { return r.getWithin(path, timeout) }

func (r *rig) getWithin(path string, limit time.Duration) (int, string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: limit}
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", r.port, path))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func (r *rig) expectBody(path, want string) {
	r.t.Helper()
	r.eventually(path+" is answered by "+want, func() error {
		status, body, err := r.get(path)
		if err != nil || body != want {
			return fmt.Errorf("got %d %q (%w)", status, body, err)
		}
		return nil
	})
}

// awaitOldWorker waits until HAProxy gets changes before they are on the disk.
func (r *rig) awaitOldWorker() {
	r.t.Helper()
	r.await("a restart of the worker would be seen", func() bool { return time.Now().Unix()-r.process().Started > 1 })
}

func (r *rig) expectStatus(path string, want int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%s is answered with %d", path, want), func() error {
		status, body, err := r.get(path)
		if err != nil || status != want {
			return fmt.Errorf("got %d %q (%w)", status, body, err)
		}
		return nil
	})
}

// expectReport waits for what the pod reports; message is a part of what keeps it from a generation, "" if nothing
// does.
func (r *rig) expectReport(generation int64, message string) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("generation %d is reported", generation), func() error {
		report, err := r.reported()
		told := ""
		for _, problem := range report.Problems {
			if problem.Origin.Kind == "Gateway" {
				told += fmt.Sprintf("%s generation %d: %s", problem.Reason, problem.Origin.Generation, problem.Message)
			}
		}
		if err != nil || report.ObservedGeneration != generation || !strings.Contains(told, message) || message == "" && told != "" {
			return fmt.Errorf("the report is %+v (%w)", report, err)
		}
		return nil
	})
}

// reported is what the pod reports.
func (r *rig) reported() (appv1.GatewayProxyStatus, error) {
	r.t.Helper()
	proxy, err := r.gateways.AppV1().GatewayProxies(namespace).Get(r.t.Context(), podName, metav1.GetOptions{})
	if err != nil {
		return appv1.GatewayProxyStatus{}, err
	}
	return proxy.Status, nil
}

func (r *rig) process() runtime.Process {
	r.t.Helper()
	process, err := runtime.NewWorker(r.options.Paths.WorkerSocket()).Process(r.t.Context())
	r.must(err)
	return process
}

func (r *rig) expectNoReload(since runtime.Process) {
	r.t.Helper()
	if now := r.process(); now != since {
		r.t.Errorf("HAProxy was reloaded: %+v, before %+v", now, since)
	}
}

// exposed returns the metrics as Prometheus gets them.
func exposed() string {
	recorder := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}

// metric returns the sum of a metric's values in lines that contain all the parts.
func metric(t testing.TB, parts ...string) float64 {
	t.Helper()
	sum := 0.0
lines:
	for line := range strings.Lines(exposed()) {
		for _, part := range parts {
			if !strings.Contains(line, part) || strings.HasPrefix(line, "#") {
				continue lines
			}
		}
		var value float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &value); err != nil {
			t.Fatalf("failed to read %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

// endpoint answers every request with its name.
type endpoint struct {
	port int32
}

func newEndpoint(t testing.TB, name string) *endpoint {
	t.Helper()
	return newEndpointFunc(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

func newEndpointFunc(t testing.TB, handle http.HandlerFunc) *endpoint {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: handle}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return &endpoint{port: int32(listener.Addr().(*net.TCPAddr).Port)}
}

func newService(name string, mods ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	for _, mod := range mods {
		mod(service)
	}
	return service
}

func newSlice(service string, port int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	name := "http"
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints:   endpoints,
	}
}

func newReady(address string) discoveryv1.Endpoint {
	ready := true
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
}

func loadDirs(t *testing.T, paths ir.Paths) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(strings.TrimSuffix(paths.ConfigDir, "/current")))(t)
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), dirPrefix) {
			names = append(names, entry.Name())
		}
	}
	return names
}
