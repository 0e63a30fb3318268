// Package peers starts gateways of other projects on a real API server, to measure them beside this one: Traefik with
// its own proxy, and the control planes of Contour and Envoy Gateway with a stand-in for Envoy. $PEERS is the directory
// with their programs, which build_peers of hack/lib.sh builds.
package peers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// Peer is a gateway of another project.
type Peer struct {
	Name, Controller string
	// Start starts its program.
	Start func(testing.TB, Gateway) *testenv.Program
	// StartProxy starts what answers requests once there is a Gateway, nil if the program does that.
	StartProxy func(testing.TB, Gateway)
}

// Gateway is the only one of a peer.
type Gateway struct {
	Server          *testenv.Server
	Namespace, Name string
	// Address is where requests are answered, with the port of the Gateway's listener.
	Address string
}

// The peers. EagerTraefik waits for no more changes before it takes one.
var (
	Contour      = Peer{"contour", "projectcontour.io/gateway-controller", startContour, startContourProxy}
	EnvoyGateway = Peer{"envoy-gateway", "gateway.envoyproxy.io/gatewayclass-controller", startEnvoyGateway, startEnvoyGatewayProxy}
	Traefik      = Peer{"traefik", "traefik.io/gateway-controller", startTraefik("2s"), nil}
	EagerTraefik = Peer{"traefik-0s", "traefik.io/gateway-controller", startTraefik("0s"), nil}
)

// Program is the path of a program in $PEERS.
func Program(name string) string { return filepath.Join(os.Getenv("PEERS"), name) }

// ApplyCRDs applies those of a file or a directory, and waits until they are served.
func ApplyCRDs(t testing.TB, server *testenv.Server, path string) {
	t.Helper()
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", path)
	server.Kubectl(t, "wait", "--for=condition=Established", "-f", path)
}

// source returns the directory of the source of a peer.
func source(t testing.TB, peer, module string) string {
	t.Helper()
	dir := filepath.Join(testbuild.MustRoot(t), "test", "bench", "peers", peer)
	return strings.TrimSpace(testenv.Run(t, dir, []string{"GOWORK=off"}, "go", "list", "-m", "-f", "{{.Dir}}", module))
}

// write writes a file of a peer and returns its path.
func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const contourXDS = "127.0.0.1:18001"

// startContour starts its control plane. It asks the API server as often as it wants to.
func startContour(t testing.TB, g Gateway) *testenv.Program {
	t.Helper()
	ApplyCRDs(t, g.Server, filepath.Join(source(t, "contour", "github.com/projectcontour/contour"), "examples", "contour", "01-crds.yaml"))
	config := write(t, filepath.Join(t.TempDir(), "config.yaml"), fmt.Sprintf("gateway: {gatewayRef: {namespace: %s, name: %s}}\n", g.Namespace, g.Name))
	return testenv.Start(t, nil, Program("contour"), "serve", "--insecure", "--disable-leader-election",
		"--kubeconfig="+g.Server.Kubeconfig, "--config-path="+config, "--xds-port="+strings.TrimPrefix(contourXDS, "127.0.0.1:"), "--http-port=0", "--health-port=0",
		"--kubernetes-client-qps=1000", "--kubernetes-client-burst=1000",
		"--disable-feature=tlsroutes", "--disable-feature=tcproutes", "--disable-feature=grpcroutes", "--disable-feature=backendtlspolicies")
}

func startContourProxy(t testing.TB, g Gateway) {
	t.Helper()
	startStandIn(t, g, contourXDS, "", "contour")
}

// envoyCerts is where Envoy Gateway looks for its certificates. isolated in hack/lib.sh makes such a directory.
const envoyCerts = "/certs"

// startEnvoyGateway starts its control plane. It asks the API server as often as it wants to.
func startEnvoyGateway(t testing.TB, g Gateway) *testenv.Program {
	t.Helper()
	const namespace = "envoy-gateway-system"
	ApplyCRDs(t, g.Server, filepath.Join(source(t, "envoy", "github.com/envoyproxy/gateway"), "charts", "gateway-helm", "charts", "crds", "crds", "generated"))
	g.Server.Kubectl(t, "create", "namespace", namespace)
	env := []string{"KUBECONFIG=" + g.Server.Kubeconfig}
	testenv.Run(t, "", env, Program("envoy-gateway"), "certgen", "--disable-topology-injector")
	secret, err := g.Server.Kube.CoreV1().Secrets(namespace).Get(t.Context(), "envoy-gateway", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, "ca.crt"} {
		write(t, filepath.Join(envoyCerts, name), string(secret.Data[name]))
	}
	config := write(t, filepath.Join(t.TempDir(), "config.yaml"), `{"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway",
		"gateway": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
		"provider": {"type": "Kubernetes", "kubernetes": {"client": {"rateLimit": {"qps": 1000, "burst": 1000}}, "leaderElection": {"disable": true}}}}`)
	return testenv.Start(t, env, Program("envoy-gateway"), "server", "--config-path="+config)
}

func startEnvoyGatewayProxy(t testing.TB, g Gateway) {
	t.Helper()
	startStandIn(t, g, "127.0.0.1:18000", envoyCerts, g.Namespace+"/"+g.Name)
}

// startStandIn starts the stand-in for Envoy.
func startStandIn(t testing.TB, g Gateway, xds, certs, cluster string) {
	t.Helper()
	testenv.Start(t, nil, Program("envoy"), "-xds="+xds, "-certs="+certs, "-cluster="+cluster, "-listen="+g.Address)
}

// startTraefik returns what starts it with a throttle. It asks the API server as often as it wants to.
func startTraefik(throttle string) func(testing.TB, Gateway) *testenv.Program {
	return func(t testing.TB, g Gateway) *testenv.Program {
		t.Helper()
		host, _, err := net.SplitHostPort(g.Address)
		if err != nil {
			t.Fatal(err)
		}
		return testenv.Start(t, []string{"KUBECONFIG=" + g.Server.Kubeconfig}, Program("traefik"),
			"--global.checknewversion=false", "--global.sendanonymoususage=false", "--ping=false", "--api=false", "--entrypoints.web.address="+g.Address,
			"--providers.kubernetesgateway=true", "--providers.kubernetesgateway.statusaddress.ip="+host,
			"--providers.kubernetesgateway.qps=1000", "--providers.kubernetesgateway.burst=1000", "--providers.providersthrottleduration="+throttle)
	}
}
