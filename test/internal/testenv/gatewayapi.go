package testenv

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/mcs-api/config/crd"

	"gateway/internal/must"
)

var gatewayAPI = flag.String("gateway-api", "", "the version of the Gateway API's CRDs, such as v1.6.3; that of go.mod if empty")

// IsOldGatewayAPI reports whether the CRDs are of another version than go.mod names, and so lack new kinds.
func IsOldGatewayAPI() bool { return *gatewayAPI != "" }

// InstallGatewayAPI installs the CRDs of the Gateway API, of the experimental channel, which has all fields: of the
// kinds that it has alone, those that are looked after.
func (s *Server) InstallGatewayAPI(t testing.TB) {
	t.Helper()
	dir := strings.TrimSpace(Run(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"))
	if *gatewayAPI != "" {
		var module struct{ Dir string }
		output := Run(t, t.TempDir(), nil, "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api@"+*gatewayAPI)
		must.Do(t, json.Unmarshal([]byte(output), &module))
		dir = module.Dir
	}
	var files []string
	for _, name := range []string{"gateway.networking.k8s.io_*s.yaml", "gateway.networking.x-k8s.io_xtelemetrypolicies.yaml"} {
		some := must.Get(filepath.Glob(filepath.Join(dir, "config", "crd", "experimental", name)))(t)
		files = append(files, some...)
	}
	if len(files) == 0 {
		t.Fatalf("there are no CRDs in %s", dir)
	}
	var crds []string
	for _, file := range files {
		if !strings.HasSuffix(file, "_vap_safeupgrades.yaml") {
			crds = append(crds, file)
		}
	}
	s.installing.Lock()
	defer s.installing.Unlock()
	must.Get(envtest.InstallCRDs(s.Admin, envtest.CRDInstallOptions{Paths: crds, MaxTime: crdTime}))(t)
}

// InstallImports installs the CRD of ServiceImports, of the Multi-Cluster Services API.
func (s *Server) InstallImports(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "serviceimports.yaml")
	must.Do(t, os.WriteFile(file, crd.ServiceImportCRD, 0o600))
	s.installing.Lock()
	defer s.installing.Unlock()
	must.Get(envtest.InstallCRDs(s.Admin, envtest.CRDInstallOptions{Paths: []string{file}, MaxTime: crdTime}))(t)
}
