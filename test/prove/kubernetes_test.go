package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"gateway/generated/app/clientset/versioned"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/load"
	"gateway/test/internal/testenv"
)

const versionGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: infra, name: shop}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]`

// TestKubernetes: on a version of Kubernetes, all that is installed is admitted, the rules of the CRDs and the policy
// for agents hold, traffic flows, and an upgrade from an older build and edits are live without a lost request.
func TestKubernetes(t *testing.T) {
	version, err := server.Kube.Discovery().ServerVersion()
	must(t, err)
	row(t, "version", "%s", version.GitVersion)
	tellChannels(t)
	older := filepath.Dir(tool(t, "older/go.mod"))
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(older, "artifacts"))
	s := startOlderSite(t, older)
	s.createNamespace("team-0")
	s.createService("team-0", s.startEcho("-version=first"))
	s.createNamedService("team-0", "second", s.startEcho("-version=second"))
	s.apply(versionGateway)
	p := s.startProxy(infra, "shop")
	s.route("team-0", "web", "Gateway/shop", "http", "web.example.com")
	p.expect("web.example.com", "/", http.StatusOK)
	var balancer atomic.Pointer[proxy]
	balancer.Store(p)
	requests := load.Start(t.Context(), load.Options{
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(balancer.Load().address, "80"))
		},
		Address: "balancer:80", Host: "web.example.com", Rate: 100, Slow: 5, Delay: 3 * time.Second, Timeout: soon, Interval: time.Second,
		Check: func(answer load.Answer) error {
			if answer.Status != http.StatusOK {
				return fmt.Errorf("status %d", answer.Status)
			}
			return nil
		},
	})
	p = s.upgrade(p, &balancer)
	var took []time.Duration
	for i := range 20 {
		took = append(took, s.editBackend([]string{"second", "web"}[i%2]))
	}
	must(t, createSlice(t.Context(), "team-0", "web-2", "web", testenv.OwnAddress(t), discoveryv1.EndpointPort{Name: ptr.To(""), Port: ptr.To(s.startEcho("-version=new"))}))
	result := requests.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	row(t, "an upgrade of CRDs, operator and pod from an older build, with an edit before and after each", "all Programmed")
	row(t, "edits of a route, until Programmed", "%v (median), %v (most)", median(took), most(took))
	row(t, "requests meanwhile", "%d, %d of them lost", result.Requests(), len(result.Failures()))
	s.expectRefusals(p.pod)
}

var invalid = regexp.MustCompile(`"([a-z0-9.-]+)" is invalid`)

// tellChannels tells which CRDs of the newest Gateway API this version refuses. An older Gateway API does then.
func tellChannels(t *testing.T) {
	t.Helper()
	module := strings.Fields(testenv.Run(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "sigs.k8s.io/gateway-api"))
	assets, err := testenv.Assets()
	must(t, err)
	for _, channel := range []string{"standard", "experimental"} {
		files, err := filepath.Glob(filepath.Join(module[0], "config/crd", channel, "gateway.networking*.yaml"))
		must(t, err)
		output, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig="+server.Kubeconfig,
			"create", "--dry-run=server", "-f", strings.Join(files, ",")).CombinedOutput()
		var refused []string
		for _, found := range invalid.FindAllStringSubmatch(string(output), -1) {
			refused = append(refused, found[1])
		}
		if err != nil && len(refused) == 0 {
			t.Fatalf("%v: %s", err, output)
		}
		row(t, "CRDs of the Gateway API "+module[1]+", "+channel, "%s", map[bool]string{true: "all are admitted", false: "refused: " + strings.Join(refused, ", ")}[len(refused) == 0])
	}
}

// upgrade replaces an older build by this one: the CRDs and the operator, and then the pod, which is drained as kubelet
// does. It returns the new pod, which the load balancer knows before that. An edit is live before and after each.
func (s *site) upgrade(p *proxy, balancer *atomic.Pointer[proxy]) *proxy {
	t := s.t
	t.Helper()
	s.editBackend("second")
	s.older = ""
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(testbuild.MustRoot(t), "artifacts"))
	s.editBackend("web")
	s.operator.Kill()
	s.startKeyServer()
	s.startOperator()
	s.editBackend("second")
	next := s.startPod(infra, "shop", "shop-pod-2")
	s.editBackend("web")
	balancer.Store(next)
	p.agent.Signal(t, syscall.SIGUSR1)
	stopping := time.Now()
	testenv.Eventually(t, soon, "the hook that sleeps for pods.stopDelay", func(context.Context) error {
		if time.Since(stopping) < 10*time.Second {
			return errors.New("it sleeps")
		}
		return nil
	})
	must(t, syscall.Kill(p.haproxy.PID, syscall.SIGUSR1))
	testenv.Eventually(t, soon, "HAProxy to have answered all", func(context.Context) error {
		if err := syscall.Kill(p.haproxy.PID, 0); err == nil {
			return errors.New("it runs")
		}
		return nil
	})
	p.agent.Kill()
	must(t, server.Kube.CoreV1().Pods(infra).Delete(t.Context(), p.pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	must(t, server.Kube.DiscoveryV1().EndpointSlices(infra).Delete(t.Context(), proxypod.ChildName("shop")+"-"+p.pod, metav1.DeleteOptions{}))
	return next
}

// editBackend has the route go to another Service, and returns how long it took until all proxies run that.
func (s *site) editBackend(name string) time.Duration {
	s.t.Helper()
	begin, routes := time.Now(), s.api.GatewayV1().HTTPRoutes("team-0")
	edited, err := routes.Patch(s.t.Context(), "web", types.JSONPatchType, fmt.Appendf(nil, `[{"op":"replace","path":"/spec/rules/0/backendRefs/0/name","value":%q}]`, name), metav1.PatchOptions{})
	must(s.t, err)
	s.awaitProgrammed("web", edited.Generation)
	return time.Since(begin)
}

// expectRefusals: CEL rules of a CRD and the ValidatingAdmissionPolicy for agents refuse what they are to.
func (s *site) expectRefusals(pod string) {
	t := s.t
	t.Helper()
	gateways := server.App.AppV1().RESTClient()
	bad := `{"apiVersion":"app.example.com/v1","kind":"Gateway","metadata":{"name":"bad"},"spec":{"listeners":[{"name":"http","port":8404,"protocol":"HTTP"}]}}`
	if err := gateways.Post().Namespace(infra).Resource("gateways").Body([]byte(bad)).Do(t.Context()).Error(); !apierrors.IsInvalid(err) {
		t.Errorf("a port that the rules of the CRD refuse is answered with %v", err)
	}
	token, err := server.Kube.CoreV1().ServiceAccounts(infra).CreateToken(t.Context(), proxypod.ChildName("shop"), &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod}},
	}, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(server.Admin)
	config.BearerToken = token.Status.Token
	agent, err := versioned.NewForConfig(config)
	must(t, err)
	report := func(pod string) error {
		body, err := json.Marshal(map[string]any{"apiVersion": "app.example.com/v1", "kind": "GatewayProxy", "metadata": map[string]string{"name": pod, "namespace": infra}})
		must(t, err)
		_, err = agent.AppV1().GatewayProxies(infra).Patch(t.Context(), pod, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "prove", Force: ptr.To(true)})
		return err
	}
	if err := report("other-pod"); !apierrors.IsForbidden(err) {
		t.Errorf("a report of another pod is answered with %v", err)
	}
	row(t, "rules of the CRDs, and the policy for agents", "refuse what they are to")
}
