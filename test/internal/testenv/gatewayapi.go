package testenv

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var gatewayAPI = flag.String("gateway-api", "", "the version of the Gateway API's CRDs, such as v1.6.3; that of go.mod if empty")

// InstallGatewayAPI installs the CRDs of the Gateway API, of the experimental channel, which has all that there are.
func (s *Server) InstallGatewayAPI(t testing.TB) {
	t.Helper()
	dir := strings.TrimSpace(Run(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"))
	if *gatewayAPI != "" {
		var module struct{ Dir string }
		output := Run(t, t.TempDir(), nil, "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api@"+*gatewayAPI)
		if err := json.Unmarshal([]byte(output), &module); err != nil {
			t.Fatal(err)
		}
		dir = module.Dir
	}
	files, err := filepath.Glob(filepath.Join(dir, "config", "crd", "experimental", "gateway.networking.k8s.io_*s.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("failed to find the CRDs in %s: %v", dir, err)
	}
	var crds []string
	for _, file := range files {
		if !strings.HasSuffix(file, "_vap_safeupgrades.yaml") {
			crds = append(crds, file)
		}
	}
	s.installing.Lock()
	defer s.installing.Unlock()
	if _, err := envtest.InstallCRDs(s.Admin, envtest.CRDInstallOptions{Paths: crds}); err != nil {
		t.Fatal(err)
	}
}
