package prove

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
// for agents hold, traffic flows, and edits are live without a lost request.
func TestKubernetes(t *testing.T) {
	version, err := server.Kube.Discovery().ServerVersion()
	must(t, err)
	row(t, "version", "%s", version.GitVersion)
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(testbuild.MustRoot(t), "artifacts"))
	tellChannels(t)
	s := startSite(t)
	s.createNamespace("team-0")
	s.createService("team-0", s.startEcho("-version=first"))
	s.createNamedService("team-0", "second", s.startEcho("-version=second"))
	s.apply(versionGateway)
	p := s.startProxy(infra, "shop")
	s.route("team-0", "web", "Gateway/shop", "http", "web.example.com")
	p.expect("web.example.com", "/", http.StatusOK)
	requests := load.Start(t.Context(), load.Options{
		Address: net.JoinHostPort(p.address, "80"), Host: "web.example.com", Rate: 100, Timeout: soon, Interval: time.Second,
		Check: func(answer load.Answer) error {
			if answer.Status != http.StatusOK {
				return fmt.Errorf("status %d", answer.Status)
			}
			return nil
		},
	})
	var took []time.Duration
	for i := range 20 {
		took = append(took, s.editBackend([]string{"second", "web"}[i%2]))
	}
	must(t, createSlice(t.Context(), "team-0", "web-2", "web", testenv.OwnAddress(t), discoveryv1.EndpointPort{Name: ptr.To(""), Port: ptr.To(s.startEcho("-version=new"))}))
	result := requests.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	row(t, "edits of a route, until Programmed", "%v (median), %v (most)", median(took), most(took))
	row(t, "requests meanwhile", "%d, %d of them lost", result.Requests(), len(result.Failures()))
	s.expectRefusals()
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
func (s *site) expectRefusals() {
	t := s.t
	t.Helper()
	gateways := server.App.AppV1().RESTClient()
	bad := `{"apiVersion":"app.example.com/v1","kind":"Gateway","metadata":{"name":"bad"},"spec":{"listeners":[{"name":"http","port":8404,"protocol":"HTTP"}]}}`
	if err := gateways.Post().Namespace(infra).Resource("gateways").Body([]byte(bad)).Do(t.Context()).Error(); !apierrors.IsInvalid(err) {
		t.Errorf("a port that the rules of the CRD refuse is answered with %v", err)
	}
	token, err := server.Kube.CoreV1().ServiceAccounts(infra).CreateToken(t.Context(), proxypod.ChildName("shop"), &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "shop-pod"}},
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
