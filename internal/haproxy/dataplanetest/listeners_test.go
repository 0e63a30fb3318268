package dataplanetest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing/routingtest"
)

// edited is a HAProxy whose listeners are edited at run time, and never reloaded.
type edited struct {
	*gateway
	t      *testing.T
	worker *runtime.Worker
	// ca signs all certificates, and others are other authorities of clients.
	ca, others *certtest.Authority
	// revoking is ca with a list of revoked certificates, which has one.
	revoking []byte
	revoked  certtest.Pair
	first    runtime.Process
	running  ir.Config
	// known are the Secrets that HAProxy has.
	known map[string]bool
}

const (
	edits = `
  routes: [{name: r, rules: [{backendRefs: [{name: one, port: 80}]}]}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`
	// asking keeps a port from resuming sessions, which takes a reload.
	asking = `
    - {name: asking, port: 443, protocol: HTTPS, hostname: asking.io, tls: {certificateRefs: [{name: asking}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: kept, port: 443, protocol: HTTPS, hostname: kept.io, tls: {certificateRefs: [{name: kept}]}}`
	askingCertificates = `
  asking: [{secret: asking, names: [asking.io]}]
  kept: [{secret: kept, names: [kept.io]}]`
)

// startEdited runs HAProxy with these listeners and the ones of asking. Each has a certificate of the name of its
// Secret.
func startEdited(t *testing.T, listeners, certificates string) *edited {
	t.Helper()
	e := &edited{t: t, ca: certtest.NewAuthority(t), others: certtest.NewAuthority(t), known: map[string]bool{}}
	e.revoked = e.ca.Issue(t, []string{"revoked"})
	e.revoking = slices.Concat(e.ca.PEM, e.ca.Revoke(t, time.Now().Add(time.Hour), e.revoked))
	e.gateway = startGatewayWith(t, e.world(listeners, certificates), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		e.fill(in, false)
	})
	e.worker = runtime.NewWorker(e.WorkerSocket)
	var err error
	if e.first, err = e.worker.Process(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.running = render.Render(e.in)
	return e
}

func (e *edited) world(listeners, certificates string) rendertest.World {
	return rendertest.Parse(e.t, "spec:\n  listeners:"+asking+listeners+edits+"certificates:"+askingCertificates+certificates)
}

// fill writes the certificates of an Input, and hands those that are new to HAProxy, as gateway-keys does.
func (e *edited) fill(in *render.Input, isRunning bool) {
	in.Authorities = map[string][]byte{"ca": e.ca.PEM, "others": e.others.PEM, "revoking": e.revoking}
	for _, all := range in.Certificates {
		for _, c := range all {
			if e.known[c.Secret] {
				continue
			}
			e.known[c.Secret] = true
			var options []certtest.Option
			if c.KeyType == "RSA" {
				options = append(options, certtest.RSA(e.t, 2048))
			}
			issued := e.ca.Issue(e.t, []string{c.Secret}, options...)
			if !isRunning {
				writeSecret(e.t, in.Paths, c.Secret, issued)
				continue
			}
			file := in.Paths.CertificateDir + "/" + c.Secret + "/tls.pem"
			must.Do(e.t, e.worker.ReplaceCertificate(e.t.Context(), file, append(issued.Certificate, issued.Key...)))
		}
	}
}

// plan returns the way to other listeners, which is no reload.
func (e *edited) plan(settled bool, listeners, certificates string) plan.Plan {
	e.t.Helper()
	p := e.change(settled, listeners, certificates)
	if p.Reload != "" {
		e.t.Fatalf("a reload is wanted: %s", p.Reload)
	}
	return p
}

func (e *edited) change(settled bool, listeners, certificates string) plan.Plan {
	e.t.Helper()
	world := e.world(listeners, certificates)
	for i := range world.Spec.Listeners {
		world.Spec.Listeners[i].Port = e.ports[world.Spec.Listeners[i].Port]
	}
	in := e.in
	in.Table, _ = routingtest.Compile(&world.Spec)
	in.Certificates = world.Certificates
	e.fill(&in, true)
	return plan.Change(e.running, render.Render(in), e.running, settled)
}

// edit gives HAProxy other listeners.
func (e *edited) edit(settled bool, listeners, certificates string) {
	e.t.Helper()
	p := e.plan(settled, listeners, certificates)
	must.Get(e.worker.Execute(e.t.Context(), e.in.Paths, p))(e.t)
	e.running = p.After
	if now, err := e.worker.Process(e.t.Context()); err != nil || now != e.first {
		e.t.Errorf("HAProxy was reloaded (%v)", err)
	}
}

// expect connects with a server name, and wants a status ("": the connection is refused) and the certificate of a name.
func (e *edited) expect(name, status, certificate string, client *tls.Config) {
	e.t.Helper()
	client = client.Clone()
	client.ServerName = name
	got, has, _ := visit(e.t, e.ports[443], client)
	if got != status || status != "" && has != certificate {
		e.t.Errorf("%s: got %q with the certificate of %q, want %q with that of %q", name, got, has, status, certificate)
	}
}

func https(name, hostname, secret, more string) string {
	return fmt.Sprintf("\n    - {name: %s, port: 443, protocol: HTTPS, hostname: %q, tls: {certificateRefs: [{name: %s}]%s}}", name, hostname, secret, more)
}

func shown(listener, name, keyType string, names ...string) string {
	return fmt.Sprintf("\n  %s: [{secret: %s, keyType: %s, names: [%q]}]", listener, name, keyType, strings.Join(names, `", "`))
}

// TestListenersAtRunTime: HTTPS listeners come, go and change without a reload, and a connection to another listener
// stays.
func TestListenersAtRunTime(t *testing.T) { //nolint:funlen // a flat table
	t.Parallel()
	e := startEdited(t, "", "")
	kept := newClient(t, e.ports[443])
	conn := must.Get(tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", e.ports[443]), &tls.Config{ServerName: "kept.io", InsecureSkipVerify: true}))(t)
	kept.conn, kept.reader = conn, bufio.NewReader(conn)
	anyone, client := &tls.Config{}, &tls.Config{Certificates: []tls.Certificate{pair(t, e.ca, "client")}}
	other, old := &tls.Config{Certificates: []tls.Certificate{pair(t, e.others, "client")}}, &tls.Config{MaxVersion: tls.VersionTLS12}
	asks := func(ca string) string { return ", clientValidation: {caCertificateRefs: [{name: " + ca + "}]}" }
	wild, wildRSA := https("wild", "*.io", "wild", ""), shown("wild", "wild", "ECDSA", "*.io")
	for _, step := range []struct {
		what                    string
		listeners, certificates string
		check                   func()
	}{
		{"one more", https("a", "a.io", "a", ""), shown("a", "a", "ECDSA", "a.io"), func() {
			e.expect("a.io", "200", "a", anyone)
			e.expect("b.io", "", "", anyone)
		}},
		{"another name of it", https("renamed", "a.io", "a", ""), shown("renamed", "a", "ECDSA", "a.io"), func() {
			e.expect("a.io", "200", "a", anyone)
		}},
		{"another hostname", https("a", "b.io", "b", ""), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("a.io", "", "", anyone)
			e.expect("b.io", "200", "b", anyone)
		}},
		{"another certificate", https("a", "b.io", "b2", ""), shown("a", "b2", "RSA", "b.io"), func() {
			e.expect("b.io", "200", "b2", anyone)
		}},
		{"a minimum version", https("a", "b.io", "b", ", minVersion: TLSv1.3"), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "", "", old)
			e.expect("b.io", "200", "b", anyone)
		}},
		{"a lower one", https("a", "b.io", "b", ""), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "200", "b", old)
		}},
		{"client certificates", https("a", "b.io", "b", asks("ca")), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "", "", anyone)
			e.expect("b.io", "", "", other)
			e.expect("b.io", "200", "b", client)
		}},
		{"those of a CA that HAProxy did not know", https("a", "b.io", "b", asks("others")), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "", "", client)
			e.expect("b.io", "200", "b", other)
		}},
		{"revoked ones", https("a", "b.io", "b", asks("revoking")), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "", "", &tls.Config{Certificates: []tls.Certificate{keyPair(t, e.revoked)}})
			e.expect("b.io", "200", "b", client)
		}},
		{"another list of them", https("a", "b.io", "b", asks("revoking")+", minVersion: TLSv1.3"), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "200", "b", client)
		}},
		{"none", https("a", "b.io", "b", ""), shown("a", "b", "ECDSA", "b.io"), func() {
			e.expect("b.io", "200", "b", anyone)
		}},
		{"a wildcard", wild, wildRSA, func() {
			e.expect("b.io", "200", "wild", anyone)
			e.expect("kept.io", "200", "kept", anyone)
		}},
		{"an exact name with an RSA key below it", wild + https("exact", "exact.io", "exact", asks("ca")), wildRSA + shown("exact", "exact", "RSA", "exact.io"), func() {
			e.expect("exact.io", "200", "exact", client)
			e.expect("exact.io", "", "", anyone)
			e.expect("b.io", "200", "wild", anyone)
		}},
		{"a shared certificate", https("one", "one.io", "shared", "") + https("two", "two.io", "shared", ""), shown("one", "shared", "ECDSA", "one.io") + shown("two", "shared", "ECDSA", "two.io"), func() {
			e.expect("one.io", "200", "shared", anyone)
			e.expect("two.io", "200", "shared", anyone)
		}},
		{"one less that shares it", https("two", "two.io", "shared", ""), shown("two", "shared", "ECDSA", "two.io"), func() {
			e.expect("one.io", "", "", anyone)
			e.expect("two.io", "200", "shared", anyone)
		}},
		{"none of them", "", "", func() { e.expect("two.io", "", "", anyone) }},
	} {
		for settled := false; ; settled = true {
			e.edit(settled, step.listeners, step.certificates)
			if settled || len(e.running.Held) == 0 {
				break
			}
		}
		step.check()
		if got := kept.send(get("kept.io", "/")); got.Status != 200 || kept.conn != conn {
			t.Errorf("%s: over a kept connection to another listener: got %d (the same connection: %t)", step.what, got.Status, kept.conn == conn)
		}
		if t.Failed() {
			t.Fatalf("failed with %s; HAProxy has\n%s\n%s", step.what, e.Worker("show ssl crt-list -n "+e.in.Paths.Map(fmt.Sprintf("certificates-%d.list", e.ports[443]))), e.Worker("show map "+e.in.Paths.Map(ir.NamesFile)))
		}
	}
}

// TestHandshakesThatBeganBefore: who began a handshake before a listener trusts other CAs, and ends it afterwards, does
// not get to the listener of now.
func TestHandshakesThatBeganBefore(t *testing.T) {
	t.Parallel()
	asks := func(ca string) string {
		return https("a", "a.io", "a", ", clientValidation: {caCertificateRefs: [{name: "+ca+"}]}")
	}
	certificates := shown("a", "a", "ECDSA", "a.io")
	e := startEdited(t, asks("others"), certificates)
	before, now := &tls.Config{Certificates: []tls.Certificate{pair(t, e.others, "client")}}, &tls.Config{Certificates: []tls.Certificate{pair(t, e.ca, "client")}}
	early := newClient(t, e.ports[443])
	raw := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", e.ports[443])))(t)
	slow := &pausing{Conn: raw, resume: make(chan struct{}), paused: make(chan struct{})}
	conn := tls.Client(slow, &tls.Config{ServerName: "a.io", InsecureSkipVerify: true, Certificates: before.Certificates}) //nolint:gosec // it looks at what is answered
	early.conn, early.reader = conn, bufio.NewReader(conn)
	ended := make(chan error, 1)
	go func() { ended <- conn.Handshake() }()
	<-slow.paused
	e.edit(false, asks("ca"), certificates)
	e.expect("a.io", "", "", before)
	e.expect("a.io", "200", "a", now)
	close(slow.resume)
	must.Do(t, <-ended)
	if got := early.send(get("a.io", "/")); got.Status != 200 {
		t.Errorf("while such handshakes may end, they get %d, want what the listener had before", got.Status)
	}
	if again := e.plan(false, asks("ca"), certificates); !again.Empty() || again.Switches {
		t.Errorf("while such handshakes may end, HAProxy is told %+v", again)
	}
	if p := e.change(false, asks("others"), certificates); p.Reload != ir.ReloadCertificates {
		t.Errorf("connections of both kinds would be one to the listener of before: got %q, want a reload", p.Reload)
	}
	e.edit(true, asks("ca"), certificates)
	e.expect("a.io", "200", "a", now)
	if got, err := early.try(get("a.io", "/")); early.conn == conn && err == nil {
		t.Errorf("who began a handshake before gets %d", got.Status)
	}
}

// TestOutdatedConnections: a connection that does not meet what its listener demands by now is closed, so that its
// client makes another one.
func TestOutdatedConnections(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		e := startEdited(t, https("a", "a.io", "a", ""), shown("a", "a", "ECDSA", "a.io"))
		client := httpsClient(t, e.ports[443], &tls.Config{ServerName: "a.io", InsecureSkipVerify: true, NextProtos: []string{protocol}}) //nolint:gosec // it looks at what is answered
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "h2"
		expect := func(what string) {
			t.Helper()
			got, err := fetch(client, "https://a.io/", "a.io")
			if err != nil || got.Status != 200 || (got.Proto == "HTTP/2.0") != (protocol == "h2") {
				t.Errorf("%s: got %d by %s (%v)", what, got.Status, got.Proto, err)
			}
		}
		expect("before")
		for settled := range 2 {
			e.edit(settled == 1, https("a", "a.io", "a", ", minVersion: TLSv1.3"), shown("a", "a", "ECDSA", "a.io"))
		}
		if _, err := fetch(client, "https://a.io/", "a.io"); err == nil && protocol == "h2" {
			t.Error("over HTTP/2, a client that cannot know which requests were carried out got an answer")
		}
		expect("by another connection")
	}
}

// TestHandshakesEnd: HAProxy closes connections whose handshake takes longer than ir.HandshakeTimeout, here a part of
// it.
func TestHandshakesEnd(t *testing.T) {
	t.Parallel()
	e := startEdited(t, "", "")
	files := render.Render(e.in).AllFiles()
	before := fmt.Sprintf("timeout client-hs %dms\n", ir.HandshakeTimeout.Milliseconds())
	config := strings.ReplaceAll(string(files[ir.ConfigFile]), before, "timeout client-hs 50ms\n")
	if config == string(files[ir.ConfigFile]) {
		t.Fatal("handshakes may take as long as they like")
	}
	files[ir.ConfigFile] = []byte(config)
	e.WriteFiles(files)
	e.Master("reload")
	conn := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", e.ports[443])))(t)
	defer conn.Close() //nolint:errcheck // the other side closes it
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("a handshake goes on: %v", err)
	}
}

// pausing is a connection that stops before its second write, which ends a handshake.
type pausing struct {
	net.Conn
	resume, paused chan struct{}
	writes         int
}

func (c *pausing) Write(b []byte) (int, error) {
	if c.writes++; c.writes == 2 {
		close(c.paused)
		<-c.resume
	}
	return c.Conn.Write(b)
}
