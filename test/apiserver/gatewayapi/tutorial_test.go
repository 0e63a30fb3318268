package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// endpoint is of a backend of this test.
var endpoint = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:\d+`)

// TestTutorial does what docs/tutorials/gateway-api.md says. The proxy of the new Gateway listens on another port than
// 80, and is asked at an address of this machine. The test stands in for what gives a load balancer its address.
func TestTutorial(t *testing.T) {
	startOperator(t)
	server.InstallGatewayAPI(t)
	classes := routesClient(t).GatewayV1().GatewayClasses()
	if err := classes.Delete(t.Context(), "gateway", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	createNamespace(t, "shop", nil)
	createService(t, "shop", "echo-v1")
	createService(t, "shop", "echo-v2")
	root, dir, port := testbuild.MustRoot(t), t.TempDir(), haproxytest.FreePort(t)
	const examples = "artifacts/gateway-api"
	must.Do(t, os.CopyFS(filepath.Join(dir, examples), os.DirFS(filepath.Join(root, examples))))
	replaceIn(t, filepath.Join(dir, examples, "beside.yaml"), "port: 80", fmt.Sprintf("port: %d", port))
	server.Kubectl(t, "apply", "-f", filepath.Join(dir, examples, "other.yaml"))

	bin, onThisMachine := plugintest.Build(t, root), strings.NewReplacer(
		"shop.example.com:80:$ADDRESS", fmt.Sprintf("shop.example.com:%d:127.0.0.1", port),
		"http://shop.example.com/", fmt.Sprintf("http://shop.example.com:%d/", port))
	assets := must.Get(testenv.Assets())(t)
	path := strings.Join([]string{bin, assets, os.Getenv("PATH")}, string(filepath.ListSeparator)) // the messages of kubectl differ by version
	asInThePage := strings.NewReplacer(fmt.Sprintf(":%d/", port), "/", fmt.Sprint(port), "80")
	run := func(command string) string {
		out := plugintest.Shell(t, bin, dir, onThisMachine.Replace(command), "KUBECONFIG="+server.Kubeconfig, "PATH="+path)
		if strings.HasPrefix(command, "kubectl apply ") && strings.Contains(command, "beside.yaml") {
			waitForGateway(t, "shop", "new")
			startProxy(t, "shop", "new")
			server.Kubectl(t, "-n", "shop", "patch", "service", "new-gateway", "--subresource=status", "--type=merge",
				`-p={"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.20"}]}}}`)
		}
		return asInThePage.Replace(out)
	}
	normal := func(output string) string { return endpoint.ReplaceAllString(output, "ADDRESS") }
	plugintest.ComparePage(t, filepath.Join(root, "docs", "tutorials", "gateway-api.md"), "console gateway-api", run, normal)
}

func replaceIn(t *testing.T, file, before, after string) {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	must.Do(t, os.WriteFile(file, []byte(strings.Replace(string(content), before, after, 1)), 0o600))
}

// waitForGateway waits until there is a Gateway of our own kind.
func waitForGateway(t *testing.T, namespace, name string) {
	t.Helper()
	testenv.Eventually(t, soon, "our Gateway "+name, func(ctx context.Context) error {
		own, err := server.App.AppV1().Gateways(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(own.OwnerReferences) == 0 {
			err = errors.New("it has no owner")
		}
		return err
	})
}
