// Package agent tests the built agent from outside, on a real API server and with a real HAProxy, with the permissions
// that the operator gives it and no others.
package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	namespace = "agent"
	name      = "web"
	soon      = 20 * time.Second
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// setUp makes a Gateway with one Service behind it in a new namespace, and returns the port it listens on.
func setUp(t *testing.T, namespace string) (*appv1.Gateway, int32) {
	t.Helper()
	ctx, core := t.Context(), server.Kube.CoreV1()
	must.Get(core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	must.Get(core.Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "api"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	port := haproxytest.FreePort(t)
	gateway := must.Get(server.App.AppV1().Gateways(namespace).Create(ctx, &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: "http", Port: port, Protocol: appv1.ProtocolHTTP}},
			Routes: []appv1.Route{{Name: "api", Rules: []appv1.RouteRule{{
				BackendRefs: []appv1.BackendRef{{Name: "api", Port: 80}},
			}}}},
		},
	}, metav1.CreateOptions{}))(t)
	return gateway, port
}

// putEndpoint makes a server with the answer the only endpoint of the Service. It is on an interface of this machine:
// the API server admits no loopback address.
func putEndpoint(t *testing.T, answer string) {
	t.Helper()
	address := testenv.OwnAddress(t)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	must.Do(t, err)
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })}
	go func() { _ = backend.Serve(listener) }()
	t.Cleanup(func() { _ = backend.Close() })
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "api-1", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To(""), Port: ptr.To(int32(listener.Addr().(*net.TCPAddr).Port)),
		}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
	client := server.Kube.DiscoveryV1().EndpointSlices(namespace)
	if _, err = client.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		_, err = client.Create(t.Context(), slice, metav1.CreateOptions{})
	}
	must.Do(t, err)
}

// newPod makes a pod of the Gateway, with the permissions of its agents.
func newPod(t *testing.T, gateway *appv1.Gateway) testenv.Pod {
	t.Helper()
	ctx, options, namespace := t.Context(), metav1.ApplyOptions{FieldManager: "test"}, gateway.Namespace
	must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Apply(ctx, resources.DesiredServiceAccount(gateway), options))(t)
	must.Get(server.Kube.RbacV1().Roles(namespace).Apply(ctx, resources.DesiredRole(gateway), options))(t)
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, resources.DesiredRoleBinding(gateway), options))(t)
	return server.NewPod(t, namespace, gateway.Name, "pod")
}

// expectReport waits until the pod reports a generation and no problem.
func expectReport(t *testing.T, generation int64) {
	t.Helper()
	testenv.Eventually(t, soon, "the report", func(ctx context.Context) error {
		got, err := server.App.AppV1().GatewayProxies(namespace).Get(ctx, "pod", metav1.GetOptions{})
		if err == nil && (got.Status.ObservedGeneration != generation || len(got.Status.Problems) > 0) {
			err = fmt.Errorf("it is %+v, want generation %d", got.Status, generation)
		}
		if err == nil && len(got.ManagedFields) > 0 {
			t.Errorf("the API server keeps a record of who set what of the report, which takes half of its time: %+v", got.ManagedFields)
		}
		return err
	})
}

func expectAnswer(t *testing.T, port int32, path, want string) {
	t.Helper()
	testenv.Eventually(t, soon, "an answer from "+want, func(ctx context.Context) error {
		_, body, err := testenv.Get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err == nil && !strings.HasPrefix(body, want) {
			err = fmt.Errorf("got %q", body)
		}
		return err
	})
}

// The built programs with a certificate that is good and others that are not, under the schema and the permissions of
// the cluster.
func TestAgentWithCertificates(t *testing.T) {
	gateway, _ := setUp(t, "certificates")
	port := haproxytest.FreePort(t)
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{"web.example.com"})
	secrets, certificates, paths := certtest.NewVolume(t), t.TempDir(), haproxytest.NewPaths(t)
	keys := filepath.Join(filepath.Dir(paths.ConfigDir), "keys")
	must.Do(t, os.Mkdir(keys, 0o700))
	socket := filepath.Join(paths.RunDir, "keys.sock")
	secrets.PutPair("good", pair)
	secrets.PutPair("wrong", certtest.Pair{Certificate: authority.Issue(t, nil).Certificate, Key: pair.Key})
	keeper := testenv.Start(t, nil, testbuild.Program(t, "cmd/gateway-keys"),
		"-secrets-dir="+secrets.Dir, "-pairs-dir="+keys, "-certificates-dir="+certificates, "-haproxy-socket="+socket, "-logtostderr")
	patch := fmt.Sprintf(`{"spec":{"listeners":[{"name":"https","port":%d,"protocol":"HTTPS","tls":{"certificateRefs":[{"name":"missing"},{"name":"wrong"},{"name":"good"}]}}]}}`, port)
	must.Get(server.App.AppV1().Gateways(gateway.Namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	pod := newPod(t, gateway)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0",
		"-secret=good", "-secret=missing", "-secret=wrong", "-certificates-dir="+certificates, "-haproxy-certificates-dir="+keys, "-keys-socket="+socket)
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	haproxytest.Start(t, paths, nil)
	problem := func(secret, message string) appv1.ProxyProblem {
		return appv1.ProxyProblem{
			Origin:   appv1.ProblemOrigin{Kind: "Secret", Namespace: "certificates", Name: secret},
			Listener: "https", Reason: appv1.ProblemInvalidCertificateRef, Message: message,
		}
	}
	want := appv1.GatewayProxyStatus{
		Gateway: appv1.ProxiedGateway{Name: name, UID: gateway.UID}, ObservedGeneration: 2, Watch: appv1.WatchNamespaces,
		Problems: []appv1.ProxyProblem{
			problem("missing", "Secret certificates/missing: it does not exist or has no tls.crt"),
			problem("wrong", "Secret certificates/wrong: tls.key is not the key of its certificate: private key does not match public key"),
		},
	}
	testenv.Eventually(t, soon, "the report", func(ctx context.Context) error {
		got, err := server.App.AppV1().GatewayProxies(gateway.Namespace).Get(ctx, "pod", metav1.GetOptions{})
		if err == nil && !reflect.DeepEqual(got.Status, want) {
			err = fmt.Errorf("it is %+v", got.Status)
		}
		return err
	})
	connection := must.Get(tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: authority.Pool(), ServerName: "web.example.com"}))(t)
	_ = connection.Close()
	keeper.Signal(t, syscall.SIGTERM)
	if code := keeper.Exit(t, soon); code != 0 {
		t.Errorf("gateway-keys exits with %d:\n%s", code, keeper.Output())
	}
}

// TestAgentWithRules: the report names the line of rules that gateway-waf cannot use. Requests are refused until they
// are good.
func TestAgentWithRules(t *testing.T) {
	gateway, port := setUp(t, "rules")
	volume, paths := certtest.NewVolume(t), haproxytest.NewPaths(t)
	volume.Put(map[string][]byte{"shop-rules/rules.conf": []byte("# Robots\nSecRule REQUEST_FILENAME \"@pmFromFile robots\" \"id:1,deny\"")})
	socket := filepath.Join(paths.RunDir, "waf.sock")
	testenv.Start(t, nil, testbuild.Program(t, "cmd/gateway-waf"), "-socket="+socket, "-rules-dir="+volume.Dir, "-logtostderr")
	const patch = `{"spec":{"routes":[{"name":"api","rules":[{"filters":[{"type":"WAF","waf":{"rulesRef":{"name":"shop-rules"}}}],"backendRefs":[{"name":"api","port":80}]}]}]}}`
	must.Get(server.App.AppV1().Gateways(gateway.Namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	pod := newPod(t, gateway)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0",
		"-configmap=shop-rules", "-authorities-dir="+volume.Dir, "-waf-socket="+socket)
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	haproxytest.Start(t, paths, nil)
	expectStatus := func(path string, want int) {
		t.Helper()
		testenv.Eventually(t, soon, fmt.Sprint(path, " to get ", want), func(context.Context) error {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
			if err != nil {
				return err
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				return fmt.Errorf("it gets %d", response.StatusCode)
			}
			return nil
		})
	}
	expectProblems := func(want ...appv1.ProxyProblem) {
		t.Helper()
		testenv.Eventually(t, soon, "the report", func(ctx context.Context) error {
			got, err := server.App.AppV1().GatewayProxies(gateway.Namespace).Get(ctx, "pod", metav1.GetOptions{})
			if err == nil && (got.Status.ObservedGeneration != 2 || !reflect.DeepEqual(got.Status.Problems, want)) {
				err = fmt.Errorf("it is %+v", got.Status)
			}
			return err
		})
	}
	expectProblems(appv1.ProxyProblem{
		Origin: appv1.ProblemOrigin{Kind: "ConfigMap", Namespace: "rules", Name: "shop-rules"}, Reason: appv1.ProblemInvalidRulesRef,
		Message: "ConfigMap rules/shop-rules: rules.conf: line 2: the operator @pmFromFile is not allowed, or is written in another way: " +
			"the rules that were there before go on; without any, requests get 503",
	})
	expectStatus("/robots.txt", 503)
	volume.Put(map[string][]byte{"shop-rules/rules.conf": []byte("SecRule REQUEST_FILENAME \"@streq /robots.txt\" \"id:1,deny\"")})
	expectProblems()
	expectStatus("/robots.txt", 403)
}

func TestAgent(t *testing.T) {
	gateway, port := setUp(t, namespace)
	putEndpoint(t, "one")
	paths := haproxytest.NewPaths(t)
	health := fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t))
	pod := newPod(t, gateway)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-v=2", "-kubeconfig="+server.TokenKubeconfig(t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address="+health)
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	haproxy := haproxytest.Start(t, paths, nil)
	expectReport(t, 1)
	expectAnswer(t, port, "/", "one")

	putEndpoint(t, "two")
	expectAnswer(t, port, "/", "two")

	patch := `[{"op":"replace","path":"/spec/routes/0/rules/0/matches","value":[{"path":{"value":"/moved"}}]}]`
	must.Get(server.App.AppV1().Gateways(namespace).Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}))(t)
	expectReport(t, 2)
	expectAnswer(t, port, "/moved", "two")
	expectAnswer(t, port, "/", "no route matches")

	response, err := http.Get("http://" + health + "/readyz")
	must.Do(t, err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %s", response.Status)
	}
	haproxy.Stop()
	agent.Signal(t, syscall.SIGTERM)
	if code := agent.Exit(t, soon); code != 0 {
		t.Errorf("the agent exited with code %d", code)
	}
}
