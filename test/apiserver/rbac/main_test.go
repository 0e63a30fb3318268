// Package rbac tests what the operator and the agents may do, on a real API server: that it is what
// docs/maintainers/permissions.md lists, that all of it is used, and that nobody can use it to reach from one namespace
// into another.
package rbac

import (
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	operatorNamespace = "gateway-system"
	operatorName      = "gateway-operator"
	gatewayName       = "web"

	// soon is enough for anything the programs do at once, on a loaded machine.
	soon = 20 * time.Second
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// installOperator makes the operator's ServiceAccount and gives it its permissions.
func installOperator(t *testing.T) {
	t.Helper()
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "rbac"))
}

func newNamespace(t *testing.T, name string) {
	t.Helper()
	must.Get(server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
}

// newGateway makes a Gateway with a listener on the port and one backend.
func newGateway(t *testing.T, namespace, name string, port int32) *appv1.Gateway {
	t.Helper()
	return newGatewayOf(t, namespace, name, port, appv1.PodsKindDeployment)
}

// newGatewayOf makes a Gateway whose proxies are of a Deployment or a DaemonSet.
func newGatewayOf(t *testing.T, namespace, name string, port int32, kind appv1.PodsKind) *appv1.Gateway {
	t.Helper()
	gateway := must.Get(server.App.AppV1().Gateways(namespace).Create(t.Context(), &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: "http", Port: port, Protocol: appv1.ProtocolHTTP}},
			Routes: []appv1.Route{{Name: "api", Rules: []appv1.RouteRule{{
				BackendRefs: []appv1.BackendRef{{Name: "api", Port: 80}},
			}}}},
			Pods: appv1.PodsSpec{Kind: kind},
		},
	}, metav1.CreateOptions{}))(t)
	return gateway
}

// newAgent makes what the operator makes for the agents of a Gateway, and returns the name of their ServiceAccount.
func newAgent(t *testing.T, gateway *appv1.Gateway) string {
	t.Helper()
	ctx, options, namespace := t.Context(), metav1.ApplyOptions{FieldManager: "test"}, gateway.Namespace
	account := must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Apply(ctx, resources.DesiredServiceAccount(gateway), options))(t)
	must.Get(server.Kube.RbacV1().Roles(namespace).Apply(ctx, resources.DesiredRole(gateway), options))(t)
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, resources.DesiredRoleBinding(gateway), options))(t)
	return account.Name
}

// token returns a token of a ServiceAccount.
func token(t *testing.T, namespace, account string) string {
	t.Helper()
	created := must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, newTokenRequest(), metav1.CreateOptions{}))(t)
	return created.Status.Token
}

func newTokenRequest() *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
}

// as returns the clients of a ServiceAccount.
func as(t *testing.T, namespace, account string) testenv.Clients {
	t.Helper()
	return with(t, token(t, namespace, account))
}

// with returns the clients of whoever has a token.
func with(t *testing.T, token string) testenv.Clients {
	t.Helper()
	config := rest.AnonymousClientConfig(server.Admin)
	config.BearerToken = token
	clients := must.Get(testenv.NewClients(config))(t)
	return clients
}
