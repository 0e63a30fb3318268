package codegen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/test/internal/testenv"
)

// TestVendor: a module of somebody else's vendors the clients, and with them nothing that only the operator needs, and
// its program lists and watches Gateways.
func TestVendor(t *testing.T) {
	module := newModule(t)
	testenv.Run(t, module, offline, "go", "mod", "vendor")
	for name, wanted := range map[string]bool{
		"gateway/generated/app/clientset/versioned": true,
		"gateway/internal":                          false,
		"gateway/test":                              false,
		"github.com/golang/glog":                    false,
		"k8s.io/component-base":                     false,
		"sigs.k8s.io/controller-runtime":            false,
	} {
		if _, err := os.Stat(filepath.Join(module, "vendor", name)); (err == nil) != wanted {
			t.Errorf("%s is vendored: %v, want %v", name, err == nil, wanted)
		}
	}
	program := filepath.Join(module, "consumer")
	testenv.Run(t, module, append(offline, "GOFLAGS=-mod=vendor -buildvcs=false -trimpath"), "go", "build", "-o", program, ".")

	gateways := server.App.AppV1().Gateways("default")
	if _, err := gateways.Create(t.Context(), &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "vendored"},
		Spec:       appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	consumer := testenv.Start(t, nil, program, server.Kubeconfig)
	expectLines(t, consumer, "listed vendored", "added vendored", "cached vendored")
	if _, err := gateways.Patch(t.Context(), "vendored", types.MergePatchType, []byte(`{"spec": {"replicas": 7}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expectLines(t, consumer, "updated vendored to 7")
	if err := gateways.Delete(t.Context(), "vendored", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectLines(t, consumer, "deleted vendored")
}

// newModule makes a module that requires the project, and what it requires, as go get would write it.
func newModule(t *testing.T) string {
	t.Helper()
	root, module := testenv.MustRoot(t), t.TempDir()
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(gomod), "module example.com/consumer")
	text += fmt.Sprintf("\nrequire gateway v0.0.0\n\nreplace gateway => %s\n", root)
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(module, "go.sum"))
	copyFile(t, "testdata/consumer/main.go", filepath.Join(module, "main.go"))
	return module
}

func expectLines(t *testing.T, program *testenv.Program, want ...string) {
	t.Helper()
	testenv.Eventually(t, 20*time.Second, strings.Join(want, ", "), func(context.Context) error {
		lines := strings.Split(program.Output(), "\n")
		errs := []error{}
		for _, w := range want {
			found := false
			for _, line := range lines {
				found = found || line == w
			}
			if !found {
				errs = append(errs, fmt.Errorf("it has not printed %q", w))
			}
		}
		if len(errs) > 0 {
			errs = append(errs, program.Running())
		}
		return errors.Join(errs...)
	})
}
