package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// tracedTeam is a namespace with a route, whose backend never answers, and a developer who may trace it.
const tracedTeam = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: traced.web, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gateway-attached}
subjects: [{kind: ServiceAccount, namespace: traced, name: web-gateway}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: developer, namespace: %[1]s}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: [httproutes], verbs: [get, patch]}
- {apiGroups: [""], resources: [events], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: developer, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: developer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s-developer}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: %[1]s, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: "", port: %[3]d}]
endpoints: [{addresses: ["%[2]s"]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: %[1]s}
spec:
  parentRefs: [{group: app.example.com, kind: Gateway, name: web, namespace: traced}]
  hostnames: [%[1]s.example.com]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: app.example.com/v1
kind: GatewayAttachment
metadata:
  name: web.%[1]s
  namespace: traced
  labels: {app.example.com/gateway: web}
  ownerReferences: [{apiVersion: app.example.com/v1, kind: Gateway, name: web, uid: %[4]s, controller: true}]
spec: {gatewayName: web, namespace: %[1]s, resources: [httproutes, routefilters, backendpolicies, backendtlspolicies]}
status: {conditions: [{type: Bound, status: "True", reason: Bound, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`

// startSilent returns the port of a backend that takes requests and answers none but those for /answered-.
func startSilent(t *testing.T) int {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(testenv.OwnAddress(t), "0")))(t)
	ended := make(chan struct{})
	backend := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		if !strings.HasPrefix(request.URL.Path, "/answered-") {
			<-ended
		}
	})}
	go func() { _ = backend.Serve(listener) }()
	t.Cleanup(func() {
		close(ended)
		_ = backend.Close()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// expectNextRequests compares what a team sees while requests of two teams end.
func expectNextRequests(t *testing.T, port int32, trace func(user, namespace string, more ...string) string) {
	t.Helper()
	next := make(chan string, 1)
	go func() { next <- trace("team-a-developer", "team-a", "--next=2", "--path=/answered-") }()
	testenv.Eventually(t, soon, "the next requests", func(ctx context.Context) error {
		for _, team := range []string{"team-b", "team-a"} {
			request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/answered-%s", port, team), http.NoBody))(t)
			request.Host = team + ".example.com"
			response, err := http.DefaultClient.Do(request)
			must.Do(t, err)
			_ = response.Body.Close()
		}
		select {
		case out := <-next:
			if strings.Count(out, "  200  GET team-a.example.com") != 2 || strings.Contains(out, "team-b") {
				t.Errorf("the next requests are\n%s", out)
			}
			return nil
		default:
			return errors.New("they are not there")
		}
	})
}

// TestTeamTraces: a developer with rights in one namespace sees its requests under way and its next ones, and none of
// another team on the same Gateway.
func TestTeamTraces(t *testing.T) {
	ctx := t.Context()
	server.InstallGatewayAPI(t)
	gateway, port := setUp(t, "traced")
	must.Get(server.App.AppV1().Gateways("traced").Patch(ctx, name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/listeners/0/allowedRoutes","value":{"namespaces":{"from":"All"}}}]`), metav1.PatchOptions{}))(t)
	server.Kubectl(t, "apply", "-f", "../../../artifacts/rbac/attached_role.yaml")
	silent, file := startSilent(t), filepath.Join(t.TempDir(), "team.yaml")
	for _, team := range []string{"team-a", "team-b"} {
		must.Do(t, os.WriteFile(file, fmt.Appendf(nil, tracedTeam, team, testenv.OwnAddress(t), silent, gateway.UID), 0o600))
		server.Kubectl(t, "apply", "-f", file)
	}
	plugin := testbuild.Program(t, "cmd/kubectl-gateway") // takes longer than requests may
	paths, pod := haproxytest.NewPaths(t), newPod(t, gateway)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0")
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	haproxytest.Start(t, paths, nil)
	for _, team := range []string{"team-a", "team-b"} {
		connection := must.Get((&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t)
		t.Cleanup(func() { _ = connection.Close() })
		must.Get(fmt.Fprintf(connection, "GET /of-%s?secret HTTP/1.1\r\nHost: %s.example.com\r\n\r\n", team, team))(t)
	}
	trace := func(user, namespace string, more ...string) string {
		args := append([]string{"trace", "httproute/web", "-n", namespace, "--as=" + user, "--kubeconfig=" + server.Kubeconfig}, more...)
		out, err := exec.CommandContext(ctx, plugin, args...).CombinedOutput()
		t.Logf("%s in %s: %v\n%s", user, namespace, err, out)
		return string(out)
	}
	for _, team := range []string{"team-a", "team-b"} {
		testenv.Eventually(t, soon, "an answer", func(context.Context) error {
			out := trace(team+"-developer", team, "--older=0s")
			switch {
			case strings.Count(out, "/of-team-") > strings.Count(out, "/of-"+team):
				t.Fatalf("%s sees others' requests:\n%s", team, out)
			case !strings.Contains(out, "endpoint of "+team+"_web_80"):
				return errors.New("its request is not there")
			}
			return nil
		})
	}
	expectNextRequests(t, port, trace)
	if out := trace("team-a-developer", "team-b"); !strings.Contains(out, "forbidden") || strings.Contains(out, "/of-") {
		t.Errorf("a stranger may ask:\n%s", out)
	}
	events := must.Get(server.Kube.CoreV1().Events("traced").List(ctx, metav1.ListOptions{}))(t)
	for _, event := range events.Items {
		if event.Reason == "Trace" {
			t.Errorf("the Gateway's namespace has %s", event.Message)
		}
	}
}
