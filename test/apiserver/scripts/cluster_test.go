// Package scripts runs functions of hack/lib.sh on a real API server.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// useCluster runs use_cluster for a kubeconfig. It returns what that printed, with the KUBECONFIG that it set, and
// whether it went on.
func useCluster(t *testing.T, kubeconfig string) (string, bool) {
	t.Helper()
	assets := must.Get(testenv.Assets())(t)
	command := exec.CommandContext(t.Context(), "bash", "-c", `. hack/lib.sh; use_cluster TEST_KUBECONFIG && echo "use $KUBECONFIG"`)
	command.Dir = testbuild.MustRoot(t)
	command.Env = append(os.Environ(), "PATH="+assets+":"+os.Getenv("PATH"), "TEST_KUBECONFIG="+kubeconfig, "KUBECONFIG=/nobody/asked")
	output, err := command.CombinedOutput()
	return string(output), err == nil
}

// TestUseCluster: tests and the demo change no cluster that has Gateways, which they would disturb.
func TestUseCluster(t *testing.T) {
	check := func(state string, ok bool, want string) {
		t.Helper()
		if got, went := useCluster(t, server.Kubeconfig); went != ok || !strings.Contains(got, want) {
			t.Errorf("%s: goes on: %v, and prints\n%s\nwant %q", state, went, got, want)
		}
	}
	used := "use " + server.Kubeconfig
	check("without Gateways", true, used)
	gateway := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody-elses"},
		Spec:       appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}
	must.Get(server.App.AppV1().Gateways("default").Create(t.Context(), gateway, metav1.CreateOptions{}))(t)
	check("with a Gateway", false, "somebody-elses")
	server.DeleteCRDs(t, "crd", "gateways.app.example.com")
	check("without the CRD", true, used)
	if got, ok := useCluster(t, filepath.Join(t.TempDir(), "missing")); ok {
		t.Errorf("a cluster that does not answer is used: %s", got)
	}
}
