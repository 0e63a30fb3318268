package dataplanetest_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/systemroots"
)

// TestCertificatesForBackends: servers of haproxy.cfg and those that are added show the certificate, and a renewed one
// at once. Without one, nothing is sent. Health checks show it, too.
func TestCertificatesForBackends(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	demanding := func() ir.Server {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Shown", r.TLS.PeerCertificates[0].SerialNumber.String())
		}, func(server *httptest.Server) {
			server.TLS = &tls.Config{
				Certificates: []tls.Certificate{pair(t, ca, "good.internal")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
			}
			server.StartTLS()
		})
	}
	b := routing.Backend{Service: "b", Port: 80}
	const world = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}]
  backendClientCertificateRef: {name: proxies}
  backends: [{name: b, port: 80, tls: {caCertificateRefs: [{name: ca}], hostname: good.internal}, healthCheck: {path: /, interval: 100ms}}]
backends: [{service: b, port: 80}]
`
	first, second := ca.Issue(t, nil), ca.Issue(t, nil)
	start := func(has bool) *gateway {
		return startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
			in.Paths.CertificateDir, in.Authorities["ca"], in.HasBackendCertificate = t.TempDir(), ca.PEM, has
			writeSecret(t, in.Paths, "proxies", first)
			in.Backends[b] = render.BackendState{Exists: true, Servers: []ir.Server{demanding()}}
		})
	}
	g := start(true)
	shown := func() string { return newClient(t, g.ports[80]).send(get("x", "/")).Header.Get("Shown") }
	if got := shown(); got != first.Leaf.SerialNumber.String() {
		t.Errorf("a server of haproxy.cfg is shown %q", got)
	}
	worker := runtime.NewWorker(g.WorkerSocket)
	added := g.newServer(demanding())
	if err := errors.Join(worker.AddServer(t.Context(), added), worker.RemoveServer(t.Context(), added.Backend, g.in.Backends[b].Servers[0])); err != nil && !errors.Is(err, runtime.ErrServerBusy) {
		t.Fatal(err)
	}
	if got := shown(); got != first.Leaf.SerialNumber.String() {
		t.Errorf("a server that was added is shown %q", got)
	}
	file := filepath.Join(g.in.Paths.CertificateDir, "proxies", certificates.JoinedFile)
	must.Do(t, worker.ReplaceCertificate(t.Context(), file, slices.Concat(second.Certificate, second.Key)))
	eventually(t, "the renewed certificate is shown", func() bool { return shown() == second.Leaf.SerialNumber.String() })
	eventually(t, "health checks pass", func() bool { return strings.Contains(g.Worker("show stat"), "L7OK") })
	without := g.in
	without.HasBackendCertificate = false
	running := render.Render(g.in)
	gone := plan.Diff(render.Render(without), running)
	if back := plan.Diff(running, gone.After); gone.Reload != "" || back.Reload != "" || gone.Empty() || back.Empty() {
		t.Errorf("it goes by %q and comes back by %q, want no reload", gone.Reload, back.Reload)
	}
	if got := newClient(t, start(false).ports[80]).send(get("x", "/")); got.Status != 500 {
		t.Errorf("without a certificate: got %d, want 500", got.Status)
	}
}

// TestPublicAuthorities: HAProxy takes all of them, and refuses a certificate of nobody they know.
func TestPublicAuthorities(t *testing.T) {
	t.Parallel()
	ca, b := certtest.NewAuthority(t), routing.Backend{Service: "b", Port: 80}
	server := serve(t, named("secure"), func(server *httptest.Server) {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "good.internal")}}
		server.StartTLS()
	})
	for name, test := range map[string]struct {
		known  []byte
		status int
	}{"an authority that is known": {ca.PEM, 200}, "one that is not": {nil, 503}} {
		g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}]
`), func(in *render.Input) {
			in.Authorities[model.SystemCAs] = slices.Concat(systemroots.PEM(), test.known)
			in.Table.Policies = map[routing.Backend]routing.BackendPolicy{b: {TLS: &model.BackendTLS{CAs: []string{model.SystemCAs}, ServerName: "good.internal"}}}
			in.Backends[b] = render.BackendState{Exists: true, Servers: []ir.Server{server}}
		})
		if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != test.status {
			t.Errorf("%s: got %d, want %d", name, got.Status, test.status)
		}
	}
}
