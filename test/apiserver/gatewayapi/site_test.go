// Package gatewayapi tests the built operator and the built agent with objects of the Gateway API, on a real API server
// and with a real HAProxy. Both have the permissions that they have in a cluster, and no others.
package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// soon is enough for anything that is done at once, on a loaded machine.
const soon = 30 * time.Second

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

func routesClient(t *testing.T) routesclient.Interface {
	t.Helper()
	client := must.Get(routesclient.NewForConfig(server.Admin))(t)
	return client
}

// startOperator starts the operator with its permissions, and flags.
func startOperator(t *testing.T, flags ...string) *testenv.Program {
	t.Helper()
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "rbac"))
	token := must.Get(server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(t.Context(), "gateway-operator",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{}))(t)
	return testenv.Start(t, nil, testbuild.Program(t, "."), append([]string{
		"-kubeconfig=" + server.TokenKubeconfig(t, token.Status.Token), "-logtostderr", "-v=2",
		"-health-address=127.0.0.1:0", "-leader-elect-namespace=gateway-system",
	}, flags...)...)
}

func createNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	must.Get(server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}))(t)
}

// serve answers requests with a text, until the function that it returns is called.
func serve(t *testing.T, text string) (at netip.AddrPort, end func()) {
	t.Helper()
	return serveBy(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// serveBy has a handler answer requests, until the function that it returns is called.
func serveBy(t *testing.T, handler http.HandlerFunc) (at netip.AddrPort, end func()) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(testenv.OwnAddress(t), "0")))(t)
	backend := &http.Server{Handler: handler}
	go func() { _ = backend.Serve(listener) }()
	end = func() { _ = backend.Close() }
	t.Cleanup(end)
	return listener.Addr().(*net.TCPAddr).AddrPort(), end
}

// createService makes a Service with one endpoint, which answers with the Service's namespace and name, until the
// function that it returns is called.
func createService(t *testing.T, namespace, name string) (end func()) {
	t.Helper()
	at, end := serve(t, namespace+"/"+name)
	must.Get(server.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	createSlice(t, namespace, name+"-1", map[string]string{discoveryv1.LabelServiceName: name}, at)
	return end
}

// createTeam makes a namespace with a Service api, whose routes Gateway shop takes. A part of a test with many edits
// has one of its own: beyond five reloads because of a namespace, edits there wait for up to 15 s.
func createTeam(t *testing.T, name string) {
	t.Helper()
	createNamespace(t, name, map[string]string{"tier": "web"})
	createService(t, name, "api")
}

// createSlice makes an EndpointSlice with one endpoint.
func createSlice(t *testing.T, namespace, name string, labels map[string]string, at netip.AddrPort) {
	t.Helper()
	must.Get(server.Kube.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(at.Port()))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	}, metav1.CreateOptions{}))(t)
}

// startProxy runs the pod of one of our Gateways: its agent, with the pod's token, and HAProxy.
func startProxy(t *testing.T, namespace, gateway string) *haproxytest.Instance {
	t.Helper()
	return startProxyThrough(t, namespace, gateway, func(kubeconfig string) string { return kubeconfig })
}

// startProxyThrough is startProxy with another way to the API server: through changes a kubeconfig.
func startProxyThrough(t *testing.T, namespace, gateway string, through func(kubeconfig string) string) *haproxytest.Instance {
	t.Helper()
	testenv.Eventually(t, soon, "the agents' permissions", func(ctx context.Context) error {
		_, err := server.Kube.RbacV1().RoleBindings(namespace).Get(ctx, proxypod.ChildName(gateway), metav1.GetOptions{})
		return err
	})
	pod, paths := server.NewPod(t, namespace, gateway, gateway+"-pod"), haproxytest.NewPaths(t)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+gateway, "-logtostderr", "-v=2", "-kubeconfig="+through(server.TokenKubeconfig(t, pod.Token)),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0")
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	return haproxytest.Start(t, paths, nil)
}

// expectAnswer waits until a request is answered with a status and a text.
func expectAnswer(t *testing.T, port int32, path string, status int, text string) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("%s to be answered with %d %s", path, status, text), func(ctx context.Context) error {
		got, body, err := testenv.Get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err == nil && (got != status || !strings.Contains(body, text)) {
			err = fmt.Errorf("got %d %q", got, body)
		}
		return err
	})
}

// expect checks conditions: TYPE=STATUS, or TYPE=STATUS/REASON. All have to be of a generation.
func expect(conditions []metav1.Condition, generation int64, wanted ...string) error {
	for _, want := range wanted {
		kind, rest, _ := strings.Cut(want, "=")
		status, reason, _ := strings.Cut(rest, "/")
		c := meta.FindStatusCondition(conditions, kind)
		if c == nil || string(c.Status) != status || reason != "" && c.Reason != reason || c.ObservedGeneration != generation {
			return fmt.Errorf("%s is %+v, want %s of generation %d", kind, c, want, generation)
		}
	}
	return nil
}

// expectRoute waits until the conditions of an HTTPRoute at its first parent are as they should be.
func expectRoute(t *testing.T, api routesclient.Interface, namespace, name string, generation int64, wanted ...string) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("HTTPRoute %s/%s to be %v", namespace, name, wanted), func(ctx context.Context) error {
		route, err := api.GatewayV1().HTTPRoutes(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(route.Status.Parents) != 1 {
			return fmt.Errorf("there are %d parents in the status", len(route.Status.Parents))
		}
		return expect(route.Status.Parents[0].Conditions, generation, wanted...)
	})
}

// expectAccess waits until the agents of Gateway shop may read routes and Services in a namespace, or may not.
func expectAccess(t *testing.T, namespace string, want bool) {
	t.Helper()
	agents := "system:serviceaccount:" + infra + ":shop-gateway"
	for _, resource := range []authorizationv1.ResourceAttributes{
		{Group: gatewayv1.GroupName, Resource: "httproutes"}, {Resource: "services"}, {Group: discoveryv1.GroupName, Resource: "endpointslices"},
	} {
		resource.Namespace, resource.Verb = namespace, "list"
		testenv.Eventually(t, soon, fmt.Sprintf("%s to list %s in %s: %t", agents, resource.Resource, namespace, want), func(ctx context.Context) error {
			review, err := server.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: agents, ResourceAttributes: &resource},
			}, metav1.CreateOptions{})
			if err == nil && review.Status.Allowed != want {
				err = fmt.Errorf("it is allowed: %t", review.Status.Allowed)
			}
			return err
		})
	}
}

// newRoute returns an HTTPRoute for a path.
func newRoute(namespace, name string, parent gatewayv1.ParentReference, path string, backend gatewayv1.BackendObjectReference) *gatewayv1.HTTPRoute {
	prefix := gatewayv1.PathMatchPathPrefix
	return &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}},
		Rules: []gatewayv1.HTTPRouteRule{{
			Matches:     []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &prefix, Value: &path}}},
			BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: backend}}},
		}},
	}}
}
