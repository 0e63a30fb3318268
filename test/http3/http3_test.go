// Package http3 has tests with a client of HTTP/3.
package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
)

const world = `
spec:
  http3: {maxAgeSeconds: 60}
  clientLimits: {maxPerAddress: 2}
  listeners:
    - {name: shop, port: %[1]d, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: shop}]}}
    - {name: blog, port: %[1]d, protocol: HTTPS, hostname: blog.test, tls: {certificateRefs: [{name: blog}]}}
    - {name: known, port: %[2]d, protocol: HTTPS, tls: {certificateRefs: [{name: known}], clientValidation: {mode: Optional, caCertificateRefs: [{name: ca}]}}}
    - {name: plain, port: %[3]d, protocol: HTTP}
  routes: [{name: r, rules: [{matches: [{path: {value: /web}}], backendRefs: [{name: web, port: 80}]}]}]
certificates:
  shop: [{secret: shop, names: ["*.example.com"]}]
  blog: [{secret: blog, names: [blog.test]}]
  known: [{secret: known, names: [known.test]}]
backends: [{service: web, port: 80, servers: ["%[4]s"]}]
`

// proxy is a HAProxy with a port for HTTP/3, one with client certificates and one without TLS.
type proxy struct {
	shop, known, plain int32
	ca                 *certtest.Authority
	haproxy            *haproxytest.Instance
}

func start(t *testing.T, web http.HandlerFunc) proxy {
	t.Helper()
	backend := httptest.NewServer(web)
	t.Cleanup(func() { backend.CloseClientConnections(); backend.Close() })
	p := proxy{shop: haproxytest.FreePort(t), known: haproxytest.FreePort(t), plain: haproxytest.FreePort(t), ca: certtest.NewAuthority(t)}
	text := fmt.Sprintf(world, p.shop, p.known, p.plain, backend.Listener.Addr())
	in := rendertest.Parse(t, text).Input(t)
	in.Paths = haproxytest.NewPaths(t)
	in.Paths.CertificateDir = t.TempDir()
	in.Bind = render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)}
	in.Authorities["ca"] = p.ca.PEM
	for _, certificates := range in.Certificates {
		for _, c := range certificates {
			pair := p.ca.Issue(t, c.Names)
			dir := filepath.Join(in.Paths.CertificateDir, c.Secret)
			must.Do(t, os.Mkdir(dir, 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, "tls.pem"), append(pair.Certificate, pair.Key...), 0o600))
		}
	}
	p.haproxy = haproxytest.Start(t, in.Paths, render.Render(in).AllFiles())
	return p
}

// overQUIC returns a client whose only connection asks for a server name.
func (p proxy) overQUIC(t *testing.T, serverName string) *http.Client {
	t.Helper()
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: p.ca.Pool(), ServerName: serverName},
		Dial: func(ctx context.Context, _ string, config *tls.Config, settings *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, fmt.Sprintf("127.0.0.1:%d", p.shop), config, settings)
		},
	}
	t.Cleanup(func() { _ = transport.Close() })
	return &http.Client{Transport: transport}
}

// TestHTTP3: requests are routed and told of as over other versions of HTTP, and no connection is used for a listener
// that it was not made for.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %s %s %d", r.Proto, r.Method, r.Host, r.Header.Get("X-Forwarded-For"), r.Header.Get("Forwarded"), n)
	})
	client := p.overQUIC(t, "a.example.com")
	for _, test := range []struct {
		url, body string
		status    int
		want      string
	}{
		{"https://a.example.com/web", "", 200, `HTTP/1.1 POST a.example.com 127.0.0.1 for=127.0.0.1;proto=https;host="a.example.com" 0`},
		{"https://a.example.com/web", strings.Repeat("a", 100_000), 200, " 100000"},
		{"https://a.example.com/other", "", 404, ""},
		{"https://blog.test/web", "", 421, ""},
	} {
		response, err := client.Post(test.url, "text/plain", strings.NewReader(test.body))
		must.Do(t, err)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.ProtoMajor != 3 || response.StatusCode != test.status || !bytes.HasSuffix(body, []byte(test.want)) {
			t.Errorf("%s: got %s %d %q (%v), want %d %q", test.url, response.Proto, response.StatusCode, body, err, test.status, test.want)
		}
	}
}

// TestOutdatedConnections: a connection that does not meet what its listener demands by now is closed, so that its
// client makes another one.
func TestOutdatedConnections(t *testing.T) {
	t.Parallel()
	p := start(t, func(http.ResponseWriter, *http.Request) {})
	client := p.overQUIC(t, "blog.test")
	status := func() (int, error) {
		response, err := client.Get("https://blog.test/web")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	if got, err := status(); err != nil || got != 200 {
		t.Fatalf("before: got %d (%v)", got, err)
	}
	// The listener gets another identity.
	names, hosts := p.haproxy.Paths.Map(ir.NamesFile), p.haproxy.Paths.Map(ir.HostsFile)
	p.haproxy.Worker(fmt.Sprintf("set map %s %d/blog.test other", names, p.shop))
	entry := fmt.Sprintf("%d/tset.golb!", p.shop)
	_, value, _ := strings.Cut(p.haproxy.Worker(fmt.Sprintf("get map %s %s", hosts, entry)), `value="`)
	value, _, _ = strings.Cut(value, `"`)
	p.haproxy.Worker(fmt.Sprintf("set map %s %s %s", hosts, entry, strings.Replace(value, ir.IdentityIn(value), "other", 1)))
	if got, err := status(); err == nil {
		t.Errorf("over the connection of before: got %d", got)
	}
	if got, err := status(); err != nil || got != 200 {
		t.Errorf("over another connection: got %d (%v)", got, err)
	}
}

// TestHTTP3IsOffered: by the header, where the port speaks it, and nowhere else.
func TestHTTP3IsOffered(t *testing.T) {
	t.Parallel()
	p := start(t, func(http.ResponseWriter, *http.Request) {})
	for _, test := range []struct {
		scheme, host string
		port         int32
		want         string
	}{
		{"https", "a.example.com", p.shop, fmt.Sprintf(`h3=":%d"; ma=60`, p.shop)},
		{"https", "known.test", p.known, ""},
		{"http", "a.example.com", p.plain, ""},
	} {
		address := fmt.Sprintf("127.0.0.1:%d", test.port)
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: p.ca.Pool(), ServerName: test.host},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}
		response, err := (&http.Client{Transport: transport}).Get(test.scheme + "://" + test.host + "/web")
		must.Do(t, err)
		_ = response.Body.Close()
		transport.CloseIdleConnections()
		if got := response.Header.Get("Alt-Svc"); response.StatusCode != http.StatusOK || got != test.want {
			t.Errorf("%s: got %d with Alt-Svc %q, want %q", test.host, response.StatusCode, got, test.want)
		}
		conn, err := net.ListenPacket("udp4", address)
		if err == nil {
			_ = conn.Close()
		}
		if isBound := err != nil; isBound != (test.want != "") {
			t.Errorf("%s: HAProxy listens on the port over UDP: %t (%v)", test.host, isBound, err)
		}
	}
}

// TestLimitsOfHTTP3: requests over a connection count for the limit of a client, as over HTTP/2.
func TestLimitsOfHTTP3(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 3), make(chan struct{})
	p := start(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})
	client := p.overQUIC(t, "a.example.com")
	statuses := make(chan int, 3)
	get := func() {
		response, err := client.Get("https://a.example.com/web")
		if err != nil {
			t.Error(err)
			statuses <- 0
			return
		}
		_ = response.Body.Close()
		statuses <- response.StatusCode
	}
	for range 2 {
		go get()
		<-entered
	}
	go get()
	if got := <-statuses; got != http.StatusServiceUnavailable {
		t.Errorf("a third request at a time got %d, want 503", got)
	}
	close(leave)
	for range 2 {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("a request within the limit got %d", got)
		}
	}
}

// TestConnectionLimitOfHTTP3: connections count for the limit of a client, too.
func TestConnectionLimitOfHTTP3(t *testing.T) {
	t.Parallel()
	p := start(t, func(http.ResponseWriter, *http.Request) {})
	for i, isTaken := range []bool{true, true, false} {
		response, err := p.overQUIC(t, "a.example.com").Get("https://a.example.com/web")
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != isTaken {
			t.Errorf("connection %d: got %v, want it taken: %t", i+1, err, isTaken)
		}
	}
}
