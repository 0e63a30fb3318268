package dataplanetest_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
)

const tlsWorld = `
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP, httpsRedirect: {}}
    - {name: shop, port: 443, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: rsa}, {name: ecdsa}], hsts: {includeSubDomains: true, preload: true}}}
    - {name: modern, port: 443, protocol: HTTPS, hostname: modern.example.com, tls: {certificateRefs: [{name: modern}], minVersion: TLSv1.3}}
    - {name: partners, port: 443, protocol: HTTPS, hostname: partners.example.com, tls: {certificateRefs: [{name: partners}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: guests, port: 443, protocol: HTTPS, hostname: guests.example.com, tls: {certificateRefs: [{name: guests}], clientValidation: {mode: Optional, caCertificateRefs: [{name: ca}]}}}
    - {name: any, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: any}]}}
    - {name: closed, port: 444, protocol: HTTPS, hostname: closed.example.com, tls: {certificateRefs: [{name: closed}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: lax, port: 446, protocol: HTTPS, tls: {certificateRefs: [{name: lax}], clientValidation: {mode: Optional, caCertificateRefs: [{name: ca}]}}}
    - {name: dead, port: 445, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}
  routes: [{name: r, rules: [{backendRefs: [{name: one, port: 80}]}]}]
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
certificates:
  shop: [{secret: rsa, keyType: RSA, names: ["*.example.com", deep.under.example.com]}, {secret: ecdsa, names: ["*.example.com"]}]
  modern: [{secret: modern, names: [modern.example.com]}]
  partners: [{secret: partners, names: [partners.example.com]}]
  guests: [{secret: guests, names: [guests.example.com]}]
  any: [{secret: any, names: [any.example.com]}]
  closed: [{secret: closed, names: [closed.example.com]}]
  lax: [{secret: lax, names: [lax.example.com]}]
authorities: {ca: PEM}
`

// startTLS runs HAProxy for tlsWorld, with certificates of the authority, which also signs clients' certificates.
func startTLS(t *testing.T) (*gateway, *certtest.Authority) {
	t.Helper()
	ca := certtest.NewAuthority(t)
	return startTLSWith(t, ca, ca.PEM), ca
}

// startTLSWith does so with a file about those who sign clients' certificates.
func startTLSWith(t *testing.T, ca *certtest.Authority, authorities []byte) *gateway {
	t.Helper()
	return startGatewayWith(t, rendertest.Parse(t, tlsWorld), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		in.Authorities["ca"] = authorities
		for i := range in.Table.Listeners {
			if listener := &in.Table.Listeners[i]; listener.Name == "lax" {
				listener.TLS.ClientUnverified = true
			}
		}
		for _, certificates := range in.Certificates {
			for _, c := range certificates {
				var options []certtest.Option
				if c.Secret == "rsa" {
					options = append(options, certtest.RSA(t, 2048))
				}
				writeSecret(t, in.Paths, c.Secret, ca.Issue(t, c.Names, options...))
			}
		}
	})
}

// httpsClient returns a client that asks for a server name and trusts the authority.
func httpsClient(t testing.TB, port int32, config *tls.Config) *http.Client {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetched is an answer, with its body read.
type fetched struct {
	Status int
	Proto  string
	Header http.Header
	Body   string
	// Certificate is the server's; nil without TLS.
	Certificate *x509.Certificate
}

// fetch gets a URL.
func fetch(client *http.Client, url string, host string) (fetched, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return fetched{}, err
	}
	request.Host = host
	request.Header.Set("Client-Cert", ":forged:")
	request.Header.Set("X-SSL-Client-Subject", "forged")
	response, err := client.Do(request)
	if err != nil {
		return fetched{}, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	got := fetched{Status: response.StatusCode, Proto: response.Proto, Header: response.Header, Body: string(body)}
	if response.TLS != nil {
		got.Certificate = response.TLS.PeerCertificates[0]
	}
	return got, err
}

func TestTLS(t *testing.T) {
	t.Parallel()
	g, ca := startTLS(t)
	tests := map[string]struct {
		port       int32
		name, host string
		config     *tls.Config
		status     int
		refused    string // a part of the error of the handshake, or "any"
	}{
		"a name of a wildcard":                   {443, "a.example.com", "a.example.com", &tls.Config{}, 200, ""},
		"a host with a port":                     {443, "a.example.com", "A.example.com:8443", &tls.Config{}, 200, ""},
		"TLS 1.2":                                {443, "a.example.com", "a.example.com", &tls.Config{MaxVersion: tls.VersionTLS12}, 200, ""},
		"TLS 1.1":                                {443, "a.example.com", "a.example.com", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, 0, "protocol version"},
		"a cipher suite without forward secrecy": {443, "a.example.com", "a.example.com", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}}, 0, "handshake failure"},
		"a name of several labels that is in the certificate":                   {443, "deep.under.example.com", "deep.under.example.com", &tls.Config{}, 200, ""},
		"a name that no certificate is for":                                     {443, "x.y.example.com", "x.y.example.com", &tls.Config{}, 0, "unrecognized name"},
		"another listener's hostname: 421":                                      {443, "a.example.com", "modern.example.com", &tls.Config{}, 421, ""},
		"another name of the same listener":                                     {443, "a.example.com", "b.example.com", &tls.Config{}, 200, ""},
		"a hostname of no listener":                                             {443, "a.example.com", "example.org", &tls.Config{}, 404, ""},
		"TLS 1.2 where 1.3 is wanted":                                           {443, "modern.example.com", "modern.example.com", &tls.Config{MaxVersion: tls.VersionTLS12}, 0, "protocol version"},
		"TLS 1.3 where it is wanted":                                            {443, "modern.example.com", "modern.example.com", &tls.Config{}, 200, ""},
		"no client certificate where one is required":                           {443, "partners.example.com", "partners.example.com", &tls.Config{}, 0, "any"},
		"a client certificate where one is required":                            {443, "partners.example.com", "partners.example.com", &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "client")}}, 200, ""},
		"a client certificate of someone else":                                  {443, "partners.example.com", "partners.example.com", &tls.Config{Certificates: []tls.Certificate{pair(t, certtest.NewAuthority(t), "client")}}, 0, "any"},
		"no client certificate, past the listener that requires one":            {443, "a.example.com", "partners.example.com", &tls.Config{}, 421, ""},
		"no client certificate where it is optional":                            {443, "guests.example.com", "guests.example.com", &tls.Config{}, 200, ""},
		"a wrong client certificate where it is optional":                       {443, "guests.example.com", "guests.example.com", &tls.Config{Certificates: []tls.Certificate{pair(t, certtest.NewAuthority(t), "client")}}, 0, "any"},
		"any name, where a listener takes all":                                  {444, "any.example.com", "any.example.com", &tls.Config{}, 200, ""},
		"a listener that requires a client certificate, by the name of another": {444, "any.example.com", "closed.example.com", &tls.Config{}, 421, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.config.ServerName, test.config.RootCAs = test.name, ca.Pool()
			got, err := fetch(httpsClient(t, g.ports[test.port], test.config), "https://"+test.name, test.host)
			switch {
			case test.refused != "":
				// With TLS 1.3 a client has sent its request before it learns that its certificate was refused, and may not learn
				// why.
				if err == nil || test.refused != "any" && !strings.Contains(err.Error(), test.refused) {
					t.Errorf("got %v, want an error with %q", err, test.refused)
				}
			case err != nil:
				t.Error(err)
			case got.Status != test.status:
				t.Errorf("got %d, want %d", got.Status, test.status)
			}
		})
	}
}

// TestTLSWithoutName connects by address: clients then ask for no name.
func TestTLSWithoutName(t *testing.T) {
	t.Parallel()
	g, _ := startTLS(t)
	anyone := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it looks at what is answered
	got, err := fetch(httpsClient(t, g.ports[444], anyone), "https://127.0.0.1", "other.example.org")
	if err != nil || got.Status != 200 || got.Certificate.DNSNames[0] != "any.example.com" {
		t.Errorf("where a listener takes all: %v", err)
	}
	if got, err := fetch(httpsClient(t, g.ports[444], anyone), "https://127.0.0.1", "closed.example.com"); err != nil || got.Status != 421 {
		t.Errorf("the hostname of another listener: got %v, want 421", err)
	}
	if _, err := fetch(httpsClient(t, g.ports[443], anyone), "https://127.0.0.1", "a.example.com"); err == nil {
		t.Error("where no listener takes all, a connection without a name was accepted")
	}
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[445])); err == nil {
		t.Error("a port without any certificate is open")
	}
}

func TestTLSCertificatesByKeyType(t *testing.T) {
	t.Parallel()
	g, ca := startTLS(t)
	for suite, want := range map[uint16]x509.PublicKeyAlgorithm{
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: x509.RSA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: x509.ECDSA,
	} {
		client := httpsClient(t, g.ports[443], &tls.Config{ServerName: "a.example.com", RootCAs: ca.Pool(), MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
		got, err := fetch(client, "https://a.example.com", "a.example.com")
		if err != nil || got.Certificate.PublicKeyAlgorithm != want {
			t.Errorf("with %s: got an error (%v) or another certificate", tls.CipherSuiteName(suite), err)
		}
	}
}

func TestTLSHeaders(t *testing.T) {
	t.Parallel()
	g, ca := startTLS(t)
	clientPair := pair(t, ca, "client")
	client := httpsClient(t, g.ports[443], &tls.Config{ServerName: "partners.example.com", RootCAs: ca.Pool(), Certificates: []tls.Certificate{clientPair}})
	got, err := fetch(client, "https://partners.example.com/", "partners.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if got.Proto != "HTTP/2.0" {
		t.Errorf("it speaks %s", got.Proto)
	}
	fingerprint := sha256.Sum256(clientPair.Certificate[0])
	for _, want := range []string{
		"Client-Cert: :" + base64.StdEncoding.EncodeToString(clientPair.Certificate[0]) + ":\r\n", "X-Ssl-Client-Fingerprint: " + hex.EncodeToString(fingerprint[:]) + "\r\n",
		"X-Ssl-Client-Subject: /CN=test\r\n", "X-Forwarded-Proto: https\r\n",
	} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("the backend did not get %q:\n%s", want, got.Body)
		}
	}
	got, err = fetch(httpsClient(t, g.ports[443], &tls.Config{ServerName: "a.example.com", RootCAs: ca.Pool()}), "https://a.example.com/", "a.example.com")
	if err != nil || strings.Contains(got.Body, "forged") || strings.Contains(got.Body, "Client-Cert") {
		t.Errorf("the backend got what the client forged (%v):\n%s", err, got.Body)
	}
	if header := got.Header.Get("Strict-Transport-Security"); header != "max-age=31536000; includeSubDomains; preload" {
		t.Errorf("Strict-Transport-Security is %q", header)
	}
	// Each hostname at the port where a listener takes it.
	for host, port := range map[string]int32{"shop.example.com": 443, "other.example.org": 444} {
		redirect := newClient(t, g.ports[80]).send(get(host+":8080", "/a?b=c"))
		if want := fmt.Sprintf("https://%s:%d/a?b=c", host, g.ports[port]); redirect.Status != 301 || redirect.Header.Get("Location") != want {
			t.Errorf("without TLS: got %d to %q, want 301 to %q", redirect.Status, redirect.Header.Get("Location"), want)
		}
		if redirect.Header.Get("Strict-Transport-Security") != "" {
			t.Error("Strict-Transport-Security is sent without TLS")
		}
	}
}

// TestUnverifiedClients: where an invalid certificate counts as none, its client is let in, and the backend learns of
// valid certificates alone.
func TestUnverifiedClients(t *testing.T) {
	t.Parallel()
	g, ca := startTLS(t)
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		told         bool
	}{
		"a valid one": {[]tls.Certificate{pair(t, ca, "client")}, true}, "one of someone else": {[]tls.Certificate{pair(t, certtest.NewAuthority(t), "client")}, false},
		"none": {nil, false},
	} {
		config := &tls.Config{ServerName: "lax.example.com", RootCAs: ca.Pool(), Certificates: test.certificates}
		got, err := fetch(httpsClient(t, g.ports[446], config), "https://lax.example.com/", "lax.example.com")
		if told := strings.Contains(got.Body, "Client-Cert: :"); err != nil || got.Status != 200 || told != test.told {
			t.Errorf("%s: got %d (%v), and the backend is told: %t", name, got.Status, err, told)
		}
	}
}

// TestCertificateChanges: what a listener for every hostname demands takes a reload, and so do the first and the last
// certificate of a port.
func TestCertificateChanges(t *testing.T) {
	in := rendertest.Parse(t, tlsWorld).Input(t)
	running := render.Render(in)
	for name, test := range map[string]struct {
		change func(in *render.Input)
		reload string
	}{
		"one fewer":         {func(in *render.Input) { in.Certificates["shop"] = in.Certificates["shop"][:1] }, ""},
		"another authority": {func(in *render.Input) { in.Authorities["ca"] = []byte("other") }, ir.ReloadCertificates},
	} {
		changed := rendertest.Parse(t, tlsWorld).Input(t)
		test.change(&changed)
		if got := plan.Diff(render.Render(changed), running); got.Reload != test.reload || got.Empty() {
			t.Errorf("%s: got %q, want %q", name, got.Reload, test.reload)
		}
	}
	last := rendertest.Parse(t, tlsWorld).Input(t)
	delete(last.Certificates, "any")
	delete(last.Certificates, "closed")
	if got := plan.Diff(render.Render(last), running); got.Reload != ir.ReloadPorts {
		t.Errorf("the last certificate of a port: got %q", got.Reload)
	}
	if names := slices.Sorted(maps.Keys(render.Render(last).Files)); slices.Contains(names, "certificates-444.list") {
		t.Errorf("a port without certificates has a list: %v", names)
	}
	clear(last.Certificates)
	if names := slices.Collect(maps.Keys(render.Render(last).Files)); len(names) != 0 {
		t.Errorf("without certificates, HAProxy would not read these: %v", names)
	}
}
