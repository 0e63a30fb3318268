package propagation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	gatewayName = "web"
	probeHost   = "probe.example.com"
	splitHost   = "split.example.com"
	ruleHost    = "rule.example.com"
	// newServices is how many Services there are that no route names at first.
	newServices = 400
	soon        = 2 * time.Minute
)

// answers are those of the two backends.
var answers = [2]string{"zero", "one"}

// world is a Gateway with its agent and HAProxy.
type world struct {
	namespace string
	// routes is how many the Gateway has when none is added: a route each for probeHost, splitHost and ruleHost, one
	// that the churn replaces, and others that get no requests.
	routes int
	// port is the Gateway's, health the address of the agent's metrics.
	port   int32
	health string
	agent  *testenv.Program
	client *http.Client
	// ports are those of the backends on this machine's address.
	address string
	ports   [2]int32
	// churned counts routes that the churn has added, turn counts edits; newServices are names of Services that no
	// route has named yet.
	turn, churned int
	newServices   []string

	// api reaches the Gateway API, nil if the Gateway is one of our own. created and programmed are how long the first
	// routes took.
	api                 routesclient.Interface
	operator            *testenv.Program
	created, programmed time.Duration
	haproxy             *haproxytest.Instance
	// build is the directory of another build that runs, with its tree; peer the program of a peer.
	build string
	peer  *testenv.Program
}

// newWorld returns one with backends, but without a Gateway.
func newWorld(b *testing.B, namespace string) *world {
	b.Helper()
	w := &world{namespace: namespace, port: haproxytest.FreePort(b), client: &http.Client{}}
	w.health = fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(b))
	w.startBackends(b)
	_, err := server.Kube.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	must(b, err)
	w.createService(b, "probe", 0)
	return w
}

// newEditedWorld returns one whose Gateway has as many routes.
func newEditedWorld(b *testing.B, routes int) *world {
	b.Helper()
	w := newWorld(b, fmt.Sprintf("routes-%d", routes))
	w.routes = routes
	w.createService(b, "zero", 0)
	w.createService(b, "one", 1)
	for i := range newServices {
		w.newServices = append(w.newServices, fmt.Sprintf("new-%d", i))
	}
	w.createServices(b, 1, w.newServices...)
	gateway := w.gateway()
	var others []string
	for _, route := range gateway.Spec.Routes[4:] {
		others = append(others, route.Rules[0].BackendRefs[0].Name)
	}
	w.createServices(b, 0, others...)
	w.start(b, gateway)
	return w
}

// gateway returns the Gateway that is edited, as it is at first.
func (w *world) gateway() *appv1.Gateway {
	gateway := w.emptyGateway()
	spec := &gateway.Spec
	add := func(name, host string, refs ...appv1.BackendRef) {
		spec.Routes = append(spec.Routes, appv1.Route{
			Name: appv1.Name(name), Hostnames: []appv1.Hostname{appv1.Hostname(host)},
			Rules: []appv1.RouteRule{ruleFor("/", refs...)},
		})
	}
	ref := func(name string, weight int32) appv1.BackendRef {
		return appv1.BackendRef{Name: name, Port: 80, Weight: &weight}
	}
	add("probe", probeHost, ref("probe", 1))
	add("split", splitHost, ref("zero", 1), ref("one", 0))
	add("rule", ruleHost, ref("zero", 1))
	add("churn", "churn.example.com", ref("zero", 1))
	for i := len(spec.Routes); i < w.routes; i++ {
		name := fmt.Sprintf("other-%d", i)
		add(name, name+".example.com", ref(name, 1))
	}
	return gateway
}

func (w *world) emptyGateway() *appv1.Gateway {
	return &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName},
		Spec:       appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: w.port, Protocol: appv1.ProtocolHTTP}}},
	}
}

// ruleFor returns one for a prefix of the path.
func ruleFor(prefix string, refs ...appv1.BackendRef) appv1.RouteRule {
	return appv1.RouteRule{
		Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: prefix}}},
		BackendRefs: refs,
	}
}

// startBackends starts two servers on an interface of this machine: the API server admits no loopback address as an
// endpoint.
func (w *world) startBackends(b *testing.B) {
	b.Helper()
	w.address = testenv.OwnAddress(b)
	for i, answer := range answers {
		listener, err := net.Listen("tcp", net.JoinHostPort(w.address, "0"))
		must(b, err)
		serve(b, listener, answer)
		w.ports[i] = int32(listener.Addr().(*net.TCPAddr).Port)
	}
}

// serve lets a server answer until the benchmark ends. It sends messages of WebSockets back.
func serve(b *testing.B, listener net.Listener, answer string) {
	b.Helper()
	echo := websocket.Server{Handler: func(socket *websocket.Conn) { _, _ = io.Copy(socket, socket) }}
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, answer)
	})}
	go func() { _ = backend.Serve(listener) }()
	b.Cleanup(func() { _ = backend.Close() })
}

// createService makes a Service that one of the backends is behind.
func (w *world) createService(b *testing.B, name string, backend int) {
	b.Helper()
	w.createServiceWith(b, w.slice(name, w.ports[backend], w.address))
}

// createServices makes several at once.
func (w *world) createServices(b *testing.B, backend int, names ...string) {
	b.Helper()
	atOnce(len(names), func(i int) { w.createService(b, names[i], backend) })
}

// createServiceWith makes a Service and what is behind it.
func (w *world) createServiceWith(b *testing.B, slice *discoveryv1.EndpointSlice) {
	b.Helper()
	_, err := server.Kube.CoreV1().Services(w.namespace).Create(b.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: slice.Name},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must(b, err)
	_, err = server.Kube.DiscoveryV1().EndpointSlices(w.namespace).Create(b.Context(), slice, metav1.CreateOptions{})
	must(b, err)
}

// putEndpoints makes a backend the only one behind a Service.
func (w *world) putEndpoints(b *testing.B, service string, backend int) {
	b.Helper()
	slice := w.slice(service, w.ports[backend], w.address)
	_, err := server.Kube.DiscoveryV1().EndpointSlices(w.namespace).Update(b.Context(), slice, metav1.UpdateOptions{})
	must(b, err)
}

func (w *world) slice(service string, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return slice
}

// atOnce calls do with each number below n, several at once.
func atOnce(n int, do func(i int)) {
	var next atomic.Int64
	var working sync.WaitGroup
	for range 8 {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	working.Wait()
}

// start makes the Gateway, and starts its only pod.
func (w *world) start(b *testing.B, gateway *appv1.Gateway) {
	b.Helper()
	_, err := server.App.AppV1().Gateways(w.namespace).Create(b.Context(), gateway, metav1.CreateOptions{})
	must(b, err)
	w.startAgent(b, []string{"POD_NAME=pod", "POD_NAMESPACE=" + w.namespace, "POD_UID=uid"}, server.Kubeconfig)
}

// startAgent starts the agent of a pod and, once it has written a configuration, HAProxy, and waits until requests are
// answered.
func (w *world) startAgent(b *testing.B, env []string, kubeconfig string) {
	b.Helper()
	paths := haproxytest.NewPaths(b)
	w.agent = testenv.Start(b, env, w.program(b, "./cmd/gateway-agent"),
		"-gateway="+gatewayName, "-logtostderr", "-kubeconfig="+kubeconfig,
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address="+w.health)
	testenv.Eventually(b, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, w.agent.Running())
	})
	w.haproxy = haproxytest.Start(b, paths, nil)
	w.awaitProbe(b)
}

// awaitProbe waits for the first answer.
func (w *world) awaitProbe(b *testing.B) {
	b.Helper()
	testenv.Eventually(b, soon, "an answer", func(ctx context.Context) error {
		got, err := w.ask(ctx, effect{host: probeHost, path: "/"})
		if err == nil && got != answers[0] {
			err = fmt.Errorf("got %q", got)
		}
		return err
	})
}

// program returns the path of a program of the build that runs.
func (w *world) program(b *testing.B, pkg string) string {
	b.Helper()
	if w.build == "" {
		return testbuild.Program(b, pkg)
	}
	return filepath.Join(w.build, "bin", filepath.Base(filepath.Join("gateway", pkg)))
}

// settle waits until the agent has reported that HAProxy runs the Gateway as it is.
func (w *world) settle(b *testing.B) {
	b.Helper()
	if w.api != nil {
		w.settleEdited(b)
		return
	}
	// The Gateway is large: it is read once, so that the API server's CPU time is that of edits and reports.
	gateway, err := server.App.AppV1().Gateways(w.namespace).Get(b.Context(), gatewayName, metav1.GetOptions{})
	must(b, err)
	testenv.Eventually(b, soon, "the newest generation is reported", func(ctx context.Context) error {
		report, err := server.App.AppV1().GatewayProxies(w.namespace).Get(ctx, "pod", metav1.GetOptions{})
		if err == nil && report.Status.ObservedGeneration != gateway.Generation {
			err = fmt.Errorf("generation %d is, of %d", report.Status.ObservedGeneration, gateway.Generation)
		}
		return err
	})
}

// reloads is how often the agent has made HAProxy reload so far.
func (w *world) reloads(b *testing.B) float64 {
	b.Helper()
	body, err := testenv.Ask(b.Context(), w.health, "/metrics")
	must(b, err)
	return metric(body, "gateway_agent_loads_total", `kind="reload"`)
}

// metric sums up the values of a metric that have all these labels.
func metric(text, name string, labels ...string) (sum float64) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			continue
		}
		value, _ := strconv.ParseFloat(strings.Fields(rest[strings.LastIndex(rest, "}")+1:])[0], 64)
		sum += value
	}
	return sum
}
