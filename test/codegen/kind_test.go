package codegen

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// checkNewKind: the copy's operator, with the copy's role, makes pods run as the ProxyProfile says, and as they did
// when it is gone.
func checkNewKind(t *testing.T, r *recipe) {
	t.Helper()
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(r.tree, "artifacts/rbac"))
	server.Kubectl(t, "create", "namespace", "shop")
	token := strings.TrimSpace(server.Kubectl(t, "-n", "gateway-system", "create", "token", "gateway-operator"))
	operator := filepath.Join(r.tree, "operator")
	testenv.Run(t, r.tree, r.env, "go", "build", "-o", operator, ".")
	program := testenv.Start(t, nil, operator, "-kubeconfig="+server.TokenKubeconfig(t, token), "-logtostderr",
		"-health-address=127.0.0.1:0", "-namespace=shop", "-leader-elect=false")

	gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "kind"}}
	gateway.Spec.Listeners = []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}
	must.Get(server.App.AppV1().Gateways("shop").Create(t.Context(), gateway, metav1.CreateOptions{}))(t)
	expectPriority(t, program, "")
	profile := filepath.Join(r.tree, "profile.yaml")
	server.Kubectl(t, "apply", "-f", profile)
	expectPriority(t, program, "system-cluster-critical")
	server.Kubectl(t, "delete", "-f", profile)
	expectPriority(t, program, "")
}

func expectPriority(t *testing.T, operator *testenv.Program, want string) {
	t.Helper()
	testenv.Eventually(t, time.Minute, fmt.Sprintf("the pods have the priority %q", want), func(ctx context.Context) error {
		if err := operator.Running(); err != nil {
			return err
		}
		deployment, err := server.Kube.AppsV1().Deployments("shop").Get(ctx, "kind-gateway", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := deployment.Spec.Template.Spec.PriorityClassName; got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}
