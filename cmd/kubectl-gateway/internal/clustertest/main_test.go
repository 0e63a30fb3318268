// Package clustertest runs the plugin on a real API server.
package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/must"
)

var (
	// clients are an administrator's of the server that $KUBECONFIG is about.
	clients struct {
		Config   *rest.Config
		Gateways clientset.Interface
		Routes   routesclient.Interface
		Core     kubernetes.Interface
	}
	kubeconfig string
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runOnServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runOnServer(m *testing.M) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New("KUBEBUILDER_ASSETS is not set: run `export KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)` first")
	}
	module, err := gatewayAPI()
	if err != nil {
		return 1, err
	}
	server := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(clitest.Root, "artifacts", "crd"), filepath.Join(module, "config", "crd", "experimental")},
		ErrorIfCRDPathMissing: true, ControlPlaneStopTimeout: time.Minute,
	}
	config, err := server.Start()
	if err != nil {
		return 1, fmt.Errorf("failed to start an API server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	dir, err := os.MkdirTemp("", "kubectl-gateway-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	kubeconfig = filepath.Join(dir, "kubeconfig")
	err = os.WriteFile(kubeconfig, server.KubeConfig, 0o600)
	// The cache of the kinds that there are is kubectl's, in the home directory.
	err = errors.Join(err, os.Setenv("KUBECONFIG", kubeconfig), os.Setenv("KUBECACHEDIR", filepath.Join(dir, "cache")))
	config.QPS = -1
	clients.Config = config
	var errs [3]error
	clients.Gateways, errs[0] = clientset.NewForConfig(config)
	clients.Core, errs[1] = kubernetes.NewForConfig(config)
	clients.Routes, errs[2] = routesclient.NewForConfig(config)
	if err = errors.Join(err, errs[0], errs[1], errs[2]); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// gatewayAPI returns the directory of the module with the Gateway API.
func gatewayAPI() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		return "", fmt.Errorf("failed to find the Gateway API: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// newNamespace makes a namespace for the test.
func newNamespace(t *testing.T, name string) string {
	t.Helper()
	must.Get(clients.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	return name
}

// get returns a Gateway.
func get(t *testing.T, namespace, name string) *appv1.Gateway {
	t.Helper()
	gateway := must.Get(clients.Gateways.AppV1().Gateways(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return gateway
}

// programmed is what the operator says of a Gateway that is live, or, with a problem, is not.
func programmed(gateway *appv1.Gateway, problem string) appv1.GatewayStatus {
	condition := metav1.Condition{
		Type: appv1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "Programmed", ObservedGeneration: gateway.Generation,
		LastTransitionTime: metav1.Now(), Message: problem,
	}
	if problem != "" {
		condition.Status, condition.Reason = metav1.ConditionFalse, "LoadFailed"
	}
	return appv1.GatewayStatus{
		ObservedGeneration: gateway.Generation, Conditions: []metav1.Condition{condition}, Replicas: 2, ReadyReplicas: 2,
		Addresses: []appv1.GatewayAddress{{Type: appv1.AddressTypeIPAddress, Value: "10.0.0.80"}},
	}
}

// setStatus writes the status as the operator would.
func setStatus(ctx context.Context, gateway *appv1.Gateway, status appv1.GatewayStatus) error {
	gateway.Status = status
	_, err := clients.Gateways.AppV1().Gateways(gateway.Namespace).UpdateStatus(ctx, gateway, metav1.UpdateOptions{})
	return err
}
