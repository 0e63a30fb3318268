package testenv

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"gateway/generated/app/clientset/versioned"
	"gateway/internal/must"
	"gateway/internal/testbuild"
)

// WatchLists says that the API server has watch-lists, by which informers begin since Kubernetes 1.35. Without them,
// they list first.
var WatchLists = flag.Bool("watch-lists", true, "whether the API server has watch-lists")

// auditPolicy records who asked for what, once the answer is known; the tests count writes by it, and see what is
// watched.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection, list, watch]
`

// crdTime is how long a busy machine may take until CRDs are served.
const crdTime = 2 * time.Minute

// Server is an API server of its own, without controllers and nodes.
type Server struct {
	// Admin may do everything.
	Admin *rest.Config
	// Kubeconfig is the path of a file that makes its user the administrator.
	Kubeconfig string
	Clients

	env *envtest.Environment
	// dir holds the server's files.
	dir string
	// installing is held while CRDs are installed: two tests that create the same one at once fail.
	installing sync.Mutex
	// restarted end the parts of the control plane that were started again.
	restarted []func()
}

// Clients are the clients of one user.
type Clients struct {
	Kube    kubernetes.Interface
	App     versioned.Interface
	Dynamic dynamic.Interface
}

// Unlimited is Admin without a limit on requests, and without lines for the API server's warnings.
func (s *Server) Unlimited() *rest.Config { return unlimited(s.Admin) }

func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // what tests write by the thousand
	return config
}

// NewClients returns the clients of the configuration's user, without a limit on requests.
func NewClients(config *rest.Config) (Clients, error) {
	config = unlimited(config)
	var c Clients
	var errs [3]error
	c.Kube, errs[0] = kubernetes.NewForConfig(config)
	c.App, errs[1] = versioned.NewForConfig(config)
	c.Dynamic, errs[2] = dynamic.NewForConfig(config)
	return c, errors.Join(errs[:]...)
}

// Main runs a package's tests on a server of their own, which server points to while they run. It is the body of
// TestMain. Without crds, the server knows no Gateways.
func Main(m *testing.M, server **Server, crds bool) {
	flag.Parse()
	setParallel()
	s, err := start(crds)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	*server = s
	code := m.Run()
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// setParallel lets four tests run at once if nobody said how many. Most of the time a test waits, so there are more of
// them than cores; too many would keep the programs from being as fast as they promise.
func setParallel() {
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return
	}
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // there is no such flag: not a test
	}
}

// Assets is the directory of kube-apiserver, etcd and kubectl.
func Assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		return "", errors.New("KUBEBUILDER_ASSETS is not set. These tests start a real API server: run " +
			"`export KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets)` first, or `make test`")
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("KUBEBUILDER_ASSETS names a directory that lacks %s: %w", name, err)
		}
	}
	return dir, nil
}

func start(crds bool) (*Server, error) {
	assets, err := Assets()
	if err != nil {
		return nil, err
	}
	root, err := testbuild.Root()
	if err != nil {
		return nil, err
	}
	s := &Server{env: &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}}
	if crds {
		s.env.CRDDirectoryPaths = []string{filepath.Join(root, "artifacts", "crd")}
		s.env.ErrorIfCRDPathMissing = true
		s.env.CRDInstallOptions.MaxTime = crdTime
	}
	if s.dir, err = os.MkdirTemp("", "gateway-test-"); err != nil {
		return nil, err
	}
	if err := s.startIn(s.dir); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *Server) startIn(dir string) error {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	s.env.ControlPlane.GetAPIServer().Configure().
		Set("feature-gates", fmt.Sprintf("WatchList=%t", *WatchLists)).
		Set("audit-policy-file", policy).
		Set("audit-log-path", s.auditLog()).
		// The largest objects take long on a busy machine.
		Set("request-timeout", "10m").
		Set("service-cluster-ip-range", "10.0.0.0/16")
	var err error
	if s.Admin, err = s.env.Start(); err != nil {
		return fmt.Errorf("failed to start an API server: %w", err)
	}
	s.Kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(s.Kubeconfig, s.env.KubeConfig, 0o600); err != nil {
		return err
	}
	s.Clients, err = NewClients(s.Admin)
	return err
}

func (s *Server) stop() error {
	for _, end := range s.restarted {
		end()
	}
	return errors.Join(s.env.Stop(), os.RemoveAll(s.dir))
}

func (s *Server) auditLog() string { return filepath.Join(s.dir, "audit.log") }

// TokenKubeconfig writes a kubeconfig for the user with the bearer token and returns its path.
func (s *Server) TokenKubeconfig(t testing.TB, token string) string {
	t.Helper()
	return WriteKubeconfig(t, s.Admin.Host, s.Admin.CAData, token)
}

// WriteKubeconfig writes a kubeconfig for a server, by its URL and its authority, and returns its path.
func WriteKubeconfig(t testing.TB, url string, authority []byte, token string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, clientcmd.WriteToFile(*config, path))
	return path
}
