package edits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	namespace = "edits"
	name      = "web"
	secret    = "pair"
	// timeout bounds an edit and a request, on a busy machine.
	timeout = time.Minute
	// perService is how many servers a Service may have.
	perService = 3
)

// site is a Gateway with a proxy pod: agent, gateway-keys and HAProxy.
type site struct {
	t *testing.T
	g *routingtest.Generator
	// http are ports with random listeners and routes, https one with a certificate. The routes of fixed are always the
	// same, and use all that takes a reload at first. more comes and goes.
	http               [2]int32
	https, fixed, more int32
	health             string
	agent              *testenv.Program
	haproxy            *haproxytest.Instance
	paths              ir.Paths
	authority          *certtest.Authority
	secrets            *certtest.Volume
	// servers are the ports of servers, by name.
	servers map[string]int32
	// base is what is random at the beginning.
	base, wish wish
	// versions counts the rules made so far, and extras the Services beside routingtest's.
	versions, extras int
	// refused is how many edits the API server did not take.
	refused int
	// live is the state that requests are answered by at least. last is the last one that was written.
	live atomic.Pointer[state]
	last *state

	mu       sync.Mutex
	statuses map[int]int
	samples  []sample
}

// startSite starts everything with the state at the beginning.
func startSite(t *testing.T, g *routingtest.Generator) *site {
	t.Helper()
	g.Namespace = namespace
	s := &site{
		t: t, g: g, http: [2]int32{haproxytest.FreePort(t), haproxytest.FreePort(t)}, https: haproxytest.FreePort(t), fixed: haproxytest.FreePort(t),
		more: haproxytest.FreePort(t), health: fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t)), paths: haproxytest.NewPaths(t),
		authority: certtest.NewAuthority(t), secrets: certtest.NewVolume(t), servers: map[string]int32{}, statuses: map[int]int{},
	}
	must.Get(server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	s.renew()
	s.wish = wish{exists: map[string]bool{}, endpoints: map[string]string{}}
	for _, service := range routingtest.Services {
		if service == "missing" {
			continue
		}
		s.createService(service)
		s.wish.exists[service] = true
		for i := range perService {
			if service != "empty" {
				s.startServer(slot(service, i))
				s.createSlice(service, i, slot(service, i))
				s.wish.endpoints[slot(service, i)] = slot(service, i)
			}
		}
		s.startServer("moved-" + service)
	}
	s.startServer("extra")
	s.startPod(s.create())
	s.await("the first generation is live", func(got map[string]float64) bool { return got[generation] == 1 })
	return s
}

// create makes a random Gateway that the API server takes.
func (s *site) create() *appv1.Gateway {
	s.t.Helper()
	for {
		spec := s.g.Spec(s.http)
		s.wish.listeners, s.wish.routes = append(spec.Listeners, s.secure()), spec.Routes
		s.tag(nil)
		s.base, s.last = s.wish.clone(), s.newState()
		s.live.Store(s.last)
		gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: s.last.spec}
		created, err := server.App.AppV1().Gateways(namespace).Create(s.t.Context(), gateway, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			must.Do(s.t, err)
			return created
		}
	}
}

// startPod starts the programs of a proxy pod.
func (s *site) startPod(gateway *appv1.Gateway) {
	s.t.Helper()
	certificates, dir := s.t.TempDir(), filepath.Dir(s.paths.ConfigDir)
	keys, socket := filepath.Join(dir, "keys"), filepath.Join(s.paths.RunDir, "keys.sock")
	must.Do(s.t, os.Mkdir(keys, 0o700))
	testenv.Start(s.t, nil, testbuild.Program(s.t, "cmd/gateway-keys"),
		"-secrets-dir="+s.secrets.Dir, "-pairs-dir="+keys, "-certificates-dir="+certificates, "-haproxy-socket="+socket, "-logtostderr")
	pod := newPod(s.t, gateway)
	s.agent = testenv.Start(s.t, pod.Env, testbuild.Program(s.t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(s.t, pod.Token), "-config-dir="+dir, "-run-dir="+s.paths.RunDir,
		"-health-address="+s.health, "-secret="+secret, "-certificates-dir="+certificates, "-haproxy-certificates-dir="+keys, "-keys-socket="+socket)
	testenv.Eventually(s.t, timeout, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(s.paths.ConfigDir, ir.ConfigFile))
		return errors.Join(err, s.agent.Running())
	})
	s.haproxy = haproxytest.Start(s.t, s.paths, nil)
}

// newPod makes a pod of the Gateway, with the permissions of its agents.
func newPod(t *testing.T, gateway *appv1.Gateway) testenv.Pod {
	t.Helper()
	ctx, options := t.Context(), metav1.ApplyOptions{FieldManager: "test"}
	must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Apply(ctx, resources.DesiredServiceAccount(gateway), options))(t)
	must.Get(server.Kube.RbacV1().Roles(namespace).Apply(ctx, resources.DesiredRole(gateway), options))(t)
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, resources.DesiredRoleBinding(gateway), options))(t)
	return server.NewPod(t, namespace, gateway.Name, "pod")
}

// slot is the name of an EndpointSlice of one endpoint, and of the server that is its first.
func slot(service string, i int) string { return fmt.Sprintf("%s-%d", service, i) }

// said is what a server answers: its name, and the tag that it was asked with.
type said struct{ Server, Tag string }

// startServer starts a server on an interface of this machine: the API server admits no loopback address as an
// endpoint.
func (s *site) startServer(name string) {
	s.t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(testenv.OwnAddress(s.t), "0")))(s.t)
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(said{Server: name, Tag: r.Header.Get(tagHeader)})
	})}
	go func() { _ = backend.Serve(listener) }() // until it is closed
	s.t.Cleanup(func() { _ = backend.Close() })
	s.servers[name] = int32(listener.Addr().(*net.TCPAddr).Port)
}

func (s *site) createService(service string) {
	s.t.Helper()
	must.Get(server.Kube.CoreV1().Services(namespace).Create(s.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(s.t)
}

func (s *site) deleteService(service string) {
	s.t.Helper()
	must.Do(s.t, server.Kube.CoreV1().Services(namespace).Delete(s.t.Context(), service, metav1.DeleteOptions{}))
}

func (s *site) slice(service string, i int, of string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: slot(service, i), Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(s.servers[of])}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{testenv.OwnAddress(s.t)}}},
	}
}

func (s *site) createSlice(service string, i int, of string) {
	s.t.Helper()
	must.Get(server.Kube.DiscoveryV1().EndpointSlices(namespace).Create(s.t.Context(), s.slice(service, i, of), metav1.CreateOptions{}))(s.t)
}

func (s *site) updateSlice(service string, i int, of string) {
	s.t.Helper()
	must.Get(server.Kube.DiscoveryV1().EndpointSlices(namespace).Update(s.t.Context(), s.slice(service, i, of), metav1.UpdateOptions{}))(s.t)
}

func (s *site) deleteSlice(service string, i int) {
	s.t.Helper()
	must.Do(s.t, server.Kube.DiscoveryV1().EndpointSlices(namespace).Delete(s.t.Context(), slot(service, i), metav1.DeleteOptions{}))
}

// renew gives the Secret a new certificate.
func (s *site) renew() {
	s.t.Helper()
	s.secrets.PutPair(secret, s.authority.Issue(s.t, []string{"*.test"}))
}

// generation is the metric that says which generation is live.
const generation = "gateway_agent_generation"

// metrics returns the metrics of the agent that begin with its name, with their labels, and the metrics of its
// process.
func (s *site) metrics() (map[string]float64, error) {
	response, err := http.Get("http://" + s.health + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	values := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		metric, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at := strings.LastIndex(line, "} "); at > 0 {
			metric, text = line[:at+1], line[at+2:]
		}
		var value float64
		if _, err := fmt.Sscan(text, &value); err == nil && !strings.HasPrefix(metric, "#") {
			values[metric] = value
		}
	}
	return values, err
}

// loads are the changes that HAProxy took, by kind and reason.
func loads(metrics map[string]float64) map[string]float64 {
	all := map[string]float64{}
	for metric, value := range metrics {
		if labels, ok := strings.CutPrefix(metric, "gateway_agent_loads_total"); ok {
			all[labels] = value
		}
	}
	return all
}

// await waits until the agent's metrics are as wanted.
func (s *site) await(what string, check func(map[string]float64) bool) {
	s.t.Helper()
	testenv.Eventually(s.t, timeout, what, func(context.Context) error {
		all, err := s.metrics()
		if err == nil && !check(all) {
			err = fmt.Errorf("generation %v is live, and HAProxy took %v", all[generation], loads(all))
		}
		return errors.Join(err, s.agent.Running())
	})
}
