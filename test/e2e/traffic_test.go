package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"gateway/internal/must"
)

// answer is what came back for a request.
type answer struct {
	status int
	body   string
	// version is the version of the echo backend that answered, if one did.
	version string
}

// client sends requests to one Gateway.
type client struct {
	address string
	// tls is how to speak TLS; nil: not at all.
	tls  *tls.Config
	http *http.Client
}

// newClient returns a client of the Gateway's port 80.
func newClient(t *testing.T, namespace string) *client {
	t.Helper()
	return &client{address: findPort(t, namespace, 80), http: &http.Client{Timeout: 5 * time.Second}}
}

// newTLSClient returns a client of the Gateway's port 443 that takes certificates for host of these authorities alone.
func newTLSClient(t *testing.T, namespace string, authorities *x509.CertPool) *client {
	t.Helper()
	config := &tls.Config{RootCAs: authorities, ServerName: host}
	return &client{address: findPort(t, namespace, 443), tls: config, http: &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config},
	}}
}

// findPort finds a way to a port of the Gateway's Service: straight where this machine is the node, else by a forwarded
// port.
func findPort(t *testing.T, namespace string, port int) string {
	t.Helper()
	service := must.Get(kube.CoreV1().Services(namespace).Get(t.Context(), childName, metav1.GetOptions{}))(t)
	address := net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(port))
	if onNode() {
		eventually(t, "the Service takes connections", func(ctx context.Context) error {
			var dialer net.Dialer
			connection, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return connection.Close()
		})
	} else {
		address = forward(t, namespace, port)
	}
	return address
}

// onNode reports whether this machine is the node, so that the addresses of Services lead somewhere.
func onNode() bool {
	server, err := url.Parse(restConfig.Host)
	if err != nil {
		return false
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addresses, func(address net.Addr) bool {
		own, _, _ := strings.Cut(address.String(), "/")
		return own == server.Hostname()
	})
}

// forward forwards a port of this machine to a proxy pod for as long as the test runs.
func forward(t *testing.T, namespace string, port int) string {
	t.Helper()
	pods := proxyPods(t, namespace)
	forwarding := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pods[0].Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(restConfig)
	must.Do(t, err)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, forwarding)
	ready := make(chan struct{})
	forwarder := must.Get(portforward.New(dialer, []string{"0:" + strconv.Itoa(port)}, t.Context().Done(), ready, io.Discard, io.Discard))(t)
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case err := <-failed:
		t.Fatalf("failed to forward a port to Pod %s/%s: %v", namespace, pods[0].Name, err)
	case <-ready:
	}
	ports := must.Get(forwarder.GetPorts())(t)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local)))
}

func proxyPods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	pods := must.Get(kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.example.com/gateway=" + gatewayName}))(t)
	if len(pods.Items) == 0 {
		t.Fatalf("Gateway %s/%s has no pods", namespace, gatewayName)
	}
	return pods.Items
}

func (c *client) get(ctx context.Context, hostname, path string) (answer, error) {
	scheme := "http://"
	if c.tls != nil {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+c.address+path, nil)
	if err != nil {
		return answer{}, err
	}
	request.Host = hostname
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	var echo struct{ Version string }
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, &echo); err != nil {
			return answer{}, fmt.Errorf("failed to read answer %q: %w", body, err)
		}
	}
	return answer{status: response.StatusCode, body: string(body), version: echo.Version}, nil
}

// waitAnswer waits until GET hostname/path is answered with the status and, unless empty, by the version.
func (c *client) waitAnswer(t *testing.T, hostname, path string, status int, version string) time.Duration {
	t.Helper()
	return eventually(t, fmt.Sprintf("GET %s%s answered %d %s", hostname, path, status, version), func(ctx context.Context) error {
		got, err := c.get(ctx, hostname, path)
		if err != nil {
			return err
		}
		if got.status != status || got.version != version {
			return fmt.Errorf("answered %d %s: %s", got.status, got.version, got.body)
		}
		return nil
	})
}

// versions counts which versions answer n requests.
func (c *client) versions(t *testing.T, path string, n int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		got := must.Get(c.get(t.Context(), host, path))(t)
		counts[fmt.Sprintf("%d %s", got.status, got.version)]++
	}
	return counts
}

// probe sends GET host/ 50 times a second until the function it returns is called; that fails the test if one of the
// requests was not answered with 200. Every other request opens a connection of its own.
func (c *client) probe(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	fresh := &client{address: c.address, tls: c.tls, http: &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.tls},
	}}
	var mutex sync.Mutex
	var sent int
	var failures []string
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			sender := []*client{c, fresh}[i%2]
			group.Go(func() {
				// Its own time limit: the request in flight when the probe ends still counts.
				got, err := sender.get(context.WithoutCancel(ctx), host, "/")
				mutex.Lock()
				defer mutex.Unlock()
				sent++
				if err != nil || got.status != http.StatusOK {
					failures = append(failures, fmt.Sprintf("%s: %d %s %v", time.Now().Format("15:04:05.000"), got.status, got.body, err))
				}
			})
		}
	})
	return func() {
		t.Helper()
		cancel()
		group.Wait()
		if len(failures) > 0 || sent == 0 {
			t.Errorf("%d of %d requests failed: %s", len(failures), sent, strings.Join(failures[:min(5, len(failures))], "; "))
		}
	}
}
