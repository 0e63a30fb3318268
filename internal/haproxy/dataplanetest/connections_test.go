package dataplanetest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
)

const connectionsWorld = `
spec:
  trustedProxies: [127.0.0.1/32]
  listeners:
    - {name: tcp, port: 5432, protocol: TCP}
    - {name: proxied, port: 5433, protocol: TCP, proxyProtocol: Any}
    - {name: nowhere, port: 5434, protocol: TCP}
    - {name: secure, port: 5435, protocol: TCP}
    - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}
    - {name: internal, port: 443, protocol: TLS, hostname: "*.internal.example.com", tls: {mode: Passthrough}}
    - {name: opened, port: 444, protocol: TLS, hostname: "*.opened.example.com", tls: {certificateRefs: [{name: opened}]}}
  tcpRoutes:
    - {name: db, listeners: [tcp], rules: [{backendRefs: [{name: db, port: 80}]}]}
    - {name: proxied, listeners: [proxied], rules: [{backendRefs: [{name: proxied, port: 80}]}]}
    - {name: nowhere, listeners: [nowhere], rules: [{backendRefs: [{name: missing, port: 80}]}]}
    - {name: secure, listeners: [secure], rules: [{backendRefs: [{name: secure, port: 80}]}]}
  tlsRoutes:
    - {name: vault, hostnames: [vault.example.com], rules: [{backendRefs: [{name: vault, port: 80}]}]}
    - {name: internal, hostnames: ["*.internal.example.com"], rules: [{backendRefs: [{name: internal, port: 80}]}]}
    - {name: opened, listeners: [opened], hostnames: [a.opened.example.com], rules: [{backendRefs: [{name: db, port: 80}]}]}
    - {name: again, listeners: [opened], hostnames: [b.opened.example.com], rules: [{backendRefs: [{name: secure, port: 80}]}]}
    - {name: secure, listeners: [tls], hostnames: [secure.internal], rules: [{backendRefs: [{name: secure, port: 80}]}]}
  backends:
    - {name: proxied, port: 80, proxyProtocol: V1}
    - {name: secure, port: 80, tls: {caCertificateRefs: [{name: ca}], hostname: secure.internal}}
backends:
  - {service: db, port: 80, servers: ["127.0.0.1:1"]}
  - {service: proxied, port: 80, servers: ["127.0.0.1:1"]}
  - {service: secure, port: 80, servers: ["127.0.0.1:1"]}
  - {service: vault, port: 80, servers: ["127.0.0.1:1"]}
  - {service: internal, port: 80, servers: ["127.0.0.1:1"]}
certificates: {opened: [{secret: opened, names: ["*.opened.example.com"]}]}
`

// startEcho starts a server that greets each connection with its name, and then sends back every line it gets. With
// TLS, it has a certificate for the names.
func startEcho(t testing.TB, name string, serverTLS *tls.Config) ir.Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("failed to listen: %v", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if serverTLS != nil {
		listener = tls.NewListener(listener, serverTLS)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, name+"\n")
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return ir.Server{Address: "127.0.0.1", Port: int32(port)}
}

func startConnections(t *testing.T) (*gateway, *certtest.Authority) {
	t.Helper()
	ca := certtest.NewAuthority(t)
	g := startGatewayWith(t, rendertest.Parse(t, connectionsWorld), func(in *render.Input) {
		in.Authorities["ca"] = ca.PEM
		in.Paths.CertificateDir = t.TempDir()
		writeSecret(t, in.Paths, "opened", ca.Issue(t, []string{"*.opened.example.com"}))
		for name, server := range map[string]ir.Server{
			"db": startEcho(t, "db", nil), "proxied": startEcho(t, "proxied", nil),
			"secure":   startEcho(t, "secure", &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "secure.internal")}, NextProtos: []string{"postgresql"}}),
			"vault":    startEcho(t, "vault", &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "vault.example.com")}}),
			"internal": startEcho(t, "internal", &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "a.b.internal.example.com")}}),
		} {
			// The appProtocol of a port makes no difference: nobody looks into connections.
			protocol := map[string]string{"db": "postgresql", "vault": "https", "internal": "kubernetes.io/h2c"}[name]
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, AppProtocol: protocol, Servers: []ir.Server{server}}
		}
	})
	return g, ca
}

// talk sends a line and returns the given number of lines that come back.
func talk(t testing.TB, conn net.Conn, line string, count int) ([]string, error) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return nil, err
	}
	reader, lines := bufio.NewReader(conn), []string{}
	for range count {
		got, err := reader.ReadString('\n')
		if err != nil {
			return lines, err
		}
		lines = append(lines, strings.TrimRight(got, "\r\n"))
	}
	return lines, nil
}

func dial(t testing.TB, port int32) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("failed to connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	return conn
}

// talkFrom talks over a connection from another of this machine's addresses. One that is refused is an error, too.
func talkFrom(t testing.TB, address string, port int32, line string, count int) ([]string, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return talk(t, conn, line, count)
}

func TestTCP(t *testing.T) {
	t.Parallel()
	g, _ := startConnections(t)
	got, err := talk(t, dial(t, g.ports[5432]), "hello", 2)
	if err != nil || strings.Join(got, " ") != "db hello" {
		t.Errorf("got %q: %v", got, err)
	}
	// HAProxy offers no protocol within TLS: an endpoint may refuse a protocol that it does not speak.
	if got, err := talk(t, dial(t, g.ports[5435]), "hello", 2); err != nil || strings.Join(got, " ") != "secure hello" {
		t.Errorf("over TLS: got %q: %v", got, err)
	}
	if got, err := talk(t, dial(t, g.ports[5434]), "hello", 1); err == nil {
		t.Errorf("a listener whose Service does not exist answers %q", got)
	}
}

// TestProxyProtocol sends a header on to a backend that gets one too.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	g, _ := startConnections(t)
	got, err := talk(t, dial(t, g.ports[5433]), "PROXY TCP4 192.0.2.1 192.0.2.2 1234 5433\r\nhello", 3)
	want := []string{"proxied", fmt.Sprintf("PROXY TCP4 192.0.2.1 192.0.2.2 1234 %d", 5433), "hello"}
	if err != nil || strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if got, err := talk(t, dial(t, g.ports[5433]), "hello", 1); err == nil {
		t.Errorf("a connection without a header is answered with %q", got)
	}
}

// TestProxyProtocolOfStrangers: who is no trusted proxy cannot say who the client is. Such a connection is closed, with
// a header or without one.
func TestProxyProtocolOfStrangers(t *testing.T) {
	t.Parallel()
	g, _ := startConnections(t)
	for _, first := range []string{"PROXY TCP4 192.0.2.1 192.0.2.2 1234 5433\r\nhello", "hello"} {
		if got, err := talkFrom(t, "127.0.0.9", g.ports[5433], first, 1); err == nil {
			t.Errorf("%q: a stranger is answered with %q", first, got)
		}
	}
	if got, err := talkFrom(t, "127.0.0.9", g.ports[5432], "hello", 2); err != nil {
		t.Errorf("at the listener without the PROXY protocol a stranger gets %q: %v", got, err)
	}
}

// TestProxyProtocolWithoutTrustedProxies: the API server refuses such a Gateway; a listener of one takes no connection.
func TestProxyProtocolWithoutTrustedProxies(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, shopWorld)
	w.Spec.Listeners[1].ProxyProtocol = "Any"
	g := startGateway(t, w)
	if got, err := talkFrom(t, "127.0.0.1", g.ports[81], "PROXY TCP4 192.0.2.1 192.0.2.2 1234 81\r\n"+get("inner", "/"), 1); err == nil {
		t.Errorf("got %q", got)
	}
}

// TestTLSTerminated: what is within TLS goes to the backend of the server name, over TLS again where that is asked for.
// Where TLS is passed through to the same Service, it is TLS once.
func TestTLSTerminated(t *testing.T) {
	t.Parallel()
	g, ca := startConnections(t)
	for _, test := range []struct {
		port       int32
		name, want string
	}{
		{444, "a.opened.example.com", "db hello"}, {444, "b.opened.example.com", "secure hello"}, {444, "c.opened.example.com", ""},
		{444, "elsewhere.example.com", ""}, {443, "secure.internal", "secure hello"},
	} {
		conn := tls.Client(dial(t, g.ports[test.port]), &tls.Config{ServerName: test.name, RootCAs: ca.Pool()})
		got, err := talk(t, conn, "hello", 2)
		if strings.Join(got, " ") != test.want {
			t.Errorf("port %d, %q: got %q (%v), want %q", test.port, test.name, got, err, test.want)
		}
	}
}

func TestTLSPassthrough(t *testing.T) {
	t.Parallel()
	g, ca := startConnections(t)
	for name, want := range map[string]string{
		"vault.example.com": "vault hello", "a.b.internal.example.com": "internal hello", "VAULT.example.com": "vault hello",
		"other.example.com": "", "internal.example.com": "", "": "",
	} {
		conn := tls.Client(dial(t, g.ports[443]), &tls.Config{ServerName: name, RootCAs: ca.Pool(), InsecureSkipVerify: name == ""}) //nolint:gosec // only where there is no name to verify
		got, err := talk(t, conn, "hello", 2)
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q (%v), want %q", name, got, err, want)
		}
	}
	if got, err := talk(t, dial(t, g.ports[443]), "GET / HTTP/1.1\r\n\r\n", 1); err == nil {
		t.Errorf("clear text is answered with %q", got)
	}
}

func TestConnectionLog(t *testing.T) {
	t.Parallel()
	g, ca := startConnections(t)
	conn := tls.Client(dial(t, g.ports[443]), &tls.Config{ServerName: "vault.example.com", RootCAs: ca.Pool()})
	must.Get(talk(t, conn, "hello", 2))(t)
	_ = conn.Close()
	for _, want := range []string{`"host":"vault.example.com"`, `"listener":"tls"`, `"route":"vault"`, `"backend":"vault_80.tcp"`} {
		if line := g.accessLog(t, 1)[0]; !strings.Contains(line, want) {
			t.Errorf("the access log lacks %s: %s", want, line)
		}
	}
}
