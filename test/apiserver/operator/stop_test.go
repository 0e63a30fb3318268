package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	stopped := time.Now()
	first.Signal(t, syscall.SIGTERM)
	if code := first.Exit(t, soon); code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	if took := time.Since(stopped); took > 2*time.Second {
		t.Errorf("it took %v to stop", took)
	}
	lease, err := server.Kube.CoordinationV1().Leases(operatorNamespace).Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && !strings.Contains(second.Output(), leading) {
		t.Errorf("after the stop, %q still holds the lease", *holder)
	}
	testenv.Eventually(t, soon, "the second leads", second.leads)
	t.Logf("stopped in order; the next one worked %v later", time.Since(stopped).Round(time.Millisecond))
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
	proxy := startProxy(t, apiServer())
	o := startOperator(t, "signals", "-master=https://"+proxy.address)
	testenv.Eventually(t, soon, "it leads", o.leads)
	proxy.freeze()
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

// TestLostLease: an operator that cannot renew its lease ends, because another one may be at work.
func TestLostLease(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, apiServer())
	o := startOperator(t, "lost", "-master=https://"+proxy.address)
	testenv.Eventually(t, soon, "it leads", o.leads)
	proxy.freeze()
	if code := o.Exit(t, 30*time.Second); code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	if !strings.Contains(o.Output(), "gateway: lost the lease") {
		t.Error("it does not say that it lost the lease")
	}
}

// freezer passes connections on to an address until it is frozen; then nothing goes through, and nothing is closed.
type freezer struct {
	address string
	mu      sync.Mutex
	frozen  bool
	thawed  chan struct{}
}

func startProxy(t *testing.T, target string) *freezer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{address: listener.Addr().String(), thawed: make(chan struct{})}
	t.Cleanup(func() {
		_ = listener.Close()
		close(f.thawed)
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			upstream, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go f.copy(upstream, client)
			go f.copy(client, upstream)
		}
	}()
	return f
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

// copy passes on what it reads until either end is closed.
func (f *freezer) copy(to, from net.Conn) {
	_, _ = io.Copy(gate{to, f}, from) // there is nobody to tell; the other side sees the end
	_ = to.Close()
	_ = from.Close()
}

// gate is a connection whose writes wait while f is frozen.
type gate struct {
	net.Conn
	f *freezer
}

func (g gate) Write(b []byte) (int, error) {
	g.f.mu.Lock()
	frozen := g.f.frozen
	g.f.mu.Unlock()
	if frozen {
		<-g.f.thawed
		return 0, fmt.Errorf("the test is over")
	}
	return g.Conn.Write(b)
}
