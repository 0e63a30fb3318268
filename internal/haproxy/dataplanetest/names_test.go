package dataplanetest_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
)

// TestNamesThatHAProxyCannotVerify is why gateway-keys connects where a BackendTLSPolicy has subjectAltNames: HAProxy
// verifies the name that it asks for, verifyhost counts only without SNI, and rules see a server's certificate once it
// has the request.
func TestNamesThatHAProxyCannotVerify(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	asked := make(chan string, 10)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.TLS.ServerName }, func(server *httptest.Server) {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "good.internal")}}
		server.StartTLS()
	})
	paths, port := haproxytest.NewPaths(t), haproxytest.FreePort(t)
	line := fmt.Sprintf("    server s %s ssl ca-file %s ", ir.ServerAddress(server), filepath.Join(paths.ConfigDir, "ca.pem"))
	haproxytest.Start(t, paths, map[string][]byte{"ca.pem": ca.PEM, ir.ConfigFile: fmt.Appendf(nil, `global
    stats socket %s/worker.sock level admin
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 10s
    retries 0
frontend f
    bind 127.0.0.1:%d
    use_backend %%[path,field(2,/)]
backend other-sni
%sverify required sni str(other.internal) verifyhost good.internal
backend no-sni
%sverify required no-sni-auto verifyhost good.internal
backend rules
    http-request deny deny_status 400 if { ssl_s_der -m found }
    http-response deny deny_status 403 if { ssl_s_der -m found }
%sverify none sni str(other.internal)
`, paths.RunDir, port, line, line, line)})
	for _, test := range []struct {
		path   string
		status int
		// sni is what the server is asked for; "-": no request comes.
		sni string
	}{{"/other-sni", 503, "-"}, {"/no-sni", 200, ""}, {"/rules", 403, "other.internal"}} {
		got := newClient(t, port).send(get("x", test.path))
		sni := "-"
		select {
		case sni = <-asked:
		default:
		}
		if got.Status != test.status || sni != test.sni {
			t.Errorf("%s: got %d, and the server was asked for %q, want %d and %q", test.path, got.Status, sni, test.status, test.sni)
		}
	}
}
