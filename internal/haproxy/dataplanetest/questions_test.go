package dataplanetest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/login"
	"gateway/internal/must"
)

const questionsWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - matches: [{path: {value: /service/hangs}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: hangs, port: 80}, timeout: 1m}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /service/works}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: works, port: 80}}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /login/hangs}}]
          filters: [{type: OIDC, oidc: {issuer: "https://hangs.example.com", clientID: shop, secretRef: {name: login}}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /login/works}}]
          filters: [{type: OIDC, oidc: {issuer: "https://works.example.com", clientID: shop, secretRef: {name: login}}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /password}}]
          filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /page/hangs}}]
          filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [404], statusCode: 410, backendRef: {name: hangs, port: 80}}]}}]
          backendRefs: [{name: missing, port: 80}]
        - matches: [{path: {value: /page/works}}]
          filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [404], statusCode: 410, backendRef: {name: works, port: 80}}]}}]
          backendRefs: [{name: missing, port: 80}]
backends: [{service: works, port: 80}, {service: hangs, port: 80}, {service: missing, port: 80}]
`

// TestQuestionsThatHang: a Service, a provider or a client whose questions get no answer takes so many places, and
// none of others'.
func TestQuestionsThatHang(t *testing.T) {
	t.Parallel()
	ctx, release := context.WithCancel(t.Context())
	defer release()
	hangs := func(http.ResponseWriter, *http.Request) { <-ctx.Done() }
	serveAt := func(path string, handler http.HandlerFunc) string {
		listener := must.Get(net.Listen("unix", path))(t)
		server := &http.Server{Handler: handler} //nolint:gosec // HAProxy asks
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		return path
	}
	g := startGatewayWith(t, rendertest.Parse(t, questionsWorld), func(in *render.Input) {
		in.Paths.LoginSocket = serveAt(filepath.Join(in.Paths.RunDir, "login.sock"), func(w http.ResponseWriter, r *http.Request) {
			if settings, err := login.ParseQuestion(r.URL.Path); err != nil || settings.Issuer == "https://hangs.example.com" {
				hangs(w, r)
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		in.Paths.UsersSocket = serveAt(filepath.Join(in.Paths.RunDir, "users.sock"), func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "hangs" {
				hangs(w, r)
			}
			w.Header().Set(ir.ClientHeader, "alice")
		})
		serveAll(t, in, handlers{"works": func(http.ResponseWriter, *http.Request) {}, "hangs": hangs, "missing": http.NotFound})
	})
	const most, more = 256, 10
	statuses := make(chan int, 4*(most+more))
	for path, refused := range map[string]int{"/service/hangs": 503, "/login/hangs": 503, "/password": 503, "/page/hangs": 404} {
		for range most + more {
			go func() {
				statuses <- newClient(t, g.ports[80]).send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: hangs\r\n\r\n", path)).Status
			}()
		}
		for range more {
			if status := <-statuses; status != refused {
				t.Fatalf("%s: got %d, want %d beyond %d questions", path, status, refused, most)
			}
		}
	}
	for path, want := range map[string]int{"/service/works": 200, "/login/works": 401, "/page/works": 410} {
		if got := newClient(t, g.ports[80]).send(get("x", path)); got.Status != want {
			t.Errorf("%s: got %d, want %d", path, got.Status, want)
		}
	}
	others := newClientFrom(t, "127.0.0.2", g.ports[80])
	if got := others.send(get("x", "/password")); got.Status != http.StatusOK {
		t.Errorf("another client got %d for a password", got.Status)
	}
	release()
	for range 4 * most {
		<-statuses
	}
}
