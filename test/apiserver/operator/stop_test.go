package operator

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// TestStop: the first SIGTERM ends the operator in order, and the next one takes over at once.
func TestStop(t *testing.T) {
	t.Parallel()
	const namespace = "stop"
	first := startOperator(t, namespace)
	testenv.Eventually(t, soon, "the first leads", first.leads)
	second := startOperator(t, namespace)
	testenv.Eventually(t, soon, "the second is ready to take over", func(context.Context) error {
		if status, body := get(t, second, "/readyz"); status != 200 {
			return errors.New(body)
		}
		return nil
	})
	if second.leads(t.Context()) == nil {
		t.Fatal("two operators work at the same time")
	}

	first.Signal(t, syscall.SIGTERM)
	if code := first.Exit(t, soon); code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	lease := must.Get(server.Kube.CoordinationV1().Leases(operatorNamespace).Get(t.Context(), namespace, metav1.GetOptions{}))(t)
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && !strings.Contains(second.Output(), leading) {
		t.Errorf("after the stop, %q still holds the lease", *holder)
	}
	testenv.Eventually(t, soon, "the second leads", second.leads)
	createGateway(t, namespace, "after", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	getChild(t, namespace, "after", "Deployment")
}

// TestKilledLeader: when the leader is gone without a word, another one takes over after the lease has run out.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	const namespace = "killed"
	first := startOperator(t, namespace)
	testenv.Eventually(t, soon, "the first leads", first.leads)
	second := startOperator(t, namespace)
	killed := time.Now()
	first.Kill()
	createGateway(t, namespace, "waiting", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	// The lease lasts 15 s, and every 2 s the second one looks at it.
	testenv.Eventually(t, 30*time.Second, "the second leads", second.leads)
	t.Logf("killed; the next one worked %v later", time.Since(killed).Round(time.Millisecond))
	getChild(t, namespace, "waiting", "Deployment")
}

// TestSecondSignal: an operator that cannot stop in order, because the API server does not answer, stops at the second
// signal.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	proxy, kubeconfig := startProxy(t)
	o := startOperator(t, "signals", "-kubeconfig="+kubeconfig)
	testenv.Eventually(t, soon, "it leads", o.leads)
	proxy.Freeze()
	o.Signal(t, syscall.SIGTERM)
	testenv.Eventually(t, soon, "the first signal is seen", func(context.Context) error {
		if !strings.Contains(o.Output(), "Stopping") {
			return errors.New("it has not logged that it stops")
		}
		return nil
	})
	if err := o.Running(); err != nil {
		t.Fatalf("it ended before the second signal, so this proves nothing: %v", err)
	}
	o.Signal(t, syscall.SIGINT)
	if code := o.Exit(t, 2*time.Second); code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
}

// TestLostLease: an operator that cannot renew its lease ends, and another one takes over.
func TestLostLease(t *testing.T) {
	t.Parallel()
	proxy, kubeconfig := startProxy(t)
	o := startOperator(t, "lost", "-kubeconfig="+kubeconfig)
	testenv.Eventually(t, soon, "it leads", o.leads)
	another := startOperator(t, "lost")
	proxy.Freeze()
	frozen := time.Now()
	if code := o.Exit(t, 2*soon); code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	if !strings.Contains(o.Output(), "gateway: lost the lease") {
		t.Error("it does not say that it lost the lease")
	}
	ended := time.Since(frozen)
	testenv.Eventually(t, 2*soon, "another one leads", another.leads)
	t.Logf("cut off; it ended %v later, another one led after %v", ended.Round(time.Millisecond), time.Since(frozen).Round(time.Millisecond))
	createGateway(t, "lost", "after", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	getChild(t, "lost", "after", "Deployment")
}

// startProxy starts a proxy that can be frozen, and returns a kubeconfig by which an operator uses it.
func startProxy(t *testing.T) (*faultproxy.Proxy, string) {
	t.Helper()
	ensureNamespace(t, operatorNamespace)
	operatorKubeconfig(t) // its permissions
	proxy := faultproxy.Start(t, server.Admin)
	return proxy, testenv.WriteKubeconfig(t, proxy.URL, proxy.Authority, token(t, operatorNamespace, operatorName))
}
