package agent

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
)

// newSecureEndpoint answers with the serial number of the certificate that it is shown. Without a good one, there is no
// connection.
func (r *tlsRig) newSecureEndpoint() *endpoint {
	r.t.Helper()
	pair := r.authority.Issue(r.t, []string{"api.internal"})
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	r.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: r.authority.Pool(), ClientAuth: tls.RequireAndVerifyClientCert},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			w.Header().Set("Connection", "close") // one that stays open has the certificate that it was opened with
			_, _ = io.WriteString(w, request.TLS.PeerCertificates[0].SerialNumber.String())
		}),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	r.t.Cleanup(func() { _ = server.Close() })
	return &endpoint{port: int32(listener.Addr().(*net.TCPAddr).Port)}
}

// newBackendRig returns a tlsRig whose Gateway sends requests to an endpoint that wants a certificate, and its spec.
func newBackendRig(t *testing.T) (*tlsRig, appv1.GatewaySpec) {
	t.Helper()
	r := newTLSRig(t, "proxies")
	r.authorities.Put(map[string][]byte{"staff/ca.crt": r.authority.PEM})
	r.createService("secure")
	r.createSlice("secure", "one", r.newSecureEndpoint())
	spec := r.spec("secure")
	spec.BackendClientCertificateRef = &appv1.ObjectReference{Name: "proxies"}
	spec.Backends = []appv1.Backend{{Name: "secure", Port: 80, TLS: &appv1.BackendTLS{
		Hostname: "api.internal", CACertificateRefs: []appv1.ObjectReference{{Name: "staff"}},
	}}}
	return r, spec
}

// Backends are shown the certificate of the Secret, and the new one after a renewal, without a reload. Without a good
// one, nothing is sent to them, and the problem is reported.
func TestACertificateForBackends(t *testing.T) {
	t.Parallel()
	r, spec := newBackendRig(t)
	first := r.authority.Issue(t, nil)
	r.put("proxies", first)
	r.start(spec)
	r.expectBody("/", first.Leaf.SerialNumber.String())
	r.expectReport(1, "")
	running := r.process()
	second := r.authority.Issue(t, nil)
	r.put("proxies", second)
	r.expectBody("/", second.Leaf.SerialNumber.String())

	// What it held before goes on.
	r.put("proxies", certtest.Pair{Certificate: first.Certificate, Key: second.Key})
	r.expectProblems(" Secret/proxies Secret shop/proxies: tls.key" + goesOn)
	r.expectBody("/", second.Leaf.SerialNumber.String())

	r.secrets.Put(map[string][]byte{"proxies/tls.crt": nil, "proxies/tls.key": nil})
	r.expectStatus("/", http.StatusInternalServerError)
	r.expectProblems(" Secret/proxies " + noReason)
	r.put("proxies", r.authority.Issue(t, nil, certtest.Valid(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))))
	r.expectProblems(" Secret/proxies expired on ")
	r.expectStatus("/", http.StatusInternalServerError)
	r.put("proxies", first)
	r.expectBody("/", first.Leaf.SerialNumber.String())
	r.expectProblems()

	// A new endpoint is a new server, and a Service port that was not in use a new backend.
	r.createService("more")
	r.createSlice("more", "one", r.newSecureEndpoint())
	r.moveSlice("secure", "one", r.newSecureEndpoint())
	more := r.spec("secure", "more")
	spec.Routes = more.Routes
	spec.Backends = append(spec.Backends, appv1.Backend{Name: "more", Port: 80, TLS: spec.Backends[0].TLS})
	r.expectReport(r.edit(spec), "")
	r.expectBody("/more", first.Leaf.SerialNumber.String())
	r.expectBody("/", first.Leaf.SerialNumber.String())
	r.expectNoReload(running)

	// HAProxy starts on a configuration that names the certificate.
	retries := int32(1)
	spec.Routes[0].Rules[0].Retry = &appv1.RouteRetry{Attempts: &retries}
	r.expectReport(r.edit(spec), "")
	if r.process() == running {
		t.Error("there was no reload")
	}
	r.expectBody("/", first.Leaf.SerialNumber.String())
}

// A connection that is being made during a renewal has the old certificate, and TLS would let later ones resume it.
func TestARenewalDuringRequestsToBackends(t *testing.T) {
	t.Parallel()
	r, spec := newBackendRig(t)
	pair := r.authority.Issue(t, nil)
	r.put("proxies", pair)
	r.start(spec)
	r.expectBody("/", pair.Leaf.SerialNumber.String())
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = r.get("/") // the answers that count are those after a renewal
			}
		})
	}
	for range 5 {
		pair = r.authority.Issue(t, nil)
		r.put("proxies", pair)
		r.expectBody("/", pair.Leaf.SerialNumber.String())
	}
	stop()
	clients.Wait()
	for range 50 {
		if _, body, err := r.get("/"); err != nil || body != pair.Leaf.SerialNumber.String() {
			t.Fatalf("the backend saw the certificate %s (%v), want %s", body, err, pair.Leaf.SerialNumber)
		}
	}
}

// Without a certificate from the beginning, nothing is sent either; the pod is ready, and the certificate is used when
// it comes.
func TestACertificateForBackendsThatComesLater(t *testing.T) {
	t.Parallel()
	r, spec := newBackendRig(t)
	r.start(spec)
	r.expectStatus("/", http.StatusInternalServerError)
	r.expectProblems(" Secret/proxies " + noReason)
	pair := r.authority.Issue(t, nil)
	r.put("proxies", pair)
	r.expectBody("/", pair.Leaf.SerialNumber.String())
	r.expectProblems()
}
