package dataplanetest_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
)

const variablesWorld = `
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
  trustedProxies: [127.0.0.0/8]
  routes:
    - name: shop
      rules:
        - filters:
            - {type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: X-Route, value: filter}]}}
            - type: HeaderVariables
              headerVariables:
                set:
                  - {name: X-Service, variable: BackendService}
                  - {name: X-Route, variable: Route}
                  - {name: X_Client, variable: ClientAddress}
                  - {name: X-TLS, variable: TLSVersion}
                  - {name: X-SNI, variable: TLSServerName}
                  - {name: X-ID, variable: RequestID}
          backendRefs: [{name: one, port: 80}, {name: two, port: 80}]
        - matches: [{path: {value: /plain}}]
          backendRefs: [{name: one, port: 80}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}, {service: two, port: 80, servers: ["127.0.0.1:1"]}]
certificates: {https: [{secret: cert, names: [a.example.com]}]}
`

// variableHeaders are the filter's headers, as a client forges them.
var variableHeaders = []string{"X-Service", "X-Route", "X-Client", "X_Client", "X-Tls", "X-Sni", "X-Id"}

// TestHeaderVariables: the backend gets what is so, whatever a client sends in these headers, and none without a value.
func TestHeaderVariables(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	g := startGatewayWith(t, rendertest.Parse(t, variablesWorld), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		writeSecret(t, in.Paths, "cert", ca.Issue(t, []string{"a.example.com"}))
	})
	forged := ""
	for _, name := range variableHeaders {
		forged += name + ": forged\r\n"
	}
	seen := map[string]bool{}
	for range 30 {
		got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n" + forged + "\r\n")
		seen[got.Header.Get("Backend")] = true
		for _, want := range []string{"X-Service: " + got.Header.Get("Backend") + "\r\n", "X-Route: shop\r\n", "X_client: 192.0.2.1\r\n"} {
			if !strings.Contains(strings.ReplaceAll(got.Body, "X_Client", "X_client"), want) {
				t.Fatalf("the backend lacks %q:\n%s", want, got.Body)
			}
		}
		id := regexp.MustCompile("X-Request-Id: (.*)\r\n").FindStringSubmatch(got.Body)
		if id == nil || !strings.Contains(got.Body, "X-Id: "+id[1]+"\r\n") {
			t.Fatalf("the backend got another ID:\n%s", got.Body)
		}
		if strings.Contains(got.Body, "forged") || strings.Contains(got.Body, "X-Tls") || strings.Contains(got.Body, "X-Sni") {
			t.Fatalf("the backend got\n%s", got.Body)
		}
	}
	if !seen["one"] || !seen["two"] {
		t.Errorf("only %v were asked", seen)
	}
	if got := newClient(t, g.ports[80]).send("GET /plain HTTP/1.1\r\nHost: x\r\nX-Route: mine\r\n\r\n"); !strings.Contains(got.Body, "X-Route: mine\r\n") {
		t.Errorf("another rule removes what it does not name:\n%s", got.Body)
	}
	for said, want := range map[string]string{"::ffff:192.0.2.1": "192.0.2.1", "192.0.2.1:4711": "192.0.2.1", "2001:DB8::1": "2001:db8::1", "2002:c000:201::1": "2002:c000:201::1", "::192.0.2.1": "::192.0.2.1"} {
		got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: " + said + "\r\n\r\n")
		if !strings.Contains(strings.ToLower(got.Body), "x_client: "+want+"\r\n") {
			t.Errorf("%s: the backend got\n%s", said, got.Body)
		}
	}
	for name, want := range map[string]string{"A.example.com": "X-Sni: a.example.com\r\n", "b c": ""} {
		client := httpsClient(t, g.ports[443], &tls.Config{RootCAs: ca.Pool(), ServerName: name, MinVersion: tls.VersionTLS13, InsecureSkipVerify: true})
		got, err := fetch(client, "https://a.example.com/", "a.example.com")
		if err != nil || got.Status != http.StatusOK || !strings.Contains(got.Body, "X-Tls: TLSv1.3\r\n") {
			t.Fatal(fmt.Sprintf("%+v", got), err)
		}
		if !strings.Contains(got.Body, want) || want == "" && strings.Contains(got.Body, "X-Sni") {
			t.Errorf("%q: the backend got\n%s", name, got.Body)
		}
	}
}
