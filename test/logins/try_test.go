package logins_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	"sigs.k8s.io/yaml"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const tried = `
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {name: login}
spec:
  filters:
    - type: OIDC
      oidc:
        issuer: ISSUER
        clientID: shop
        secretRef: {name: login}
        caCertificateRefs: [{name: id-ca}]
        scopes: [email]
        claimsToHeaders: [{claim: email, header: X-Email}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop}
spec:
  gatewayClassName: gateway
  listeners:
    - {name: https, port: PORT, protocol: HTTPS, tls: {certificateRefs: [{name: shop-tls}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: shop}]
  hostnames: [shop.example.com]
  rules:
    - filters:
        - type: ExtensionRef
          extensionRef: {group: app.example.com, kind: RouteFilter, name: login}
      backendRefs: [{name: web, port: 80}]
`

// TestTry: who tries a file with an OIDC logs in at the provider, if gateway-login is beside the plugin.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"kubectl-gateway", "gateway-login"} {
		testenv.Run(t, filepath.Join(testbuild.MustRoot(t), "cmd", program), []string{"GOWORK=off"}, "go", "build", "-o", dir+"/", ".")
	}
	provider, authority := startProvider(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Header.Get("X-Email"))
	}))
	t.Cleanup(backend.Close)
	port := strconv.Itoa(int(haproxytest.FreePort(t)))
	file := filepath.Join(dir, "shop.yaml")
	content := strings.NewReplacer("ISSUER", provider.Issuer(), "PORT", port).Replace(tried)
	content += object(t, "ConfigMap", "id-ca", "data", map[string]string{"ca.crt": string(authority.PEM)})
	content += object(t, "Secret", "login", "stringData", map[string]string{
		"session-keys": strings.Repeat("ab", 32), "client-secret": provider.ClientSecret, "issuer": provider.Issuer(),
	})
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
	running := testenv.Start(t, nil, filepath.Join(dir, "kubectl-gateway"), "try", "-f", file, "--endpoint", "web:80="+backend.Listener.Addr().String())
	testenv.Eventually(t, time.Minute, "the Gateway to run", func(context.Context) error {
		if out := running.Output(); !strings.Contains(out, "Save a file") {
			return fmt.Errorf("it prints %q, %w", out, running.Running())
		}
		return nil
	})
	jar := must.Get(cookiejar.New(nil))(t)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // both are of this test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, strings.Replace(address, "shop.example.com", "127.0.0.1", 1))
		},
	}}
	t.Cleanup(browser.CloseIdleConnections)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example.com:"+port+"/cart", nil))(t)
	request.Header.Set("Accept", "text/html")
	answer, err := browser.Do(request)
	must.Do(t, err)
	defer func() { _ = answer.Body.Close() }()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || string(body) != "/cart of jane.doe@example.com" {
		t.Errorf("got %s, %q\n%s", answer.Status, body, running.Output())
	}
}

// startProvider starts an OpenID provider at an address of this machine, where anyone is logged in.
func startProvider(t *testing.T) (*mockoidc.MockOIDC, *certtest.Authority) {
	t.Helper()
	provider := must.Get(mockoidc.NewServer(nil))(t)
	provider.ClientID = "shop"
	// It knows client_secret_post alone.
	must.Do(t, provider.AddMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id, secret, ok := r.BasicAuth(); ok && r.ParseForm() == nil {
				r.Form.Set("client_id", id)
				r.Form.Set("client_secret", secret)
			}
			next.ServeHTTP(w, r)
		})
	}))
	authority, address := certtest.NewAuthority(t), testenv.OwnAddress(t)
	pair := authority.Issue(t, nil, certtest.Addresses(net.ParseIP(address)))
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(address, "0")))(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	must.Do(t, provider.Start(tls.NewListener(listener, config), config))
	t.Cleanup(func() { _ = provider.Shutdown() })
	return provider, authority
}

// object returns a document with a ConfigMap or a Secret.
func object(t *testing.T, kind, name, field string, content map[string]string) string {
	t.Helper()
	text := must.Get(yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]string{"name": name}, field: content}))(t)
	return "---\n" + string(text)
}
