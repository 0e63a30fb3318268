package oidc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/login"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// common are the settings of all filters. ISSUER is replaced.
const common = `issuer: ISSUER, secretRef: {name: login}, caCertificateRefs: [{name: provider-cas}],
  scopes: [email, groups, profile, offline_access], loggedOutPath: /open, claimsToHeaders: [{claim: email, header: X-Email}, {claim: groups, header: X-Groups}]`

// filterGateway has rules with the filter OIDC, and one without. COMMON and PORT are replaced.
const filterGateway = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: logins, namespace: shop}
spec:
  listeners: [{name: https, port: PORT, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop-tls}]}}]
  routes:
    - name: shop
      rules:
        - filters: [{type: OIDC, oidc: {clientID: shop, requiredClaims: [{claim: groups, values: [authors, admins]}], COMMON}}]
          backendRefs: [{name: echo-v1, port: 80}]
        - matches: [{path: {value: /admin}}]
          filters: [{type: OIDC, oidc: {clientID: shop, requiredClaims: [{claim: groups, values: [admins]}], COMMON}}]
          backendRefs: [{name: echo-v1, port: 80}]
        - matches: [{path: {value: /other}}]
          filters: [{type: OIDC, oidc: {clientID: other, COMMON}}]
          backendRefs: [{name: echo-v1, port: 80}]
        - matches: [{path: {value: /token}}]
          filters: [{type: OIDC, oidc: {clientID: shop, forwardToken: ID, COMMON}}]
          backendRefs: [{name: echo-v1, port: 80}]
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: echo-v1, port: 80}]
`

// loginSite is a Gateway whose users log in by the filter.
type loginSite struct {
	*site

	idp *provider
	// logins are what the container of gateway-login mounts.
	logins *certtest.Volume
	// keys are the keys of sessions.
	keys     login.Keys
	settings login.Settings
	// program is gateway-login.
	program *testenv.Program
}

const sessionKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

// startLoginSite starts a Gateway, with replacements in its text, and the provider of a module.
func startLoginSite(t *testing.T, module string, args []string, replacements ...string) *loginSite {
	t.Helper()
	s := &loginSite{
		site:   &site{t: t, app: make(chan *http.Request, 100), authority: certtest.NewAuthority(t), secrets: certtest.NewVolume(t), port: haproxytest.FreePort(t)},
		logins: certtest.NewVolume(t),
	}
	s.idp = startProvider(t, s.authority, module, append(args, "-redirect="+site443+"/oauth2/callback")...)
	s.makeNamespace()
	text := strings.NewReplacer(append(replacements, "COMMON", strings.ReplaceAll(common, "ISSUER", s.idp.issuer), "PORT", itoa(s.port))...).Replace(filterGateway)
	gateway := &appv1.Gateway{}
	must.Do(t, yaml.UnmarshalStrict([]byte(text), gateway))
	gateway = must.Get(server.App.AppV1().Gateways(namespace).Create(t.Context(), gateway, metav1.CreateOptions{}))(t)
	s.settings = login.Settings{Issuer: s.idp.issuer, ClientID: "shop", Secret: "login"}
	s.putKeys(sessionKey)
	authorities := certtest.NewVolume(t)
	authorities.Put(map[string][]byte{"provider-cas/ca.crt": s.authority.PEM})
	socket := filepath.Join(t.TempDir(), "login.sock")
	s.startProgram(authorities.Dir, socket)
	s.agentArgs = []string{"-users=login", "-configmap=provider-cas", "-authorities-dir=" + authorities.Dir, "-login-socket=" + socket}
	s.startApp()
	s.startGateway(gateway)
	return s
}

// startProgram starts gateway-login.
func (s *loginSite) startProgram(authorities, socket string) {
	s.t.Helper()
	s.program = testenv.Start(s.t, nil, testbuild.Program(s.t, "cmd/gateway-login"),
		"-secrets-dir="+s.logins.Dir, "-authorities-dir="+authorities, "-socket="+socket, "-logtostderr", "-v=1")
	testenv.Eventually(s.t, soon, "gateway-login to answer", func(context.Context) error {
		_, err := os.Stat(socket)
		return err
	})
}

// putKeys edits the Secret.
func (s *loginSite) putKeys(lines string) {
	s.t.Helper()
	s.keys, _ = login.ParseKeys([]byte(lines))
	secret := map[string][]byte{"login/session-keys": []byte(lines), "login/issuer": []byte(s.idp.issuer)}
	s.secrets.Put(secret)
	secret["login/client-secret"] = []byte(clientSecret)
	s.logins.Put(secret)
}

// eventuallyHas waits until HAProxy has the keys of some lines, and no others.
func (s *loginSite) eventuallyHas(lines string) {
	s.t.Helper()
	keys, _ := login.ParseKeys([]byte(lines))
	testenv.Eventually(s.t, soon, "HAProxy to have the keys", func(context.Context) error {
		shown := s.haproxy.Worker("show map opt@" + s.pairs + "/_/session-keys.map\n")
		for _, key := range keys {
			if !strings.Contains(shown, key.ID+"/login "+key.HAProxyKey()) {
				return errors.New("it has not")
			}
		}
		if strings.Count(shown, "/login ") != len(keys) {
			return errors.New("it has others")
		}
		return nil
	})
}

// aPage is what browsers send when they ask for a page.
var aPage = http.Header{"Accept": {"text/html,*/*"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Site": {"none"}}

// TestFilter: users log in at a real provider, by the filter OIDC.
func TestFilter(t *testing.T) {
	s := startLoginSite(t, "hack/dex", nil)
	browser := s.newBrowser()
	if got := s.get(browser, page, aPage); got.status != http.StatusOK || got.url != page {
		t.Fatalf("after the login: got %+v", got)
	}
	s.expectKilgore("/orders?id=1")

	s.testSession(browser)
	s.testWithoutSession()
	s.testForgedSessions(browser)
	s.testOtherRules(browser)
	s.testCallbacks()
	s.testTabs()
	s.testRenewal()
	s.testSilentRenewal()
	s.testTwoTabs()
	s.testKeys()
	s.testLogout()
	s.testProviderDown()
	s.testProgramDown()
}

// expectKilgore looks at the one request that the backend has got: it is of dex's user.
func (s *loginSite) expectKilgore(uri string) *http.Request {
	s.t.Helper()
	if len(s.app) != 1 {
		s.t.Fatalf("the backend got %d requests", len(s.app))
	}
	got := <-s.app
	if got.RequestURI != uri || fmt.Sprint(got.Header["X-Email"], got.Header["X-Groups"]) != `[kilgore@kilgore.trout] [["authors"]]` || strings.Contains(fmt.Sprint(got.Header), "gateway-") {
		s.t.Errorf("the backend got %s with %v", got.RequestURI, got.Header)
	}
	return got
}

func itoa(port int32) string { return strconv.Itoa(int(port)) }

func tlsConfig(t *testing.T, pair certtest.Pair) *tls.Config {
	t.Helper()
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
}
