package dataplanetest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
)

// selectionWorld has listeners that ask for certificates of different authorities, on one port with one for every
// hostname.
const selectionWorld = `
spec:
  listeners:
    - {name: any, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: any}], clientValidation: {mode: Optional, caCertificateRefs: [{name: guests}]}}}
    - {name: wild, port: 443, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: wild}]}}
    - {name: partners, port: 443, protocol: HTTPS, hostname: partners.example.com, tls: {certificateRefs: [{name: partners}], clientValidation: {caCertificateRefs: [{name: partners}]}}}
    - {name: guests, port: 443, protocol: HTTPS, hostname: guests.example.com, tls: {certificateRefs: [{name: guests}], clientValidation: {caCertificateRefs: [{name: guests}]}}}
    - {name: secret, port: 443, protocol: HTTPS, hostname: "*.secret.example.org", tls: {certificateRefs: [{name: secret}], clientValidation: {caCertificateRefs: [{name: partners}]}}}
    - {name: broken, port: 443, protocol: HTTPS, hostname: "*.broken.example.org", tls: {certificateRefs: [{name: broken}], clientValidation: {caCertificateRefs: [{name: missing}]}}}
    - {name: closed, port: 443, protocol: HTTPS, hostname: closed.example.com, tls: {certificateRefs: [{name: closed}], clientValidation: {caCertificateRefs: [{name: missing}]}}}
    - {name: open, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: any}]}}
    - {name: first, port: 445, protocol: HTTPS, tls: {certificateRefs: [{name: stray}]}}
    - {name: named, port: 445, protocol: HTTPS, hostname: partners.example.com, tls: {certificateRefs: [{name: partners}], clientValidation: {caCertificateRefs: [{name: partners}]}}}
    - {name: none, port: 446, protocol: HTTPS, tls: {certificateRefs: [{name: none}]}}
    - {name: some, port: 446, protocol: HTTPS, hostname: guests.example.com, tls: {certificateRefs: [{name: guests}]}}
  routes: [{name: r, rules: [{backendRefs: [{name: one, port: 80}]}]}]
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
certificates:
  any: [{secret: any, names: [any.example.org]}]
  open: [{secret: any, names: [any.example.org]}]
  first: [{secret: stray, names: [partners.example.com]}]
  wild: [{secret: wild, names: ["*.example.com"]}, {secret: stray, names: [partners.example.com]}]
  named: [{secret: partners, names: [partners.example.com]}]
  some: [{secret: guests, names: [guests.example.com]}]
  closed: [{secret: closed, names: [closed.example.com]}]
  partners: [{secret: partners, names: [partners.example.com]}]
  guests: [{secret: guests, names: [guests.example.com]}]
  secret: [{secret: secret, names: [known.secret.example.org]}]
  broken: [{secret: broken, names: ["*.broken.example.org"]}]
`

// startSelection runs HAProxy for selectionWorld. The listener with the wildcard has ECDSA certificates, which HAProxy
// prefers, and all others have RSA. The authorities sign clients' certificates.
func startSelection(t *testing.T) (g *gateway, guests, partners *certtest.Authority) {
	t.Helper()
	guests, partners = certtest.NewAuthority(t), certtest.NewAuthority(t)
	rsa := certtest.RSA(t, 2048)
	g = startGatewayWith(t, rendertest.Parse(t, selectionWorld), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		in.Authorities["guests"], in.Authorities["partners"] = guests.PEM, partners.PEM
		for _, certificates := range in.Certificates {
			for i, c := range certificates {
				var options []certtest.Option
				if c.Secret != "wild" && c.Secret != "stray" {
					certificates[i].KeyType = "RSA"
					options = append(options, rsa)
				}
				writeSecret(t, in.Paths, c.Secret, guests.Issue(t, c.Names, options...))
			}
		}
	})
	return g, guests, partners
}

// visit connects with a server name and client certificates, and asks for a page of that host. It returns the status,
// "" if the connection is refused, with the name in the server's certificate, and whether a session was resumed.
func visit(t testing.TB, port int32, client *tls.Config) (status, certificate string, resumed bool) {
	t.Helper()
	client.InsecureSkipVerify = true //nolint:gosec // it looks at what is answered
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), client)
	if err != nil {
		return "", "", false
	}
	defer conn.Close() //nolint:errcheck // it was read to its end
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", client.ServerName)
	answer, _ := io.ReadAll(conn)
	status, _, _ = strings.Cut(strings.TrimPrefix(string(answer), "HTTP/1.1 "), " ")
	state := conn.ConnectionState()
	return status, state.PeerCertificates[0].DNSNames[0], state.DidResume
}

// TestTheListenerOfTheNameDecides: which certificate is shown, and which are asked for, goes by the listener of the
// name, whatever the types of keys; and who gets there by another listener's is sent away.
func TestTheListenerOfTheNameDecides(t *testing.T) {
	t.Parallel()
	g, guests, partners := startSelection(t)
	guest, partner := []tls.Certificate{pair(t, guests, "client")}, []tls.Certificate{pair(t, partners, "client")}
	tests := map[string]struct {
		port         int32
		name         string
		certificates []tls.Certificate
		status       string
		certificate  string
	}{
		"a wildcard":                                                        {443, "a.example.com", nil, "200", "*.example.com"},
		"a name that a wildcard is for too":                                 {443, "partners.example.com", partner, "200", "partners.example.com"},
		"the same with a certificate of another authority":                  {443, "partners.example.com", guest, "", "partners.example.com"},
		"the same without a certificate":                                    {443, "partners.example.com", nil, "", "partners.example.com"},
		"a name that its listener's certificate is for":                     {443, "known.secret.example.org", partner, "200", "known.secret.example.org"},
		"a name that it is not for":                                         {443, "other.secret.example.org", guest, "421", "any.example.org"},
		"a name of a listener without its authority":                        {443, "a.broken.example.org", guest, "421", "any.example.org"},
		"a name of the listener for every hostname":                         {443, "a.example.net", guest, "200", "any.example.org"},
		"a name of several labels that no wildcard stands for":              {443, "a.b.example.com", nil, "421", "any.example.org"},
		"a name below a wildcard of a listener without its authority":       {443, "closed.example.com", guest, "421", "*.example.com"},
		"a name that only the certificate is for, not its listener":         {445, "partners.example.com", nil, "", ""},
		"a name of the listener for every hostname that has no certificate": {446, "a.example.net", nil, "", ""},
		"another name, which the first certificate is shown for":            {445, "a.example.net", nil, "200", "partners.example.com"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, certificate, _ := visit(t, g.ports[test.port], &tls.Config{ServerName: test.name, Certificates: test.certificates})
			if status != test.status || status != "" && certificate != test.certificate {
				t.Errorf("got %q with the certificate of %q, want %q with that of %q", status, certificate, test.status, test.certificate)
			}
		})
	}
}

// oneSession is a cache that offers the last session for every name.
type oneSession struct{ session *tls.ClientSessionState }

func (c *oneSession) Get(string) (*tls.ClientSessionState, bool) { return c.session, c.session != nil }

func (c *oneSession) Put(_ string, session *tls.ClientSessionState) {
	if session != nil {
		c.session = session
	}
}

// TestNoSessionIsTakenToAnotherListener: with it would go a client certificate that the other listener does not trust.
// A port whose clients show none resumes sessions.
func TestNoSessionIsTakenToAnotherListener(t *testing.T) {
	t.Parallel()
	g, guests, _ := startSelection(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := func(name string, cache tls.ClientSessionCache) *tls.Config {
			return &tls.Config{ServerName: name, MaxVersion: version, ClientSessionCache: cache, Certificates: []tls.Certificate{pair(t, guests, "client")}}
		}
		cache := &oneSession{}
		if status, _, _ := visit(t, g.ports[443], client("guests.example.com", cache)); status != "200" {
			t.Errorf("a guest gets %q", status)
		}
		if status, _, resumed := visit(t, g.ports[443], client("partners.example.com", cache)); status != "" || resumed {
			t.Errorf("a guest's session gets %q from the partners' listener (resumed: %v)", status, resumed)
		}
		cache = &oneSession{}
		for _, want := range []bool{false, true} {
			if status, _, resumed := visit(t, g.ports[444], client("any.example.org", cache)); status != "200" || resumed != want {
				t.Errorf("where no client shows a certificate: got %q (resumed: %v, want %v)", status, resumed, want)
			}
		}
	}
}

// neighboursWorld has two listeners that ask for no certificates on one port.
const neighboursWorld = `
spec:
  listeners:
    - {name: a, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: a}]}}
    - {name: b, port: 443, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: b}]}}
  routes:
    - name: r
      rules:
        - {backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {value: /gone}}], filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301}}]}
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
certificates:
  a: [{secret: a, names: [a.example.com]}]
  b: [{secret: b, names: [b.example.com]}]
`

// TestEachRequestOfAConnectionIsJudged: what was found for an earlier request goes for those to the same listener, and
// as long as the map is the same.
func TestEachRequestOfAConnectionIsJudged(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	g := startGatewayWith(t, rendertest.Parse(t, neighboursWorld), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		for _, name := range []string{"a", "b"} {
			writeSecret(t, in.Paths, name, ca.Issue(t, []string{name + ".example.com"}))
		}
	})
	conn := must.Get(tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[443]), &tls.Config{ServerName: "a.example.com", RootCAs: ca.Pool()}))(t)
	c := newClient(t, g.ports[443])
	c.conn, c.reader = conn, bufio.NewReader(conn)
	expect := func(host, path string, want int) {
		t.Helper()
		if got := c.send(get(host, path)); got.Status != want || c.conn != conn {
			t.Errorf("%s%s gets %d, want %d (over the same connection: %v)", host, path, got.Status, want, c.conn == conn)
		}
	}
	for range 2 {
		expect("a.example.com", "/", 200)
		expect("a.example.com", "/", 200)
		expect("b.example.com", "/", 421)
		expect("b.example.com", "/gone", 421)
		expect("a.example.com", "/gone", 301)
	}
}

// TestMisdirectedRequestsWithoutRoute: a request over a connection for another listener is answered with 421, also
// where its hostname has no route or its route no backend. A hostname of no listener is answered with 404.
func TestMisdirectedRequestsWithoutRoute(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners:
    - {name: any, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: any}]}}
    - {name: second, port: 443, protocol: HTTPS, hostname: second.example, tls: {certificateRefs: [{name: second}]}}
    - {name: alone, port: 444, protocol: HTTPS, hostname: second.example, tls: {certificateRefs: [{name: second}]}}
  routes:
    - {name: known, hostnames: [second.example], rules: [{backendRefs: [{name: one, port: 80}]}]}
    - {name: missing, hostnames: [missing.example], rules: [{backendRefs: [{name: missing, port: 80}]}]}
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
certificates:
  any: [{secret: any, names: [any.example]}]
  second: [{secret: second, names: [second.example]}]
  alone: [{secret: second, names: [second.example]}]
`), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		for _, name := range []string{"any", "second"} {
			writeSecret(t, in.Paths, name, ca.Issue(t, []string{name + ".example"}))
		}
	})
	for _, test := range []struct {
		port       int32
		name, host string
		want       int
	}{
		{443, "second.example", "second.example", 200},
		{443, "second.example", "unknown.example", 421},
		{443, "second.example", "Unknown.example:443", 421},
		{443, "second.example", "missing.example", 421},
		{443, "any.example", "unknown.example", 404},
		{443, "any.example", "missing.example", 500},
		{443, "any.example", "second.example", 421},
		{444, "second.example", "unknown.example", 404},
	} {
		for _, protocol := range []string{"h2", "http/1.1"} {
			client := httpsClient(t, g.ports[test.port], &tls.Config{ServerName: test.name, RootCAs: ca.Pool(), NextProtos: []string{protocol}})
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "h2"
			got, err := fetch(client, "https://"+test.name, test.host)
			if err != nil || got.Status != test.want || (got.Proto == "HTTP/2.0") != (protocol == "h2") {
				t.Errorf("%s: a connection for %s and a request for %s: got %d by %s (%v), want %d", protocol, test.name, test.host, got.Status, got.Proto, err, test.want)
			}
		}
	}
}
