package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testbuild"
)

// MakeRelease makes the files of a release that hack/release writes, with one archive of the plugin, and returns their
// directory.
func MakeRelease(t testing.TB, version string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "kubectl-gateway-"+version+"-linux-amd64.tar.gz"), []byte("archive"), 0o600))
	Run(t, testbuild.MustRoot(t), nil, "go", "run", "-trimpath", "./hack/release", "-version", version,
		"-image", "registry.example.com/gateway", "-url", "https://example.com/releases", "-o", dir)
	return dir
}

// HelmCommand is Helm on a cluster. Go builds it once, and keeps it in its cache.
func HelmCommand(t testing.TB, kubeconfig string, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile=hack/helm/go.mod", "helm"}, args...)...)
	command.Dir = testbuild.MustRoot(t)
	command.Env = append(os.Environ(), "GOWORK=off",
		"KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	return command
}

// Helm returns what Helm prints.
func Helm(t testing.TB, kubeconfig string, args ...string) string {
	t.Helper()
	command := HelmCommand(t, kubeconfig, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}
