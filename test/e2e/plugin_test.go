package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
)

// TestPlugin runs the kubectl plugin where there is all that it asks. It comes before the tests that are parallel: to
// link the plugin would keep the machine busy beside them.
func TestPlugin(t *testing.T) { //nolint:tparallel // see above
	bin := plugintest.Build(t, testbuild.MustRoot(t))
	for name, test := range map[string]func(t *testing.T, bin string){
		"transcripts": testTranscripts, "commands of pages": testCommands, "proxy pods": testProxyPods,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bin)
		})
	}
}

// testProxyPods is about what proxy-config and logs say of pods that really run.
func testProxyPods(t *testing.T, bin string) {
	t.Helper()
	plugin := filepath.Join(bin, "kubectl-gateway")
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	create(t, namespace, newGateway(route("shop", rule("/shop", backend("v1", 1)))))
	traffic := newClient(t, namespace)
	traffic.waitAnswer(t, host, "/shop", http.StatusOK, "v1")
	traffic.waitAnswer(t, host, "/missing", http.StatusNotFound, "")

	pod := proxyPods(t, namespace)[0].Name
	t.Run("proxy-config", func(t *testing.T) {
		answers := askPods(t, plugin, 0, namespace)
		if got := answers[0]; len(answers) != 1 || got.Pod != pod || got.Live.Generation() != 1 || got.HAProxy == nil || len(got.HAProxy.Servers) != 1 || got.HAProxy.Requests < 2 {
			t.Errorf("got %+v", answers)
		}
	})
	t.Run("a pod that cannot be asked hides no other", func(t *testing.T) {
		newPendingProxy(t, namespace)
		for _, got := range askPods(t, plugin, 3, namespace) {
			if (got.Pod == pod) != (got.Error == "") {
				t.Errorf("got %+v", got)
			}
		}
		must.Do(t, kube.CoreV1().Pods(namespace).Delete(t.Context(), "pending", metav1.DeleteOptions{}))
	})
	t.Run("logs", func(t *testing.T) {
		eventually(t, "the log has the request", func(context.Context) error {
			out, _, err := runPlugin(t, plugin, "logs", gatewayName, "-n", namespace, "--status", "4xx", "--host", host)
			if err == nil && (!strings.Contains(out, "GET "+host+"/missing") || strings.Contains(out, "/shop")) {
				err = errors.New(out)
			}
			return err
		})
	})
	t.Run("logs of pods that come", func(t *testing.T) { followLogs(t, plugin, namespace, pod, traffic) })
}

// followLogs waits until a request to a pod that came after the command shows.
func followLogs(t *testing.T, plugin, namespace, before string, traffic *client) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var out lockedBuffer
	command := exec.CommandContext(ctx, plugin, "logs", gatewayName, "-n", namespace, "-f", "--tail", "0", "--route", "shop", "-o", "json")
	command.Stdout = &out
	must.Do(t, command.Start())
	defer func() {
		stop()
		_ = command.Wait() // it was killed
	}()
	must.Get(gateways.AppV1().Gateways(namespace).Patch(ctx, gatewayName, types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}))(t)
	eventually(t, "a request to the new pod is in the log", func(ctx context.Context) error {
		traffic.http.CloseIdleConnections() // the next one may go to the other pod
		if _, err := traffic.get(ctx, host, "/shop"); err != nil {
			return err
		}
		for line := range strings.Lines(out.String()) {
			var request struct{ Pod, Path, Route string }
			if err := json.Unmarshal([]byte(line), &request); err != nil {
				return err
			}
			if request.Pod != before && request.Path == "/shop" && request.Route == "shop" {
				return nil
			}
		}
		return fmt.Errorf("got %q", out.String())
	})
}

// lockedBuffer is what a program has printed so far.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns whole lines.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()[:strings.LastIndex(b.text.String(), "\n")+1]
}

// runPlugin returns what the plugin printed, and its exit code.
func runPlugin(t *testing.T, plugin string, arguments ...string) (out string, code int, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), plugin, arguments...)
	var problems bytes.Buffer
	command.Stderr = &problems
	content, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", arguments, err, problems.String())
	}
	return string(content), command.ProcessState.ExitCode(), err
}

type podAnswer struct {
	Pod, Error string
	proxyconfig.Config
}

// askPods returns what proxy-config says of all pods of the Gateway, and expects an exit code.
func askPods(t *testing.T, plugin string, code int, namespace string) []podAnswer {
	t.Helper()
	out, got, err := runPlugin(t, plugin, "proxy-config", gatewayName, "-n", namespace, "-o", "json")
	if got != code {
		t.Fatalf("exit code %d, want %d: %v", got, code, err)
	}
	var answers []podAnswer
	must.Do(t, json.Unmarshal([]byte(out), &answers))
	return answers
}

// newPendingProxy makes a pod that passes for one of the Gateway's and runs on no node.
func newPendingProxy(t *testing.T, namespace string) {
	t.Helper()
	spec := echoPod("none", "none")
	spec.NodeSelector = map[string]string{"no-such": "node"}
	spec.TerminationGracePeriodSeconds = ptr.To(int64(0))
	selector := must.Get(metav1.ParseToLabelSelector(proxypod.PodSelector(gatewayName).String()))(t)
	must.Get(kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pending", Labels: selector.MatchLabels}, Spec: spec,
	}, metav1.CreateOptions{}))(t)
}
