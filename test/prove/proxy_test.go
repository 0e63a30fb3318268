package prove

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/keystream"
	"gateway/internal/proxypod"
	"gateway/test/internal/testenv"
)

// proxy is the only pod of a Gateway. Its HAProxy has a network of its own, at an address that the load balancer of the
// Gateway has, too.
type proxy struct {
	t       *testing.T
	pod     string
	address string
	health  string
	haproxy *haproxytest.Instance
	agent   *testenv.Program
	// loads is how often HAProxy had reloaded when it was counted last.
	loads float64
}

// startProxy starts the programs of a pod as kubelet does, and is the cloud that has a load balancer.
func (s *site) startProxy(namespace, gateway string) *proxy {
	s.t.Helper()
	return s.startPod(namespace, gateway, gateway+"-pod")
}

func (s *site) startPod(namespace, gateway, name string) *proxy {
	t := s.t
	t.Helper()
	child := proxypod.ChildName(gateway)
	testenv.Eventually(t, soon, "the agents' permissions and the Service", func(ctx context.Context) error {
		_, err := server.Kube.RbacV1().RoleBindings(namespace).Get(ctx, child, metav1.GetOptions{})
		_, missing := server.Kube.CoreV1().Services(namespace).Get(ctx, child, metav1.GetOptions{})
		return errors.Join(err, missing)
	})
	s.proxies++
	p := &proxy{t: t, pod: name, address: fmt.Sprintf("198.51.100.%d", 10+s.proxies), health: fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t))}
	network := newNetwork(t, s.proxies, p.address)
	pod, paths := server.NewPod(t, namespace, gateway, name), haproxytest.NewPaths(t)
	keys := s.startKeys(namespace, child, name, paths)
	p.agent = testenv.Start(t, pod.Env, s.program("./cmd/gateway-agent"), append([]string{
		"-gateway=" + gateway, "-logtostderr", "-kubeconfig=" + server.TokenKubeconfig(t, pod.Token),
		"-config-dir=" + filepath.Dir(paths.ConfigDir), "-run-dir=" + paths.RunDir, "-health-address=" + p.health, "-key-server",
	}, keys...)...)
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, ir.ConfigFile))
		return errors.Join(err, p.agent.Running())
	})
	inNetwork(t, network, func() { p.haproxy = haproxytest.Start(t, paths, nil) })
	_, err := server.Kube.CoreV1().Services(namespace).Patch(t.Context(), child, types.MergePatchType,
		fmt.Appendf(nil, `{"status": {"loadBalancer": {"ingress": [{"ip": %q}]}}}`, p.address), metav1.PatchOptions{}, "status")
	must(t, err)
	testenv.Eventually(t, soon, "the pod to be ready", func(context.Context) error {
		_, err := p.ask("/readyz")
		return err
	})
	return p
}

// startKeys starts gateway-keys, and returns what the agent has to know of it.
func (s *site) startKeys(namespace, account, pod string, paths ir.Paths) []string {
	t := s.t
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "keys") // volumes in memory
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	volume := func(name string) string {
		path := filepath.Join(dir, name)
		must(t, os.Mkdir(path, 0o700))
		return path
	}
	made, err := server.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{keystream.Audience}, ExpirationSeconds: ptr.To[int64](36000),
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod},
		}}, metav1.CreateOptions{})
	must(t, err)
	token := filepath.Join(dir, "token")
	must(t, os.WriteFile(token, []byte(made.Status.Token), 0o600))
	pairs, shown, authorities := volume("pairs"), volume("shown"), volume("authorities")
	socket, users := filepath.Join(paths.RunDir, "keys.sock"), "-users-socket="+filepath.Join(paths.RunDir, "users.sock")
	testenv.Start(t, nil, s.program("./cmd/gateway-keys"), "-logtostderr",
		"-secrets-dir="+volume("secrets"), "-pairs-dir="+pairs, "-certificates-dir="+shown, "-haproxy-socket="+socket,
		"-key-server="+s.keyServer, "-key-server-ca="+s.authority, "-key-server-token="+token,
		"-logins-dir="+volume("logins"), "-authorities-dir="+authorities, users)
	return []string{"-certificates-dir=" + shown, "-authorities-dir=" + authorities, "-haproxy-certificates-dir=" + pairs, "-keys-socket=" + socket, users}
}

// newNetwork makes a network namespace with an address, and returns its name.
func newNetwork(t *testing.T, number int, address string) string {
	t.Helper()
	name, near := fmt.Sprintf("prove-%d-%d", os.Getpid(), number), fmt.Sprintf("prove%d", number)
	ip := func(words string) { testenv.Run(t, ".", nil, "ip", strings.Fields(words)...) }
	ip("netns add " + name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	ip("link add " + near + " type veth peer name eth0 netns " + name)
	ip("address add 198.51.100.1 peer " + address + " dev " + near)
	ip("link set " + near + " up")
	ip("-n " + name + " link set lo up")
	ip("-n " + name + " address add " + address + " peer 198.51.100.1 dev eth0")
	ip("-n " + name + " link set eth0 up")
	ip("-n " + name + " route add default via 198.51.100.1")
	return name
}

// inNetwork is testenv.InNetwork for a network that has a name.
func inNetwork(t *testing.T, name string, f func()) {
	t.Helper()
	file, err := os.Open(filepath.Join("/run/netns", name))
	must(t, err)
	defer file.Close() //nolint:errcheck // it is read only
	testenv.InNetwork(file, f)
}

// worker is the process id of HAProxy's worker.
func (p *proxy) worker() (pid int) {
	p.t.Helper()
	_, rest, _ := strings.Cut(p.haproxy.Worker("show info\n"), "\nPid: ")
	_, err := fmt.Sscan(rest, &pid)
	must(p.t, err)
	return pid
}

// ask asks the agent.
func (p *proxy) ask(path string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	return testenv.Ask(ctx, p.health, path)
}

// reloads is how often HAProxy has reloaded since the last call.
func (p *proxy) reloads() float64 {
	p.t.Helper()
	text, err := p.ask("/metrics")
	must(p.t, err)
	before := p.loads
	p.loads = 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "gateway_agent_loads_total{") && strings.Contains(line, `kind="reload"`) {
			var value float64
			_, err := fmt.Sscan(line[strings.LastIndex(line, "}")+1:], &value)
			must(p.t, err)
			p.loads += value
		}
	}
	return p.loads - before
}

// handshake returns the certificate that HAProxy shows for a host, and an error unless roots verify it.
func (p *proxy) handshake(ctx context.Context, host string, roots *x509.CertPool) (*x509.Certificate, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.address, "443"))
	if err != nil {
		return nil, err
	}
	defer connection.Close() //nolint:errcheck // it was used
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// get returns the status of a request by HTTP. It follows no redirect.
func (p *proxy) get(ctx context.Context, host, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return 0, err
	}
	request.Host = host
	response, err := fresh.Transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// fresh sends each request on a connection of its own: one that was idle during a reload gets one more answer by the
// configuration before.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: soon}

// version is the version of the backend that answers a request by HTTP.
func (p *proxy) version(ctx context.Context, path string, header bool) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return "", err
	}
	request.Host = "api.example.com"
	if header {
		request.Header.Set("X-Canary", "yes")
	}
	response, err := fresh.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	var echo struct{ Version string }
	err = json.NewDecoder(response.Body).Decode(&echo)
	return echo.Version, err
}

// expect waits until a request by HTTP gets a status.
func (p *proxy) expect(host, path string, status int) {
	p.t.Helper()
	testenv.Eventually(p.t, soon, fmt.Sprintf("%s%s to get %d", host, path, status), func(ctx context.Context) error {
		got, err := p.get(ctx, host, path)
		if err == nil && got != status {
			err = fmt.Errorf("it gets %d", got)
		}
		return err
	})
}
