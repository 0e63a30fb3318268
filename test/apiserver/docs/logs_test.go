package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// TestJSONLogs: with -log-format=json, programs print nothing but JSON, and the operator starts others so.
func TestJSONLogs(t *testing.T) {
	t.Parallel()
	server.InstallGatewayAPI(t)
	const namespace, soon = "json", 20 * time.Second
	makeNamespace(t, namespace)
	must.Get(server.App.AppV1().Gateways(namespace).Create(t.Context(), &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appv1.GatewaySpec{
		Listeners: []appv1.Listener{{Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS,
			TLS: &appv1.ListenerTLS{CertificateRefs: []appv1.ObjectReference{{Name: "web"}}}}},
	}}, metav1.CreateOptions{}))(t)
	secrets, paths, cluster := certtest.NewVolume(t), haproxytest.NewPaths(t), "-kubeconfig="+server.Kubeconfig
	for _, program := range []struct {
		pkg, says string
		args      []string
	}{
		{".", "Synced Gateway json/web", []string{cluster, "-namespace=" + namespace, "-leader-elect-namespace=" + namespace, "-health-address=127.0.0.1:0"}},
		{"./cmd/gateway-agent", "Caches populated", []string{cluster, "-gateway=web", "-health-address=127.0.0.1:0",
			"-config-dir=" + t.TempDir(), "-run-dir=" + paths.RunDir}},
		{"./cmd/gateway-key-server", "Answering pods", []string{cluster, "-address=127.0.0.1:0", "-health-address=127.0.0.1:0"}},
		{"./cmd/gateway-keys", "Passing on", []string{"-secrets-dir=" + secrets.Dir, "-pairs-dir=" + t.TempDir(),
			"-certificates-dir=" + t.TempDir(), "-haproxy-socket=" + paths.RunDir + "/none.sock"}},
	} {
		p := testenv.Start(t, []string{"POD_NAME=web", "POD_NAMESPACE=" + namespace, "POD_UID=1"}, testbuild.Program(t, program.pkg),
			append(program.args, "-log-format=json", "-v=4")...)
		testenv.Eventually(t, soon, program.pkg+" says "+program.says, func(context.Context) error {
			if !strings.Contains(p.Output(), program.says) {
				return errors.Join(errors.New("it does not"), p.Running())
			}
			return nil
		})
		p.Signal(t, syscall.SIGTERM)
		if code := p.Exit(t, soon); code != 0 {
			t.Errorf("%s ends with %d", program.pkg, code)
		}
		expectJSON(t, p.Output())
	}
	deployment := must.Get(server.Kube.AppsV1().Deployments(namespace).Get(t.Context(), proxypod.ChildName("web"), metav1.GetOptions{}))(t)
	for _, container := range deployment.Spec.Template.Spec.InitContainers {
		if !slices.Contains(container.Args, "-log-format=json") {
			t.Errorf("the operator starts %s with %q", container.Name, container.Args)
		}
	}
	p := testenv.Start(t, nil, testbuild.Program(t, "."), "-log-format=json", cluster, "-workers=0")
	if code := p.Exit(t, soon); code != 2 || !strings.Contains(p.Output(), "it has to be at least 1: see gateway -help") {
		t.Errorf("exit code %d after a wrong flag, and %s", code, p.Output())
	}
	expectJSON(t, p.Output())
}

// expectJSON expects lines of JSON that have a time, a level, a message and where it was logged.
func expectJSON(t *testing.T, output string) {
	t.Helper()
	for line := range strings.Lines(output) {
		var record struct{ Time, Level, Source, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" || record.Source == "" || record.Msg == "" {
			t.Error(fmt.Errorf("%s: %w", line, err))
		}
	}
}
