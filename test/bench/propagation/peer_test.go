package propagation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/source/gatewayapi"
	"gateway/test/internal/testenv"
)

// contour is a peer whose control plane can be built from public modules: hack/peer/go.mod has the version.
const contour = "github.com/projectcontour/contour"

// BenchmarkControlPlanes measures how long control planes take until many HTTPRoutes are accepted, one after the other
// on the same API server: the operator, and Contour's. No proxies run.
func BenchmarkControlPlanes(b *testing.B) {
	server.InstallGatewayAPI(b)
	const routes = 5000
	planes := []struct {
		name, controller, user string
		start                  func(*testing.B, *world) *testenv.Program
	}{
		{"gateway", string(gatewayapi.ControllerName), operatorUser, func(b *testing.B, w *world) *testenv.Program {
			b.Helper()
			w.startOperator(b)
			return w.operator
		}},
		{"contour", "projectcontour.io/gateway-controller", "system:serviceaccount:contour:contour", startContour},
	}
	for _, plane := range planes {
		b.Run(fmt.Sprintf("HTTPRoutes=%d/%s", routes, plane.name), func(b *testing.B) {
			w := newWorld(b, plane.name)
			api, err := routesclient.NewForConfig(server.Admin)
			must(b, err)
			w.api = api
			atOnce(routes, func(i int) { w.createServiceWith(b, w.distantSlice(i)) })
			_, err = api.GatewayV1().GatewayClasses().Create(b.Context(), &gatewayv1.GatewayClass{
				ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayv1.GatewayController(plane.controller)},
			}, metav1.CreateOptions{})
			must(b, err)
			program := plane.start(b, w)
			w.createSharedGateway(b, w.namespace)
			begin, cpu, own := time.Now(), server.CPU(b), testenv.CPU(program.PID())
			w.createRoute(b, "probe", probeHost, "/", backendRef("probe", 1))
			atOnce(routes, func(i int) {
				w.createRoute(b, distant(i), fmt.Sprintf("host-%d.example.com", i), "/", backendRef(distant(i), 1))
			})
			w.settleAccepted(b, w.namespace, routes)
			b.ReportMetric(time.Since(begin).Seconds(), "s-until-Accepted")
			b.ReportMetric(memory(b, program.PID()), "MiB")
			b.ReportMetric((testenv.CPU(program.PID()) - own).Seconds(), "CPU-s")
			b.ReportMetric((server.CPU(b) - cpu).Seconds(), "apiserver-CPU-s")
			b.ReportMetric(float64(len(server.Writes(b, plane.user, begin)))/routes, "writes/route")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// startContour starts Contour's control plane for the Gateway of a world.
func startContour(b *testing.B, w *world) *testenv.Program {
	b.Helper()
	root, dir := testenv.MustRoot(b), b.TempDir()
	testenv.Run(b, root, nil, "go", "build", "-modfile=hack/peer/go.mod", "-o", dir, contour+"/cmd/contour")
	module := strings.TrimSpace(testenv.Run(b, root, nil, "go", "list", "-modfile=hack/peer/go.mod", "-m", "-f", "{{.Dir}}", contour))
	server.Kubectl(b, "apply", "--server-side", "-f", filepath.Join(module, "examples", "contour", "01-crds.yaml"))
	config := filepath.Join(dir, "contour.yaml")
	must(b, os.WriteFile(config, fmt.Appendf(nil, "gateway: {gatewayRef: {namespace: %s, name: %s}}\n", w.namespace, gatewayName), 0o600))
	// Its limit for requests to the API server is raised to that of the operator's.
	return testenv.Start(b, nil, filepath.Join(dir, "contour"), "serve", "--insecure", "--disable-leader-election",
		"--kubeconfig="+server.TokenKubeconfig(b, contourToken(b)), "--config-path="+config, "--xds-port=0", "--http-port=0", "--health-port=0",
		"--kubernetes-client-qps=1000", "--kubernetes-client-burst=1000",
		"--disable-feature=tlsroutes", "--disable-feature=tcproutes", "--disable-feature=grpcroutes", "--disable-feature=backendtlspolicies")
}

// contourToken returns one of a ServiceAccount that may do everything.
func contourToken(b *testing.B) string {
	b.Helper()
	ctx, name := b.Context(), metav1.ObjectMeta{Name: "contour"}
	_, err := server.Kube.CoreV1().Namespaces().Get(ctx, "contour", metav1.GetOptions{})
	must(b, err)
	_, err = server.Kube.CoreV1().ServiceAccounts("contour").Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
	must(b, err)
	_, err = server.Kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "contour", Name: "contour"}},
	}, metav1.CreateOptions{})
	must(b, err)
	token, err := server.Kube.CoreV1().ServiceAccounts("contour").CreateToken(ctx, "contour",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](36000)}}, metav1.CreateOptions{})
	must(b, err)
	return token.Status.Token
}
