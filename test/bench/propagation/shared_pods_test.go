package propagation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/test/internal/testenv"
)

// pod is a proxy pod: an agent, and a HAProxy that has a network of its own, as it has in a cluster. So each pod is
// asked by itself whether it runs an edit.
type pod struct {
	env        []string
	kubeconfig string
	health     string
	paths      ir.Paths
	network    *network
	client     *http.Client
	// keys runs, and agents have agentArgs, where there are certificates.
	keys      *testenv.Program
	agentArgs []string
	agent     *testenv.Program
	haproxy   *haproxytest.Instance
	ready     bool
}

func (s *shared) newPod() *pod {
	s.b.Helper()
	b := s.b
	known := server.NewPod(b, s.namespace, gatewayName, fmt.Sprintf("pod-%d", len(s.pods)))
	p := &pod{
		env: known.Env, kubeconfig: server.TokenKubeconfig(b, known.Token), paths: haproxytest.NewPaths(b),
		health: fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(b)), network: newNetwork(b, s.world),
	}
	p.client = &http.Client{Timeout: soon, Transport: &http.Transport{DialContext: p.network.dial}}
	s.pods = append(s.pods, p)
	return p
}

func (s *shared) startAgent(p *pod) {
	p.agent = testenv.Start(s.b, p.env, s.program(s.b, "./cmd/gateway-agent"), append([]string{
		"-gateway=" + gatewayName, "-logtostderr", "-kubeconfig=" + p.kubeconfig, "-config-dir=" + filepath.Dir(p.paths.ConfigDir),
		"-run-dir=" + p.paths.RunDir, "-health-address=" + p.health,
	}, p.agentArgs...)...)
}

// startHAProxy starts HAProxy once there is a configuration, and returns when the pod is ready.
func (s *shared) startHAProxy(p *pod) {
	testenv.Eventually(s.b, long, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(p.paths.ConfigDir, ir.ConfigFile))
		return errors.Join(err, p.agent.Running())
	})
	p.network.do(func() { p.haproxy = haproxytest.Start(s.b, p.paths, nil) })
	testenv.Eventually(s.b, long, "a pod is ready", func(ctx context.Context) error {
		_, err := testenv.Ask(ctx, p.health, "/readyz")
		return err
	})
	p.ready = true
}

// empty ends what runs in the pod, which then has nothing, as one that replaces it.
func (p *pod) empty(b *testing.B) {
	b.Helper()
	p.ready = false
	p.agent.Kill()
	p.haproxy.Stop()
	p.client.CloseIdleConnections()
	must(b, os.RemoveAll(filepath.Dir(p.paths.ConfigDir)))
	must(b, os.MkdirAll(p.paths.RunDir, 0o700))
}

// in returns the world as its requests to this pod see it.
func (p *pod) in(w *world) *world {
	at := *w
	at.client = p.client
	return &at
}

// load sends requests to all pods, in all as many as world.load to one.
func (s *shared) load(b *testing.B) (stop func() int) {
	b.Helper()
	var stops []func() int
	for _, p := range s.pods {
		stops = append(stops, p.in(s.world).load(b, loadEvery*time.Duration(len(s.pods))))
	}
	return func() (failed int) {
		for _, stop := range stops {
			failed += stop()
		}
		return failed
	}
}

// network is a network namespace, whose loopback interface has the address of the backends.
type network struct{ file *os.File }

// newNetwork makes one in which the backends listen, too.
func newNetwork(b *testing.B, w *world) *network {
	b.Helper()
	n := &network{}
	var err error
	testenv.InThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		n.file, err = os.Open("/proc/thread-self/ns/net")
	})
	must(b, err)
	b.Cleanup(func() { _ = n.file.Close() })
	n.do(func() {
		for _, arguments := range [][]string{{"link", "set", "lo", "up"}, {"address", "add", w.address + "/32", "dev", "lo"}} {
			output, failure := exec.Command("ip", arguments...).CombinedOutput()
			if failure != nil {
				err = errors.Join(err, fmt.Errorf("ip %v: %w: %s", arguments, failure, output))
			}
		}
		for i := range answers {
			listener, failure := net.Listen("tcp", fmt.Sprintf("%s:%d", w.address, w.ports[i]))
			if err = errors.Join(err, failure); failure == nil {
				serve(b, listener, answers[i])
			}
		}
	})
	must(b, err)
	return n
}

// dial connects within the network.
func (n *network) dial(ctx context.Context, kind, address string) (connection net.Conn, err error) {
	n.do(func() { connection, err = (&net.Dialer{}).DialContext(ctx, kind, address) })
	return connection, err
}

// do runs a function, and the programs that it starts, within the network.
func (n *network) do(f func()) { testenv.InNetwork(n.file, f) }

// inAll calls a function for each pod, at once, and returns how long each call took, the shortest first.
func inAll(pods []*pod, do func(p *pod)) []time.Duration {
	took := make([]time.Duration, len(pods))
	var working sync.WaitGroup
	for i, p := range pods {
		working.Go(func() {
			begin := time.Now()
			do(p)
			took[i] = time.Since(begin)
		})
	}
	working.Wait()
	slices.Sort(took)
	return took
}
