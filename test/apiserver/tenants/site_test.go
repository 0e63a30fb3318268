package tenants

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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	infra, tenant = "infra", "hostile"
	// soon is enough for anything that is done at once, on a loaded machine.
	soon = time.Minute
	// pace is how often each of the other teams gets a request.
	pace = 10 * time.Millisecond
)

var teams = []string{"team-a", "team-b", "team-c"}

// shared is a Gateway for all. The owner's own rule has a WAF, so that no first one replaces the pods.
const shared = `
apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {namespace: infra, name: shared}
spec:
  replicas: 1
  service: {type: ClusterIP}
  allowedHostnames: {rules: [{hostnames: ["*.{namespace}.example.com"]}]}
  namespaceBudget: {routes: 40, rules: 400, expressions: 200, headerNames: 16, listeners: 20, concurrentQuestions: 64}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway}
spec:
  controllerName: app.example.com/gateway
  parametersRef: {group: app.example.com, kind: GatewayConfig, namespace: infra, name: shared}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: infra, name: shared}
spec:
  gatewayClassName: gateway
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: http, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {namespace: infra, name: firewall}
spec: {filters: [{type: WAF, waf: {}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: infra, name: own}
spec:
  parentRefs: [{name: shared}]
  hostnames: [own.example.com]
  rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: firewall}}]}]
`

const team = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: %[1]s, name: web}
spec:
  parentRefs: [{namespace: infra, name: shared}]
  hostnames: [shop.%[1]s.example.com]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

// site is the Gateway, with its proxy and the routes of all teams.
type site struct {
	port    int32
	haproxy *haproxytest.Instance
	// operator and agent are programs of ours that know objects of the tenant.
	operator, agent *testenv.Program
	// onboarded is how long new hosts of teams took to answer.
	onboarded []time.Duration
}

func apply(t testing.TB, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	server.Kubectl(t, "apply", "--server-side", "-f", file)
}

func startSite(t *testing.T) *site {
	t.Helper()
	server.InstallGatewayAPI(t)
	s := &site{port: haproxytest.FreePort(t), operator: startOperator(t)}
	for _, name := range append([]string{infra, tenant}, teams...) {
		must.Get(server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
		createService(t, name)
	}
	sharedPort.Store(s.port)
	apply(t, fmt.Sprintf(shared, s.port))
	for _, name := range append([]string{tenant}, teams...) {
		apply(t, fmt.Sprintf(team, name))
	}
	s.haproxy, s.agent = startProxy(t)
	for _, name := range append([]string{tenant}, teams...) {
		s.expectLive(t, name)
	}
	return s
}

// startOperator starts the operator with its permissions. Secrets come from a key server, so the pods mount none.
func startOperator(t *testing.T) *testenv.Program {
	t.Helper()
	root := testbuild.MustRoot(t)
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(root, "artifacts", "rbac"))
	authority := filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(authority, certtest.NewAuthority(t).PEM, 0o600))
	token := must.Get(server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(t.Context(), "gateway-operator",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](7200)}}, metav1.CreateOptions{}))(t)
	return testenv.Start(t, nil, testbuild.Program(t, "."), "-kubeconfig="+server.TokenKubeconfig(t, token.Status.Token), "-logtostderr",
		"-health-address=127.0.0.1:0", "-leader-elect-namespace=gateway-system", "-key-server=keys.gateway-system:443", "-key-server-ca="+authority)
}

// createService makes a Service whose endpoint answers with the name of the namespace.
func createService(t *testing.T, namespace string) {
	t.Helper()
	address := testenv.OwnAddress(t)
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(address, "0")))(t)
	backend := &http.Server{ //nolint:gosec // HAProxy asks
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, namespace) }),
	}
	go func() { _ = backend.Serve(listener) }()
	t.Cleanup(func() { _ = backend.Close() })
	must.Get(server.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	must.Get(server.Kube.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(listener.Addr().(*net.TCPAddr).Port))}}, //nolint:gosec // a port
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}, metav1.CreateOptions{}))(t)
}

func startProxy(t *testing.T) (*haproxytest.Instance, *testenv.Program) {
	t.Helper()
	testenv.Eventually(t, soon, "the agents' permissions", func(ctx context.Context) error {
		_, err := server.Kube.RbacV1().RoleBindings(infra).Get(ctx, proxypod.ChildName("shared"), metav1.GetOptions{})
		return err
	})
	pod, paths := server.NewPod(t, infra, "shared", "shared-pod"), haproxytest.NewPaths(t)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "./cmd/gateway-agent"),
		"-gateway=shared", "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0")
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	return haproxytest.Start(t, paths, nil), agent
}

// expectLive waits until the own route of a namespace is programmed.
func (s *site) expectLive(t *testing.T, namespace string) {
	t.Helper()
	testenv.Eventually(t, soon, "the route of "+namespace+" to be Programmed", func(ctx context.Context) error {
		route, err := server.Dynamic.Resource(kinds["HTTPRoute"]).Namespace(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, _ := json.Marshal(route.Object["status"])
		if !regexp.MustCompile(`"status":"True","type":"Programmed"`).Match(text) {
			err = fmt.Errorf("its status is %s", text)
		}
		return err
	})
}

// run sends requests for all teams for so long, and returns how long they took. Each has to be answered by the team.
func (s *site) run(t *testing.T, long time.Duration) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var sending sync.WaitGroup
	var mu sync.Mutex
	for _, name := range teams {
		sending.Go(func() {
			ticks := time.NewTicker(pace)
			defer ticks.Stop()
			client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				begin := time.Now()
				if err := ask(t.Context(), client, s.port, "shop."+name+".example.com", "/", name); err != nil {
					t.Errorf("a request for %s: %v", name, err)
				}
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
				<-ticks.C
			}
		})
	}
	sending.Wait()
	return took
}

// onboard makes new hosts of a team, one after the other, until ctx ends.
func (s *site) onboard(ctx context.Context, t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("new-%d", i)
		route := &unstructured.Unstructured{Object: object{
			"apiVersion": gatewayAPI + "/v1", "kind": "HTTPRoute", "metadata": object{"name": name},
			"spec": object{
				"parentRefs": list{object{"namespace": infra, "name": "shared"}}, "hostnames": list{name + ".team-a.example.com"},
				"rules": list{object{"backendRefs": list{object{"name": "web", "port": int64(80)}}}},
			},
		}}
		begin, routes := time.Now(), server.Dynamic.Resource(kinds["HTTPRoute"]).Namespace("team-a")
		_, err := routes.Create(t.Context(), route, metav1.CreateOptions{})
		if err != nil {
			t.Errorf("failed to make a route: %v", err)
			return
		}
		testenv.Eventually(t, soon, "the new host "+name, func(ctx context.Context) error {
			return ask(ctx, client, s.port, name+".team-a.example.com", "/", "team-a")
		})
		s.onboarded = append(s.onboarded, time.Since(begin).Round(time.Millisecond))
		if err := routes.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("failed to delete a route: %v", err)
			return
		}
	}
}

// ask sends a request, which has to be answered with a text.
func ask(ctx context.Context, client *http.Client, port int32, host, path, want string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != want) {
		err = fmt.Errorf("got %d %.100q", response.StatusCode, body)
	}
	return err
}

// template returns the template of the Gateway's pods.
func (s *site) template(t *testing.T) string {
	t.Helper()
	deployment := must.Get(server.Kube.AppsV1().Deployments(infra).Get(t.Context(), proxypod.ChildName("shared"), metav1.GetOptions{}))(t)
	text := must.Get(json.Marshal(deployment.Spec.Template))(t)
	return string(text)
}

// memory is what operator and agent take.
func (s *site) memory(t *testing.T) string {
	t.Helper()
	of := func(program *testenv.Program) string {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", program.PID())))(t)
		return strings.Join(strings.Fields(regexp.MustCompile(`VmRSS:.*`).FindString(string(text)))[1:], " ")
	}
	return "operator " + of(s.operator) + ", agent " + of(s.agent)
}

// reloads is how often HAProxy was reloaded.
func (s *site) reloads() int {
	for line := range strings.Lines(s.haproxy.Master("show proc")) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "master" {
			n, _ := strconv.Atoi(fields[2])
			return n
		}
	}
	return -1
}
