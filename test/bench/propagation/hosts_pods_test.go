package propagation

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/keystream"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// keyServer is a gateway-key-server.
type keyServer struct {
	*testenv.Program
	// address is its HOST:PORT, and authority the file with its CA.
	address, authority string
}

var answering = regexp.MustCompile(`Answering pods at 127\.0\.0\.1:(\d+)`)

// startKeyServer starts one with its permissions.
func startKeyServer(b *testing.B) *keyServer {
	b.Helper()
	server.InstallGatewayAPI(b)
	for _, directory := range []string{"rbac/namespace.yaml", "key-server"} {
		server.Kubectl(b, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(b), "artifacts", directory))
	}
	account, err := server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(b.Context(), "gateway-key-server",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](36000)}}, metav1.CreateOptions{})
	must(b, err)
	s := &keyServer{authority: filepath.Join(b.TempDir(), "ca.crt")}
	s.Program = testenv.Start(b, nil, testbuild.Program(b, "cmd/gateway-key-server"), "-kubeconfig="+server.TokenKubeconfig(b, account.Status.Token),
		"-logtostderr", "-address=127.0.0.1:0", "-health-address=127.0.0.1:0", "-namespace=gateway-system", "-name=localhost")
	testenv.Eventually(b, soon, "the key server to listen", func(ctx context.Context) error {
		found := answering.FindStringSubmatch(s.Output())
		if found == nil {
			return errors.Join(errors.New("it does not"), s.Running())
		}
		s.address = "localhost:" + found[1]
		authority, err := server.Kube.CoreV1().ConfigMaps("gateway-system").Get(ctx, "gateway-key-server-ca", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return os.WriteFile(s.authority, []byte(authority.Data["ca.crt"]), 0o600)
	})
	return s
}

// keyToken returns the file with a pod's token for the key server.
func (h *hosts) keyToken(p *pod) string {
	made, err := server.Kube.CoreV1().ServiceAccounts(h.namespace).CreateToken(h.b.Context(), proxypod.ChildName(gatewayName),
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{keystream.Audience}, ExpirationSeconds: ptr.To[int64](36000),
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: strings.TrimPrefix(p.env[0], "POD_NAME=")},
		}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	file := filepath.Join(filepath.Dir(p.kubeconfig), "token")
	if err := os.WriteFile(file, []byte(made.Status.Token), 0o600); err != nil {
		panic(err)
	}
	return file
}

// startAll starts pods that start together, until all hosts answer at each.
func (h *hosts) startAll(b *testing.B, count int) {
	b.Helper()
	testenv.Eventually(b, soon, "the agents' permissions", func(ctx context.Context) error {
		_, err := server.Kube.RbacV1().RoleBindings(h.namespace).Get(ctx, proxypod.ChildName(gatewayName), metav1.GetOptions{})
		return err
	})
	for range count {
		h.newPod()
	}
	ready := inAll(h.pods, h.startPod)
	begin := time.Now()
	h.awaitAll(b, h.all)
	b.ReportMetric(ready[0].Seconds(), "s-until-first-ready")
	b.ReportMetric(ready[len(ready)-1].Seconds(), "s-until-all-ready")
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-all-hosts-answered")
	h.reportMemory(b)
	b.ReportMetric(0, "ns/op")
}

// startPod starts the programs of a pod as kubelet does, and returns when it is ready.
func (h *hosts) startPod(p *pod) {
	dir, err := os.MkdirTemp("/dev/shm", "keys") // volumes in memory
	if err != nil {
		panic(err)
	}
	h.b.Cleanup(func() { _ = os.RemoveAll(dir) })
	volume := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			panic(err)
		}
		return path
	}
	pairs, shown, authorities, socket := volume("pairs"), volume("shown"), volume("authorities"), filepath.Join(p.paths.RunDir, "keys.sock")
	p.keys = testenv.Start(h.b, nil, h.program(h.b, "./cmd/gateway-keys"), "-logtostderr",
		"-secrets-dir="+volume("secrets"), "-pairs-dir="+pairs, "-certificates-dir="+shown, "-haproxy-socket="+socket,
		"-key-server="+h.keys.address, "-key-server-ca="+h.keys.authority, "-key-server-token="+h.keyToken(p),
		"-logins-dir="+volume("logins"), "-authorities-dir="+authorities)
	p.agentArgs = []string{
		"-key-server", "-certificates-dir=" + shown, "-authorities-dir=" + authorities, "-haproxy-certificates-dir=" + pairs, "-keys-socket=" + socket,
	}
	h.startAgent(p)
	h.startHAProxy(p)
}

// get returns the certificate that a pod shows for a name, and an error unless a request for it is answered.
func (h *hosts) get(ctx context.Context, p *pod, name string) (*x509.Certificate, error) {
	connection, err := h.connect(ctx, p, name)
	if err != nil {
		return nil, err
	}
	defer connection.Close() //nolint:errcheck // it was used
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+name+"/", nil)
	if err == nil {
		err = request.Write(connection)
	}
	if err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return connection.ConnectionState().PeerCertificates[0], nil
}

// connect makes a connection with a full handshake.
func (h *hosts) connect(ctx context.Context, p *pod, name string) (*tls.Conn, error) {
	plain, err := p.network.dial(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", h.secure))
	if err != nil {
		return nil, err
	}
	connection := tls.Client(plain, &tls.Config{ServerName: name, RootCAs: h.roots, MinVersion: tls.VersionTLS13})
	err = errors.Join(connection.SetDeadline(time.Now().Add(soon)), connection.HandshakeContext(ctx))
	if err != nil {
		_ = plain.Close()
		return nil, err
	}
	return connection, nil
}

// await waits until all pods answer for a name, with a certificate.
func (h *hosts) await(b *testing.B, name string, leaf *x509.Certificate) {
	b.Helper()
	failed := make([]error, len(h.pods))
	var working sync.WaitGroup
	for i, p := range h.pods {
		working.Go(func() {
			for begin := time.Now(); time.Since(begin) < soon; time.Sleep(max(poll, time.Since(begin)/50)) {
				var shown *x509.Certificate
				if shown, failed[i] = h.get(b.Context(), p, name); failed[i] == nil && shown.Equal(leaf) {
					return
				}
			}
			failed[i] = errors.Join(failed[i], fmt.Errorf("pod %d does not answer for %s", i, name))
		})
	}
	working.Wait()
	must(b, errors.Join(failed...))
}

// awaitAll waits until all pods answer for hosts.
func (h *hosts) awaitAll(b *testing.B, all []*host) {
	b.Helper()
	atOnce(len(all), func(i int) { h.await(b, all[i].hostname(), all[i].pair.Leaf) })
}

// worker returns the process id of HAProxy's worker.
func worker(b *testing.B, haproxy *haproxytest.Instance) int {
	b.Helper()
	_, rest, _ := strings.Cut(haproxy.Worker("show info\n"), "\nPid: ")
	var pid int
	_, err := fmt.Sscan(rest, &pid)
	must(b, err)
	return pid
}

// anonymous returns the memory of a process that is in no file, in KiB.
func anonymous(b *testing.B, pid int) float64 {
	b.Helper()
	return statusOf(b, pid, "RssAnon:") * 1024
}

// reportMemory reports the memory of the first pod.
func (h *hosts) reportMemory(b *testing.B) {
	b.Helper()
	p := h.pods[0]
	b.ReportMetric(anonymous(b, worker(b, p.haproxy))/1024, "HAProxy-MiB")
	b.ReportMetric(anonymous(b, p.agent.PID())/1024, "agent-MiB")
	b.ReportMetric(anonymous(b, p.keys.PID())/1024, "keys-MiB")
}

// certificateList finds the crt-list in a configuration.
var certificateList = regexp.MustCompile(`ssl crt-list (\S+)`)

// bare is a HAProxy with a pod's crt-list, and nothing else.
type bare struct {
	*haproxytest.Instance
	took, cpu time.Duration
	memory    float64
}

func (h *hosts) startBare(b *testing.B) bare {
	b.Helper()
	config, err := os.ReadFile(filepath.Join(h.pods[0].paths.ConfigDir, ir.ConfigFile))
	must(b, err)
	list := certificateList.FindSubmatch(config)
	if list == nil {
		b.Fatalf("there is no crt-list in\n%s", config)
	}
	content, err := os.ReadFile(string(list[1]))
	must(b, err)
	paths := haproxytest.NewPaths(b)
	file := filepath.Join(filepath.Dir(paths.ConfigDir), "list")
	must(b, os.WriteFile(file, content, 0o600))
	text := fmt.Sprintf(`global
    nbthread 2
    stats socket %s/worker.sock mode 600 level admin
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    timeout client 1m
frontend hosts
    bind 127.0.0.1:%d ssl strict-sni crt-list %s
    http-request return status 200
`, paths.RunDir, haproxytest.FreePort(b), file)
	begin := time.Now()
	one := bare{Instance: haproxytest.Start(b, paths, map[string][]byte{ir.ConfigFile: []byte(text)})}
	one.took = time.Since(begin)
	pid := worker(b, one.Instance)
	one.cpu, one.memory = testenv.CPU(pid), anonymous(b, pid)
	return one
}

// socket is a WebSocket that stays open.
type socket struct{ *websocket.Conn }

// say sends a message, and returns an error unless it comes back.
func (s *socket) say(message string) error {
	_, err := s.Write([]byte(message))
	if err != nil {
		return err
	}
	answer := make([]byte, len(message))
	if _, err = s.Read(answer); err == nil && string(answer) != message {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

// openSockets opens WebSockets to all pods.
func (h *hosts) openSockets(count int) {
	for i := range count {
		p, one := h.pods[i%len(h.pods)], h.all[i%len(h.all)]
		config, err := websocket.NewConfig("wss://"+one.hostname()+"/", "https://"+one.hostname())
		must(h.b, err)
		connection, err := h.connect(h.b.Context(), p, one.hostname())
		must(h.b, err)
		must(h.b, connection.SetDeadline(time.Time{}))
		opened, err := websocket.NewClient(config, net.Conn(connection))
		must(h.b, err)
		h.b.Cleanup(func() { _ = opened.Close() })
		h.sockets = append(h.sockets, &socket{opened})
	}
}

// cut returns how many WebSockets do not send messages back.
func (h *hosts) cut() (count float64) {
	for i, one := range h.sockets {
		if err := errors.Join(one.SetDeadline(time.Now().Add(soon)), one.say(fmt.Sprint("message ", i))); err != nil {
			h.b.Logf("WebSocket %d: %v", i, err)
			count++
		}
	}
	return count
}

// loads is how often the agents have made HAProxy reload.
func (h *hosts) loads(b *testing.B) (count float64) {
	b.Helper()
	for _, p := range h.pods {
		metrics, err := testenv.Ask(b.Context(), p.health, "/metrics")
		must(b, err)
		count += metric(metrics, "gateway_agent_loads_total", `kind="reload"`)
	}
	return count
}
