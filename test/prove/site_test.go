package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	// infra is the namespace of the Gateway shop, ingresses the one of the Gateway for Ingresses.
	infra, ingresses = "infra", "gateway-ingress"
	// soon is enough for what we do at once, long for what a tool waits with.
	soon, long = 3 * time.Minute, 20 * time.Minute
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a cluster with the operator and a key server.
type site struct {
	t *testing.T
	// older has an older build of the project, or is empty.
	older    string
	api      routesclient.Interface
	operator *testenv.Program
	// keyServer is where pods get their Secrets, and authority the file with its CA.
	keyServer, authority string
	proxies              int
}

// tool is the path of a program that hack/prove.sh has built.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("PROVE_TOOLS"), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make prove`, which builds it", err)
	}
	return path
}

// startSite starts one. Its Gateways have one pod each.
func startSite(t *testing.T) *site {
	t.Helper()
	return startOlderSite(t, "")
}

// startOlderSite starts one of an older build.
func startOlderSite(t *testing.T, older string) *site {
	t.Helper()
	server.InstallGatewayAPI(t)
	api, err := routesclient.NewForConfig(server.Unlimited())
	must(t, err)
	s := &site{t: t, api: api, older: older}
	for _, directory := range []string{"rbac", "key-server", "ingress"} {
		server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(cmp.Or(older, testbuild.MustRoot(t)), "artifacts", directory))
	}
	s.startKeyServer()
	s.startOperator()
	s.createNamespace(infra)
	s.apply(`
apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {namespace: infra, name: small}
spec: {replicas: 1}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway}
spec:
  controllerName: app.example.com/gateway
  parametersRef: {group: app.example.com, kind: GatewayConfig, namespace: infra, name: small}`)
	return s
}

// program is the path of one of the project's programs.
func (s *site) program(dir string) string {
	s.t.Helper()
	if s.older != "" {
		return filepath.Join(s.older, "bin", filepath.Base(filepath.Join("gateway", dir)))
	}
	return testbuild.Program(s.t, dir)
}

// kubeconfig returns one with the token of a ServiceAccount.
func (s *site) kubeconfig(account string) string {
	s.t.Helper()
	made, err := server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(s.t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](36000)}}, metav1.CreateOptions{})
	must(s.t, err)
	return server.TokenKubeconfig(s.t, made.Status.Token)
}

// startOperator starts the operator with its permissions.
func (s *site) startOperator() {
	s.t.Helper()
	s.operator = testenv.Start(s.t, nil, s.program("."), "-kubeconfig="+s.kubeconfig("gateway-operator"), "-logtostderr", "-leader-elect=false",
		"-health-address=127.0.0.1:0", "-ingress-namespace="+ingresses, "-key-server="+s.keyServer, "-key-server-ca="+s.authority)
}

var answering = regexp.MustCompile(`Answering pods at 127\.0\.0\.1:(\d+)`)

// startKeyServer starts the key server with its permissions.
func (s *site) startKeyServer() {
	s.t.Helper()
	s.authority = filepath.Join(s.t.TempDir(), "ca.crt")
	program := testenv.Start(s.t, nil, s.program("./cmd/gateway-key-server"), "-kubeconfig="+s.kubeconfig("gateway-key-server"),
		"-logtostderr", "-address=127.0.0.1:0", "-health-address=127.0.0.1:0", "-namespace=gateway-system", "-name=localhost")
	testenv.Eventually(s.t, soon, "the key server to listen", func(ctx context.Context) error {
		found := answering.FindStringSubmatch(program.Output())
		if found == nil {
			return errors.Join(errors.New("it does not"), program.Running())
		}
		s.keyServer = "localhost:" + found[1]
		authority, err := server.Kube.CoreV1().ConfigMaps("gateway-system").Get(ctx, "gateway-key-server-ca", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return os.WriteFile(s.authority, []byte(authority.Data["ca.crt"]), 0o600)
	})
}

// apply makes objects, or changes them.
func (s *site) apply(documents string, values ...any) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "objects.yaml")
	must(s.t, os.WriteFile(file, fmt.Appendf(nil, documents, values...), 0o600))
	server.Kubectl(s.t, "apply", "-f", file)
}

func (s *site) createNamespace(name string) {
	s.t.Helper()
	_, err := server.Kube.CoreV1().Namespaces().Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(s.t, err)
}

// startEcho starts a backend with more arguments, and returns its port.
func (s *site) startEcho(args ...string) int32 {
	s.t.Helper()
	port, _ := s.startEchoProgram(args...)
	return port
}

func (s *site) startEchoProgram(args ...string) (int32, *testenv.Program) {
	s.t.Helper()
	port := haproxytest.FreePort(s.t)
	address := net.JoinHostPort(testenv.OwnAddress(s.t), fmt.Sprint(port))
	echo := testenv.Start(s.t, nil, testbuild.Program(s.t, "test/echo"), append(args, "-listen="+address, "-tls-listen=", "-proxy-listen=")...)
	testenv.Eventually(s.t, soon, "the backend to listen", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return errors.Join(err, echo.Running())
		}
		return connection.Close()
	})
	return port, echo
}

// createService makes a Service, web, with one endpoint.
func (s *site) createService(namespace string, port int32) {
	s.t.Helper()
	s.createNamedService(namespace, "web", port)
}

func (s *site) createNamedService(namespace, name string, port int32) {
	s.t.Helper()
	_, err := server.Kube.CoreV1().Services(namespace).Create(s.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must(s.t, err)
	must(s.t, createSlice(s.t.Context(), namespace, name, name, testenv.OwnAddress(s.t), discoveryv1.EndpointPort{Name: ptr.To(""), Port: &port}))
}

// createSlice makes an EndpointSlice of a Service, with one endpoint.
func createSlice(ctx context.Context, namespace, name, service, address string, port discoveryv1.EndpointPort) error {
	_, err := server.Kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{port},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{})
	return err
}

// patchGateway changes a Gateway by a merge patch.
func (s *site) patchGateway(patch string) {
	s.t.Helper()
	_, err := s.api.GatewayV1().Gateways(infra).Patch(s.t.Context(), "shop", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.t, err)
}

// awaitProgrammed waits until all proxies run an edit of an HTTPRoute in team-0.
func (s *site) awaitProgrammed(name string, generation int64) {
	s.t.Helper()
	must(s.t, poll(s.t.Context(), soon, 5*time.Millisecond, func(ctx context.Context) error {
		route, err := s.api.GatewayV1().HTTPRoutes("team-0").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, parent := range route.Status.Parents {
			c := meta.FindStatusCondition(parent.Conditions, string(gatewayv1.GatewayConditionProgrammed))
			if c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= generation {
				return nil
			}
		}
		return errors.New("the route is not Programmed")
	}))
}

// route makes an HTTPRoute for a host at a listener of a ListenerSet, or of the Gateway: KIND/NAME.
func (s *site) route(namespace, name, parent, section, host string) {
	s.t.Helper()
	kind, parentName, _ := strings.Cut(parent, "/")
	parentNamespace := namespace
	if kind == "Gateway" {
		parentNamespace = infra
	}
	s.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: %s, name: %s}
spec:
  parentRefs: [{kind: %s, name: %s, namespace: %s, sectionName: %s}]
  hostnames: [%s]
  rules: [{backendRefs: [{name: web, port: 80}]}]`, namespace, name, kind, parentName, parentNamespace, section, host)
}
