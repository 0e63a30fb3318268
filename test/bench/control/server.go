package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"gateway/test/internal/testenv"
)

const (
	operatorNamespace = "gateway-system"
	operatorName      = "gateway-operator"

	// Every Gateway's Service gets a cluster IP: this range has 65,536.
	serviceRange = "10.0.0.0/16"
)

// server is an API server with its etcd and the project's CRD, without controllers and nodes.
type server struct {
	testenv.Clients
	config *rest.Config
	env    *envtest.Environment
	// process is kube-apiserver's.
	process *process
}

func startServer(root string) (*server, error) {
	assets, err := testenv.Assets()
	if err != nil {
		return nil, err
	}
	s := &server{env: &envtest.Environment{
		BinaryAssetsDirectory: assets, ControlPlaneStopTimeout: time.Minute,
		CRDDirectoryPaths: []string{filepath.Join(root, "artifacts", "crd")}, ErrorIfCRDPathMissing: true,
	}}
	s.env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", serviceRange)
	if s.config, err = s.env.Start(); err != nil {
		return nil, fmt.Errorf("failed to start an API server: %w", err)
	}
	if s.Clients, err = testenv.NewClients(s.config); err != nil {
		return nil, err
	}
	if s.process, err = child("kube-apiserver"); err != nil {
		return nil, err
	}
	return s, nil
}

// stop ends etcd and the API server. That ignores TERM for minutes while someone watches, and there is nothing to save.
func (s *server) stop() error {
	if err := syscall.Kill(s.process.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("failed to kill the API server: %w", err)
	}
	return s.env.Stop()
}

// metrics asks the API server for its metrics.
func (s *server) metrics(ctx context.Context) (metrics, error) {
	raw, err := s.Kube.(*kubernetes.Clientset).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to get the API server's metrics: %w", err)
	}
	return parseMetrics(string(raw)), nil
}

// operatorKubeconfig writes a kubeconfig of the operator's ServiceAccount with the permissions in artifacts/rbac, so
// that the API server treats its requests as it would on a cluster.
func (s *server) operatorKubeconfig(ctx context.Context, root, dir string) (string, error) {
	admin := filepath.Join(dir, "admin")
	if err := os.WriteFile(admin, s.env.KubeConfig, 0o600); err != nil {
		return "", err
	}
	kubectl := exec.CommandContext(ctx, filepath.Join(s.env.BinaryAssetsDirectory, "kubectl"), "--kubeconfig="+admin,
		"apply", "--server-side", "-f", filepath.Join(root, "artifacts", "rbac"))
	if output, err := kubectl.CombinedOutput(); err != nil {
		return "", fmt.Errorf("failed to apply artifacts/rbac: %w\n%s", err, output)
	}
	day := int64(24 * 60 * 60)
	token, err := s.Kube.CoreV1().ServiceAccounts(operatorNamespace).CreateToken(ctx, operatorName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to get a token of ServiceAccount %s/%s: %w", operatorNamespace, operatorName, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: s.config.Host, CertificateAuthorityData: s.config.CAData}
	config.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	path := filepath.Join(dir, "operator")
	return path, clientcmd.WriteToFile(*config, path)
}
