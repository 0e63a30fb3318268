package dataplanetest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"gateway/internal/backendtls"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/unixsocket"
)

const (
	relayWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}] %s}]}]
  backends: [{name: b, port: 80, tls: {caCertificateRefs: [{name: ca}], hostname: sni.internal} %s}]
backends: [{service: b, port: 80}]
`
	oneURI = "spiffe://cluster.local/ns/shop/sa/api?a=%20;b"
)

// startRelayed runs HAProxy, and beside it what connects to the servers of the backend, whose certificates have to be
// for names.
func startRelayed(t *testing.T, ca *certtest.Authority, rule, policy, appProtocol string, names model.BackendTLS, servers ...ir.Server) *gateway {
	t.Helper()
	b := routing.Backend{Service: "b", Port: 80}
	return startGatewayWith(t, rendertest.Parse(t, fmt.Sprintf(relayWorld, rule, policy)), func(in *render.Input) {
		startRelay(t, &in.Paths)
		in.Authorities["ca"] = ca.PEM
		in.Table.Policies[b].TLS.DNSNames, in.Table.Policies[b].TLS.URIs = names.DNSNames, names.URIs
		in.Backends[b] = render.BackendState{Exists: true, AppProtocol: appProtocol, Servers: servers}
	})
}

// startRelay starts what HAProxy has connect to servers.
func startRelay(t *testing.T, paths *ir.Paths) {
	t.Helper()
	paths.RelaySocket = filepath.Join(paths.RunDir, "relay.sock")
	listener := must.Get(unixsocket.Listen(paths.RelaySocket))(t)
	served, relay := make(chan error, 1), new(backendtls.Relay)
	go func() { served <- relay.Serve(t.Context(), listener) }()
	t.Cleanup(func() {
		if err := <-served; err != nil {
			t.Errorf("failed to carry connections: %v", err)
		}
	})
}

// secure starts a server with a certificate.
func secure(t *testing.T, certificate tls.Certificate, handler http.HandlerFunc) ir.Server {
	t.Helper()
	return serve(t, handler, func(server *httptest.Server) {
		server.EnableHTTP2 = true
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		server.StartTLS()
	})
}

// TestNamesOfBackends: the certificate of an endpoint has to be for one of the names, and not for the one that is asked
// for. That holds for servers of haproxy.cfg and those that are added.
func TestNamesOfBackends(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	tell := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Asked", r.TLS.ServerName+" "+r.Proto)
	}
	dns := secure(t, pair(t, ca, "good.internal", "*.wild.internal"), tell)
	uri := secure(t, keyPair(t, ca.Issue(t, []string{"sni.internal"}, certtest.URI(t, oneURI))), tell)
	foreign := secure(t, pair(t, certtest.NewAuthority(t), "good.internal"), tell)
	for _, test := range []struct {
		names       model.BackendTLS
		server      ir.Server
		appProtocol string
		asked       string // "": nothing comes
	}{
		{model.BackendTLS{DNSNames: []string{"good.internal"}}, dns, "", "sni.internal HTTP/1.1"},
		{model.BackendTLS{DNSNames: []string{"good.internal"}}, dns, "kubernetes.io/h2c", "sni.internal HTTP/2.0"},
		{model.BackendTLS{DNSNames: []string{"a.wild.internal"}}, dns, "https", "sni.internal HTTP/1.1"},
		{model.BackendTLS{DNSNames: []string{"other.internal", "good.internal"}}, dns, "", "sni.internal HTTP/1.1"},
		{model.BackendTLS{DNSNames: []string{"other.internal"}, URIs: []string{oneURI}}, uri, "", "sni.internal HTTP/1.1"},
		{model.BackendTLS{DNSNames: []string{"other.internal"}}, dns, "", ""},
		{model.BackendTLS{DNSNames: []string{"good.internal"}}, foreign, "", ""},
		{model.BackendTLS{DNSNames: []string{"other.internal"}, URIs: []string{oneURI + "c"}}, uri, "", ""},
		{model.BackendTLS{URIs: []string{oneURI}}, dns, "", ""},
		{model.BackendTLS{URIs: []string{oneURI}}, startServer(t, "plain"), "", ""},
	} {
		for _, added := range []bool{false, true} {
			var servers []ir.Server
			if !added {
				servers = []ir.Server{test.server}
			}
			g := startRelayed(t, ca, "", "", test.appProtocol, test.names, servers...)
			if added {
				must.Do(t, runtime.NewWorker(g.WorkerSocket).AddServer(t.Context(), g.newServer(test.server)))
			}
			status := 200
			if test.asked == "" {
				status = 502
			}
			if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != status || got.Header.Get("Asked") != test.asked {
				t.Errorf("%v, added %t: got %d, and the server was asked for %q, want %q", test.names, added, got.Status, got.Header.Get("Asked"), test.asked)
			}
		}
	}
}

// TestSettingsOfRelayedBackends: health checks find out whether the certificate is right, cookies lead to one
// endpoint, and endpoints see the true address of the client.
func TestSettingsOfRelayedBackends(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	good, names := pair(t, ca, "good.internal"), model.BackendTLS{DNSNames: []string{"good.internal"}}
	one, two := secure(t, good, named("one")), secure(t, good, named("two"))
	bad := secure(t, pair(t, ca, "sni.internal"), named("bad"))
	for _, check := range []string{"", "path: /, "} {
		g := startRelayed(t, ca, "", ", healthCheck: {"+check+"interval: 100ms}", "", names, one, two, bad)
		eventually(t, "checks take the bad one out", func() bool {
			stat := g.Worker("show stat")
			return strings.Count(stat, "L7OK") == 2 && strings.Count(stat, ",DOWN,") == 1
		})
	}
	g := startRelayed(t, ca, ", sessionPersistence: {sessionName: s}", "", "", names, one)
	added := g.newServer(two)
	must.Do(t, runtime.NewWorker(g.WorkerSocket).AddServer(t.Context(), added))
	cookies := map[string]string{}
	eventually(t, "both get requests", func() bool {
		first := newClient(t, g.ports[80]).send(get("x", "/"))
		cookie, _, _ := strings.Cut(first.Header.Get("Set-Cookie"), ";")
		again := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nCookie: " + cookie + "\r\n\r\n")
		if cookie == "" || again.Header.Get("Backend") != first.Header.Get("Backend") {
			t.Errorf("the first request got %v, the second one %v", first.Header, again.Header)
		}
		cookies[first.Header.Get("Backend")] = cookie
		return len(cookies) == 2
	})
	for _, version := range []string{"V1", "V2"} {
		told := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Client", r.RemoteAddr) }, func(server *httptest.Server) {
			server.Listener = &proxyproto.Listener{Listener: server.Listener}
			server.TLS = &tls.Config{Certificates: []tls.Certificate{good}}
			server.StartTLS()
		})
		g := startRelayed(t, ca, "", ", proxyProtocol: "+version, "", names, told)
		c := newClientFrom(t, "127.0.0.9", g.ports[80])
		if got := c.send(get("x", "/")).Header.Get("Client"); !strings.HasPrefix(got, "127.0.0.9:") {
			t.Errorf("with %s, the endpoint is told that the client is %q", version, got)
		}
	}
}

// TestRelayedConnections: they get the certificate of the proxies, and the end of one direction does not end the other
// one. Nothing is sent where nobody can connect.
func TestRelayedConnections(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair(t, ca, "good.internal")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go greet(listener)
	b := routing.Backend{Service: "b", Port: 80}
	for _, hasKeys := range []bool{true, false} {
		g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: tcp, port: 80, protocol: TCP}]
  tcpRoutes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}]
  backends: [{name: b, port: 80, tls: {caCertificateRefs: [{name: ca}], hostname: sni.internal}}]
  backendClientCertificateRef: {name: proxies}
backends: [{service: b, port: 80}]
`), func(in *render.Input) {
			in.Paths.CertificateDir, in.Authorities["ca"] = t.TempDir(), ca.PEM
			writeSecret(t, in.Paths, "proxies", ca.Issue(t, nil))
			in.Table.Policies[b].TLS.DNSNames = []string{"good.internal"}
			in.Backends[b] = render.BackendState{Exists: true, Servers: []ir.Server{{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)}}}
			if hasKeys {
				startRelay(t, &in.Paths)
			}
		})
		conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[80])))(t)
		_, _ = conn.Write([]byte("friend\n"))
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := bufio.NewReader(conn).ReadString('\n')
		_ = conn.Close()
		if want := map[bool]string{true: "hello friend\n"}[hasKeys]; answer != want {
			t.Errorf("with somebody who connects %t: got %q, want %q", hasKeys, answer, want)
		}
	}
}

// greet answers one line after the client has ended.
func greet(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			reader := bufio.NewReader(conn)
			line, err := reader.ReadString('\n')
			if _, end := reader.ReadByte(); err == nil && end != nil {
				_, _ = conn.Write(slices.Concat([]byte("hello "), []byte(line)))
			}
		}()
	}
}

// TestRelayedConnectionsEnd: when HAProxy is done with an endpoint that hangs, its connection ends, and makes place for
// another one.
func TestRelayedConnectionsEnd(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	ended := make(chan struct{}, 10)
	certificate := pair(t, ca, "good.internal")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}}))
				_, _ = io.Copy(io.Discard, conn) // it never answers, nor closes
				ended <- struct{}{}
				_ = conn.Close()
			}()
		}
	}()
	server := ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)}
	g := startRelayed(t, ca, ", timeouts: {backendRequest: 100ms}", "", "", model.BackendTLS{DNSNames: []string{"good.internal"}}, server)
	if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 504 {
		t.Errorf("got %d", got.Status)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the connection to the endpoint goes on")
	}
}
