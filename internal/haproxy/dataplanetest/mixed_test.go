package dataplanetest_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/proxyconfig"
	"gateway/internal/routing"
)

const mixedWorld = `
spec:
  trustedProxies: [127.0.0.9/32]
  clientLimits: {maxConnections: 1000, maxPerAddress: 3}
  listeners:
    - {name: shop, port: 443, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: shop}]}}
    - {name: partners, port: 443, protocol: HTTPS, hostname: partners.example.com, tls: {certificateRefs: [{name: partners}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: vault, port: 443, protocol: TLS, hostname: vault.example.com, tls: {mode: Passthrough}}
    - {name: passed, port: 443, protocol: TLS, hostname: "*.passed.example.com", tls: {mode: Passthrough}}
    - {name: opened, port: 443, protocol: HTTPS, hostname: opened.passed.example.com, tls: {certificateRefs: [{name: opened}]}}
    - {name: db, port: 444, protocol: TLS, hostname: db.example.com, tls: {certificateRefs: [{name: db}]}}
    - {name: rest, port: 444, protocol: TLS, tls: {mode: Passthrough}}
    - {name: any, port: 445, protocol: HTTPS, proxyProtocol: Any, tls: {certificateRefs: [{name: any}]}}
    - {name: proxied, port: 445, protocol: TLS, hostname: vault.example.com, proxyProtocol: Any, tls: {mode: Passthrough}}
    - {name: lost, port: 446, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}
    - {name: alone, port: 446, protocol: TLS, hostname: vault.example.com, tls: {mode: Passthrough}}
  routes: [{name: r, rules: [{backendRefs: [{name: one, port: 80}]}]}]
  tcpRoutes: [{name: db, listeners: [db], rules: [{backendRefs: [{name: db, port: 80}]}]}]
  tlsRoutes:
    - {name: vault, listeners: [vault, proxied, alone], rules: [{backendRefs: [{name: vault, port: 443}]}]}
    - {name: passed, listeners: [passed, rest], rules: [{backendRefs: [{name: passed, port: 443}]}]}
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
certificates:
  shop: [{secret: shop, names: ["*.example.com"]}]
  partners: [{secret: partners, names: [partners.example.com]}]
  opened: [{secret: opened, names: [opened.passed.example.com]}]
  db: [{secret: db, names: [db.example.com]}]
  any: [{secret: any, names: [any.example.com]}]
authorities: {ca: PEM}
`

// startMixed runs HAProxy for mixedWorld, with some text replaced by another.
func startMixed(t *testing.T, change ...string) (*gateway, *certtest.Authority) {
	t.Helper()
	ca := certtest.NewAuthority(t)
	g := startGatewayWith(t, rendertest.Parse(t, strings.NewReplacer(change...).Replace(mixedWorld)), func(in *render.Input) {
		in.Paths.CertificateDir, in.Authorities["ca"] = t.TempDir(), ca.PEM
		for _, certificates := range in.Certificates {
			for _, c := range certificates {
				writeSecret(t, in.Paths, c.Secret, ca.Issue(t, c.Names))
			}
		}
		echo := func(name string, names ...string) {
			backend := routing.Backend{Service: name, Port: 443}
			var config *tls.Config
			if len(names) == 0 {
				backend.Port = 80
			} else {
				config = &tls.Config{Certificates: []tls.Certificate{pair(t, ca, names...)}}
			}
			in.Backends[backend] = render.BackendState{Exists: true, Servers: []ir.Server{startEcho(t, name, config)}}
		}
		echo("db")
		echo("vault", "vault.example.com")
		echo("passed", "a.passed.example.com", "rest.example.org")
	})
	return g, ca
}

// TestMixedPorts: on a port where TLS is opened and passed through, the most specific hostname says which of them.
func TestMixedPorts(t *testing.T) {
	t.Parallel()
	g, ca := startMixed(t)
	for name, test := range map[string]struct {
		port   int32
		config *tls.Config
		want   string // who greets; "" if the connection comes to nothing
	}{
		"a name that is passed through":                               {443, &tls.Config{ServerName: "vault.example.com"}, "vault"},
		"a name of a wildcard that is passed through":                 {443, &tls.Config{ServerName: "a.passed.example.com"}, "passed"},
		"any name is passed through":                                  {444, &tls.Config{ServerName: "rest.example.org"}, "passed"},
		"a name that is opened where any other is passed through":     {444, &tls.Config{ServerName: "db.example.com"}, "db"},
		"no name, where no listener that opens TLS takes all":         {444, &tls.Config{InsecureSkipVerify: true}, ""}, //nolint:gosec // it looks at what is answered
		"a name that is passed through where there is no certificate": {446, &tls.Config{ServerName: "vault.example.com"}, "vault"},
		"another name where there is no certificate":                  {446, &tls.Config{ServerName: "a.example.com"}, ""},
		"a name of no listener":                                       {443, &tls.Config{ServerName: "example.org"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := test.config.Clone()
			config.RootCAs = ca.Pool()
			lines, err := talk(t, tls.Client(dial(t, g.ports[test.port]), config), "hello", 2)
			if test.want == "" && (err == nil || len(lines) > 0) {
				t.Errorf("got %q, want no connection", lines)
			}
			if test.want != "" && !slices.Equal(lines, []string{test.want, "hello"}) {
				t.Errorf("got %q and %v, want %s", lines, err, test.want)
			}
		})
	}
	if lines, err := talk(t, dial(t, g.ports[443]), "hello", 1); err == nil {
		t.Errorf("a connection in clear text gets %q", lines)
	}
}

// TestRequestsAtMixedPorts: what HTTPS listeners do does not change because TLS is passed through beside.
func TestRequestsAtMixedPorts(t *testing.T) {
	t.Parallel()
	g, ca := startMixed(t)
	for name, test := range map[string]struct {
		name, host string
		client     bool
		status     int // 0: no connection
	}{
		"a name of a wildcard":                        {"a.example.com", "a.example.com", false, 200},
		"a name below one that is passed through":     {"opened.passed.example.com", "opened.passed.example.com", false, 200},
		"the host of a listener that passes through":  {"a.example.com", "vault.example.com", false, 421},
		"the host of another listener":                {"a.example.com", "partners.example.com", false, 421},
		"a client certificate that is required":       {"partners.example.com", "partners.example.com", true, 200},
		"no client certificate where one is required": {"partners.example.com", "partners.example.com", false, 0},
		"a name that no certificate is for":           {"x.y.example.com", "x.y.example.com", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{ServerName: test.name, RootCAs: ca.Pool()}
			if test.client {
				config.Certificates = []tls.Certificate{pair(t, ca, "client")}
			}
			client := httpsClient(t, g.ports[443], config)
			defer client.CloseIdleConnections()
			got, err := fetch(client, "https://"+test.name, test.host)
			if (err != nil) != (test.status == 0) || got.Status != test.status {
				t.Fatalf("got %d (%v), want %d", got.Status, err, test.status)
			}
			if test.status != 200 {
				return
			}
			want := []string{"X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Proto: https\r\n", fmt.Sprintf("X-Forwarded-Port: %d\r\n", g.ports[443])}
			if test.client {
				want = append(want, "Client-Cert: :")
			}
			for _, header := range want {
				if !strings.Contains(got.Body, header) {
					t.Errorf("the backend did not get %q:\n%s", header, got.Body)
				}
			}
			if got.Proto != "HTTP/2.0" || strings.Contains(got.Body, "forged") {
				t.Errorf("it speaks %s, and the backend got\n%s", got.Proto, got.Body)
			}
		})
	}
}

// fromProxy returns a client whose connections begin with a PROXY protocol header, from a trusted proxy.
func fromProxy(t *testing.T, port int32, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
		conn, err := dialer.DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_, err = io.WriteString(conn, "PROXY TCP4 192.0.2.1 192.0.2.2 1234 445\r\n")
		}
		return conn, err
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: answerTimeout}
}

// TestPROXYProtocolAtMixedPorts: who the client is comes from the trusted proxy, whether TLS is opened or passed
// through.
func TestPROXYProtocolAtMixedPorts(t *testing.T) {
	t.Parallel()
	g, ca := startMixed(t)
	anyone := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it looks at what is answered
	got, err := fetch(fromProxy(t, g.ports[445], anyone), "https://127.0.0.1", "a.example.com")
	if err != nil || got.Certificate.DNSNames[0] != "any.example.com" || !strings.Contains(got.Body, "X-Forwarded-For: 192.0.2.1\r\n") {
		t.Errorf("without a name: got %v\n%s", err, got.Body)
	}
	conn := must.Get(fromProxy(t, g.ports[445], nil).Transport.(*http.Transport).DialContext(t.Context(), "tcp", ""))(t)
	defer conn.Close() //nolint:errcheck // it was read
	lines, err := talk(t, tls.Client(conn, &tls.Config{ServerName: "vault.example.com", RootCAs: ca.Pool()}), "hello", 1)
	if err != nil || lines[0] != "vault" {
		t.Errorf("passed through: got %q, %v", lines, err)
	}
	if _, err := fetch(httpsClient(t, g.ports[445], anyone), "https://127.0.0.1", "a.example.com"); err == nil {
		t.Error("a client that is no trusted proxy is let in")
	}
	_ = conn.Close()
	lines = g.accessLog(t, 2)
	log := strings.Join(lines, "\n")
	if len(lines) != 2 || strings.Count(log, `"client":"192.0.2.1"`) != 2 || strings.Count(log, fmt.Sprintf(`"port":"%d"`, g.ports[445])) != 2 {
		t.Errorf("the access log does not have a line with client and port for each:\n%s", log)
	}
}

// TestLimitsAtMixedPorts: a connection that is handed over counts once for its client, and twice for all.
func TestLimitsAtMixedPorts(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string]int{
		"{maxConnections: 1000, maxPerAddress: 3}": 3, "{maxConnections: 4, maxPerAddress: 100}": 2,
	} {
		g, ca := startMixed(t, "{maxConnections: 1000, maxPerAddress: 3}", limits)
		taken := 0
		for taken < 5 && takesTLS(t, g, ca) == nil {
			taken++
		}
		if taken != want {
			t.Errorf("%s: %d connections are taken, want %d", limits, taken, want)
		}
		observed, err := runtime.NewWorker(g.WorkerSocket).Observe(t.Context())
		hidden := func(s proxyconfig.Server) bool { return strings.HasSuffix(s.Backend, ir.HandoverSuffix) }
		if err != nil || observed.Sessions != int64(want) || observed.Requests != int64(want) || slices.ContainsFunc(observed.Servers, hidden) {
			t.Errorf("%s: observed is %+v, %v", limits, observed, err)
		}
	}
}

// takesTLS returns nil if a request over a new connection is answered with 200. The connection stays open.
func takesTLS(t *testing.T, g *gateway, ca *certtest.Authority) error {
	t.Helper()
	plain, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[443]))
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = plain.Close() })
	_ = plain.SetDeadline(time.Now().Add(answerTimeout))
	conn := tls.Client(plain, &tls.Config{ServerName: "a.example.com", RootCAs: ca.Pool(), NextProtos: []string{"http/1.1"}})
	if err := conn.Handshake(); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, get("a.example.com", "/")); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// TestReloadsOfMixedPorts: no connection is lost when HAProxy reloads, also when a port becomes mixed. Those that are
// open go on.
func TestReloadsOfMixedPorts(t *testing.T) {
	t.Parallel()
	g, ca := startMixed(t, "maxPerAddress: 3", "maxPerAddress: 100")
	reload := func(in render.Input) {
		g.WriteFiles(render.Render(in).AllFiles())
		if err := runtime.NewMaster(g.MasterSocket).Reload(t.Context()); err != nil {
			t.Error(err)
		}
	}
	open := tls.Client(dial(t, g.ports[443]), &tls.Config{ServerName: "vault.example.com", RootCAs: ca.Pool()})
	must.Get(talk(t, open, "before", 2))(t)
	unmixed := g.in
	unmixed.Table.Listeners = slices.DeleteFunc(slices.Clone(g.in.Table.Listeners), func(l routing.Listener) bool { return l.TLS == nil })
	reload(unmixed)
	ctx, cancel := context.WithCancel(t.Context())
	var client sync.WaitGroup
	client.Go(func() {
		for requests := 0; ctx.Err() == nil; requests++ {
			client := httpsClient(t, g.ports[443], &tls.Config{ServerName: "a.example.com", RootCAs: ca.Pool()})
			if got, err := fetch(client, "https://a.example.com", "a.example.com"); err != nil || got.Status != 200 {
				t.Errorf("request %d: got %d (%v)", requests, got.Status, err)
			}
			client.CloseIdleConnections()
		}
	})
	for range 3 {
		reload(g.in)
	}
	cancel()
	client.Wait()
	if lines, err := talk(t, open, "after", 1); err != nil || lines[0] != "after" {
		t.Errorf("the connection that was open: got %q, %v", lines, err)
	}
}

// TestDiffOfMixedPorts has the rows about mixed ports of the table in docs/reference/reloads.md.
func TestDiffOfMixedPorts(t *testing.T) {
	vault := `    - {name: vault, port: 443, protocol: TLS, hostname: vault.example.com, tls: {mode: Passthrough}}
`
	for name, test := range map[string]struct{ old, new, reload string }{
		"another hostname that is passed through":      {"hostname: vault.example.com, tls", "hostname: other.example.com, tls", ""},
		"another name of a listener that passes":       {"name: vault, port: 443, protocol", "name: safe, port: 443, protocol", ""},
		"one listener less that passes TLS through":    {vault, "", ""},
		"another Service for what is passed through":   {"{name: vault, port: 443}]}]}", "{name: passed, port: 443}]}]}", ""},
		"another route for what is opened":             {"rules: [{backendRefs: [{name: one, port: 80}]}]", "rules: [{matches: [{path: {value: /a}}], backendRefs: [{name: one, port: 80}]}]", ""},
		"another hostname that is opened":              {"hostname: opened.passed.example.com, tls", "hostname: b.passed.example.com, tls", ""},
		"nothing is passed through any more on a port": {"    - {name: rest, port: 444, protocol: TLS, tls: {mode: Passthrough}}\n", "", ir.ReloadPorts},
		"the first certificate of what is opened":      {"  any: [", "  lost: [{secret: lost, names: [lost.example.com]}]\n  any: [", ir.ReloadPorts},
	} {
		changed := strings.ReplaceAll(strings.Replace(mixedWorld, test.old, test.new, 1), "[vault, proxied", "[proxied")
		if !strings.Contains(mixedWorld, test.old) {
			t.Fatalf("%s: there is no %s", name, test.old)
		}
		config := func(world string) ir.Config {
			return render.Render(rendertest.Parse(t, strings.Replace(world, "backends:\n", "backends:\n  - {service: passed, port: 443}\n  - {service: vault, port: 443}\n", 1)).Input(t))
		}
		running, desired := config(strings.ReplaceAll(mixedWorld, "[vault, proxied", "[proxied")), config(changed)
		got := plan.Diff(desired, running)
		if got.Reload != test.reload || got.Empty() {
			t.Errorf("%s: got %q, want %q", name, got.Reload, test.reload)
		}
		if again := plan.Diff(desired, got.After); !again.Empty() {
			t.Errorf("%s: once the plan is carried out, there is more to do: %+v", name, again)
		}
	}
}
