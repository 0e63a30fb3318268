package operator

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// TestCannotStart: the operator reports in one line why it cannot work, with the remedy; the exit code is 1.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	ensureNamespace(t, "startup")
	must.Get(server.Kube.CoreV1().ServiceAccounts("startup").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{}))(t)
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	broken := filepath.Join(t.TempDir(), "broken")
	must.Do(t, os.WriteFile(broken, []byte("no kubeconfig\n"), 0o600))
	for _, c := range []struct {
		why       string
		env       []string
		arguments []string
		want      []string
	}{
		{"a kubeconfig that does not exist", nil, []string{"-kubeconfig=" + nowhere},
			[]string{"the kubeconfig file " + nowhere + " does not exist", "with -kubeconfig"}},
		{"a $KUBECONFIG that does not exist", []string{"KUBECONFIG=" + nowhere}, nil, []string{"$KUBECONFIG is " + nowhere}},
		{"a kubeconfig that is none", nil, []string{"-kubeconfig=" + broken}, []string{"the kubeconfig cannot be used"}},
		{"no kubeconfig and no pod", []string{"KUBECONFIG=", "HOME=" + nowhere}, nil,
			[]string{"there is no cluster to work on: pass -kubeconfig"}},
		{"a user the server does not know", nil, []string{"-kubeconfig=" + server.TokenKubeconfig(t, "no-token")},
			[]string{"does not know who is asking", "check the credentials"}},
		{"a user who may do nothing", nil, []string{"-kubeconfig=" + tokenKubeconfig(t, "startup", "nobody")},
			[]string{"missing permissions: list/watch gateways.app.example.com in all namespaces", "apply artifacts/rbac"}},
		{"an address that is in use", nil, []string{"-kubeconfig=" + server.Kubeconfig, "-health-address=" +
			apiServer()}, []string{"address already in use", "-health-address"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			expectCannotStart(t, c.env, c.arguments, c.want...)
		})
	}
}

// TestAbsentServer: an operator that starts before the API server says so in one line, where whoever started it sees
// it, and waits.
func TestAbsentServer(t *testing.T) {
	t.Parallel()
	o := testenv.Start(t, nil, testbuild.Program(t, "."), "-kubeconfig="+server.Kubeconfig, "-master=https://127.0.0.1:1", "-health-address=127.0.0.1:0")
	testenv.Eventually(t, soon, "it says that there is no server", func(context.Context) error {
		for _, want := range []string{"cannot reach the API server at https://127.0.0.1:1", "connection refused", "check that it runs"} {
			if !strings.Contains(o.Output(), want) {
				return errors.Join(errors.New("it printed "+o.Output()), o.Running())
			}
		}
		return nil
	})
	o.Signal(t, syscall.SIGTERM)
	if code := o.Exit(t, soon); code != 0 || strings.Count(o.Output(), "\n") != 1 {
		t.Errorf("the exit code is %d, want 0; it printed\n%s", code, o.Output())
	}
}

// TestNoCRD is not parallel to the other tests: it takes the CRD away from the server, and installs it again.
func TestNoCRD(t *testing.T) {
	crd := filepath.Join(testbuild.MustRoot(t), "artifacts", "crd")
	server.DeleteCRDs(t, "-f", crd)
	gone := func(ctx context.Context) error {
		_, err := server.App.AppV1().Gateways("default").List(ctx, metav1.ListOptions{})
		if err == nil || !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the server still knows Gateways"), err)
		}
		return nil
	}
	testenv.Eventually(t, soon, "the CRD is gone", gone)
	expectCannotStart(t, nil, []string{"-kubeconfig=" + server.Kubeconfig}, "does not know BackendPolicies, GatewayAttachments, GatewayConfigs, GatewayProxies, Gateways, RouteFilters: install the CRDs")
	server.Kubectl(t, "apply", "--server-side", "-f", crd)
	server.Kubectl(t, "wait", "--for=condition=Established", "-f", crd)
	testenv.Eventually(t, soon, "the CRD is back", func(ctx context.Context) error {
		_, err := server.App.AppV1().Gateways("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

func expectCannotStart(t *testing.T, env, arguments []string, want ...string) {
	t.Helper()
	code, stdout, stderr := runOperator(t, env, append([]string{"-health-address=127.0.0.1:0"}, arguments...)...)
	if code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	if stdout != "" || !strings.HasPrefix(stderr, "gateway: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("it printed, in stdout and stderr,\n%s---\n%s\nwant one line in stderr that begins with the program's name", stdout, stderr)
	}
	for _, w := range want {
		if !strings.Contains(stderr, w) {
			t.Errorf("it printed\n%s\nwhich lacks %q", stderr, w)
		}
	}
}

// runOperator runs the operator until it ends by itself.
func runOperator(t *testing.T, env []string, arguments ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, testbuild.Program(t, "."), arguments...)
	command.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runOperator(t, nil, "-help")
	if code != 0 || stderr != "" {
		t.Errorf("-help ends with code %d and prints as errors %q", code, stderr)
	}
	for _, want := range []string{"gateway is the operator of Gateways", "gateway -kubeconfig=$HOME/.kube/config -alsologtostderr",
		"-kubeconfig file\n", "-master URL\n", "-agent-image", "-haproxy-image", "-leader-elect", "-alsologtostderr", "-v "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("-help lacks %q:\n%s", want, stdout)
		}
	}
	for _, arguments := range [][]string{{"-no-such-flag"}, {"argument"}, {"-workers=many"}} {
		code, stdout, stderr := runOperator(t, nil, arguments...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "see gateway -help") {
			t.Errorf("%v ends with code %d and prints %q, %q", arguments, code, stdout, stderr)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	o := startOperator(t, "health")
	for _, path := range []string{"/healthz", "/readyz"} {
		testenv.Eventually(t, soon, path, func(context.Context) error {
			if status, body := get(t, o, path); status != http.StatusOK {
				return errors.New(body)
			}
			return nil
		})
	}
	testenv.Eventually(t, soon, "it leads", o.leads)
	_, body := get(t, o, "/metrics")
	for _, want := range []string{`workqueue_adds_total{name="Gateways"}`, "rest_client_requests_total{",
		`leader_election_master_status{name="health"} 1`, "gateway_sync_duration_seconds_count", "go_goroutines"} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	if status, _ := get(t, o, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("/debug/pprof/ answers %d without -profiling, want 404", status)
	}
}
