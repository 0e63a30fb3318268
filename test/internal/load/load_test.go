package load

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"gateway/internal/certtest"
	"gateway/internal/must"
)

const host = "web.example.com"

// backend answers as the echo backend does, until a test has it do wrong.
type backend struct {
	options Options
	// wrong is called before each request is answered; it reports whether it has answered.
	wrong atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// seen has a value for every request and message that was answered; who is not interested reads it no more.
	seen chan string
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{host})
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	b := &backend{seen: make(chan string, 1)}
	streams := grpc.NewServer()
	streams.RegisterService(&grpc.ServiceDesc{ServiceName: "echo.Echo", Streams: []grpc.StreamDesc{
		{StreamName: "Echo", Handler: b.echoStream, ClientStreams: true, ServerStreams: true},
	}}, nil)
	t.Cleanup(streams.Stop)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrong := b.wrong.Load(); wrong != nil && (*wrong)(w, r) {
			return
		}
		if r.Header.Get("Content-Type") == "application/grpc" {
			streams.ServeHTTP(w, r)
			return
		}
		b.ServeHTTP(w, r)
	})
	plain := httptest.NewServer(handler)
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	secure.StartTLS()
	t.Cleanup(func() {
		plain.Close()
		secure.Close()
	})
	b.options = Options{
		Address: plain.Listener.Addr().String(), TLSAddress: secure.Listener.Addr().String(),
		TLS: &tls.Config{RootCAs: authority.Pool(), ServerName: host}, Host: host,
		Rate: 1000, Slow: 2, WebSockets: 2, Streams: 2,
		Delay: time.Millisecond, Timeout: 10 * time.Second, Interval: 2 * time.Millisecond,
		Check: func(a Answer) error {
			if a.Status != http.StatusOK || a.Version != "v1" {
				return fmt.Errorf("answered %d %s", a.Status, a.Version)
			}
			return nil
		},
	}
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ws" {
		websocket.Server{Handler: func(c *websocket.Conn) {
			for {
				var message string
				if websocket.Message.Receive(c, &message) != nil || websocket.Message.Send(c, message) != nil {
					return
				}
				b.see(WebSocket)
			}
		}}.ServeHTTP(w, r)
		return
	}
	n, _ := io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"version":"v1","bodyBytes":%d}`, n)
	b.see(kindOf(r))
}

func (b *backend) echoStream(_ any, stream grpc.ServerStream) error {
	for {
		var message grpc_health_v1.HealthCheckRequest
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
		b.see(GRPC)
	}
}

func (b *backend) see(kind Kind) {
	select {
	case b.seen <- string(kind):
	default:
	}
}

// kindOf is the kind of a request as far as the server can tell.
func kindOf(r *http.Request) Kind {
	switch {
	case r.Header.Get("Content-Type") == "application/grpc":
		return GRPC
	case r.URL.Path == "/ws":
		return WebSocket
	case r.ProtoMajor == 2:
		return HTTP2
	case strings.HasPrefix(r.URL.Path, "/delay/"):
		return Slow
	case r.TLS != nil:
		return NewTLS
	case r.Close:
		return NewConnection
	default:
		return KeepAlive
	}
}

// await waits until something of each kind was answered after the call.
func (b *backend) await(t *testing.T) {
	t.Helper()
	missing := map[string]bool{}
	for _, kind := range []Kind{KeepAlive, NewConnection, NewTLS, HTTP2, Slow, WebSocket, GRPC} {
		missing[string(kind)] = true
	}
	for deadline := time.After(30 * time.Second); len(missing) > 0; {
		select {
		case kind := <-b.seen:
			delete(missing, kind)
		case <-deadline:
			t.Fatalf("nothing came of %v", missing)
		}
	}
}

func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	load := Start(t.Context(), b.options)
	b.await(t)
	if n := load.Talking(); n == 0 || n > 4 {
		t.Errorf("%d WebSockets and streams are open, want up to 4", n)
	}
	result := load.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	if len(result.Ends) > 0 {
		t.Errorf("ended by the other side: %v", result.Ends)
	}
	for _, kind := range []Kind{KeepAlive, Rare, NewConnection, NewTLS, HTTP2, Slow, WebSocket, GRPC} {
		if stats := result.Kinds[kind]; stats == nil || stats.Requests() == 0 || stats.Quantile(1) <= 0 {
			t.Errorf("no requests of kind %s:\n%s", kind, result)
		}
	}
}

// TestEveryFailureIsReported: of each kind, one thing goes wrong, and that is what is reported.
func TestEveryFailureIsReported(t *testing.T) {
	t.Parallel()
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	wrongVersion := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"version":"v0","bodyBytes":0}`)
	}
	cutShort := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}
	unavailable := func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	for kind, wrongs := range map[Kind][]func(http.ResponseWriter){
		KeepAlive:     {drop, wrongVersion, cutShort, unavailable},
		NewConnection: {drop, wrongVersion, cutShort, unavailable},
		NewTLS:        {drop, wrongVersion, cutShort, unavailable},
		HTTP2:         {drop, wrongVersion, cutShort, unavailable},
		Slow:          {drop, wrongVersion, cutShort, unavailable},
		WebSocket:     {drop, cutShort, unavailable},
		GRPC:          {drop, cutShort, unavailable},
	} {
		for i, wrong := range wrongs {
			t.Run(fmt.Sprintf("%s %d", kind, i), func(t *testing.T) {
				t.Parallel()
				b := newBackend(t)
				var done atomic.Bool
				once := func(w http.ResponseWriter, r *http.Request) bool {
					// The body of a POST is not what goes wrong here.
					if kindOf(r) != kind || r.Method == http.MethodPost && kind != GRPC || !done.CompareAndSwap(false, true) {
						return false
					}
					wrong(w)
					return true
				}
				b.wrong.Store(&once)
				b.options.Rate = 200
				load := Start(t.Context(), b.options)
				b.await(t)
				result := load.Stop()
				failures := result.Failures()
				// Rare connections look as the others that are kept.
				if len(failures) != 1 || failures[0].Kind != kind && (kind != KeepAlive || failures[0].Kind != Rare) {
					t.Errorf("failures: %v, want one of %s", failures, kind)
				}
			})
		}
	}
}

// TestConnectionsMayBeEnded: an answer may ask for a new connection, and a GOAWAY too.
func TestConnectionsMayBeEnded(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	ask := func(w http.ResponseWriter, r *http.Request) bool {
		// Over HTTP/2, the server makes it a GOAWAY.
		if kind := kindOf(r); kind != WebSocket && kind != GRPC {
			w.Header().Set("Connection", "close")
		}
		return false
	}
	var last atomic.Int32
	check := b.options.Check
	b.options.Check = func(a Answer) error {
		if a.Kind == KeepAlive && a.Last {
			last.Add(1)
		}
		return check(a)
	}
	load := Start(t.Context(), b.options)
	b.await(t)
	if n := last.Load(); n > 0 {
		t.Errorf("%d answers are said to be the last of their connections before any is", n)
	}
	b.wrong.Store(&ask)
	b.await(t)
	b.await(t)
	for _, failure := range load.Stop().Failures() {
		t.Error(failure)
	}
	if last.Load() == 0 {
		t.Error("no answer is said to be the last of its connection")
	}
}

// hijacker shows the connection that was taken over.
type hijacker struct {
	http.ResponseWriter
	connection net.Conn
}

func (h *hijacker) Hijack() (connection net.Conn, buffer *bufio.ReadWriter, err error) {
	connection, buffer, err = http.NewResponseController(h.ResponseWriter).Hijack()
	h.connection = connection
	return connection, buffer, err
}

// TestEnds: the end of a WebSocket or stream is reported with its cause, and is a failure unless the test allows it.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end     func(net.Conn)
		orderly bool
	}{
		"in order": {func(c net.Conn) { _ = c.Close() }, true},
		"by a reset": {func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}, false},
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, allowed: %t", name, allowed), func(t *testing.T) {
				t.Parallel()
				b := newBackend(t)
				var done atomic.Bool
				ended := make(chan struct{})
				once := func(w http.ResponseWriter, r *http.Request) bool {
					if kindOf(r) != WebSocket || !done.CompareAndSwap(false, true) {
						return false
					}
					keep := hijacker{ResponseWriter: w}
					websocket.Server{Handler: func(c *websocket.Conn) {
						var message string
						_ = websocket.Message.Receive(c, &message)
						test.end(keep.connection)
						close(ended)
					}}.ServeHTTP(&keep, r)
					return true
				}
				b.wrong.Store(&once)
				if allowed {
					b.options.Ended = func(End) error { return nil }
				}
				load := Start(t.Context(), b.options)
				<-ended
				result := load.Stop()
				if len(result.Ends) != 1 || result.Ends[0].Orderly != test.orderly || result.Ends[0].Kind != WebSocket {
					t.Errorf("ends %+v, want one with orderly %t", result.Ends, test.orderly)
				}
				if failed := len(result.Failures()) > 0; failed == allowed {
					t.Errorf("failures %v", result.Failures())
				}
			})
		}
	}
}

// TestStopWaitsForAnswers: what is under way when the load stops counts.
func TestStopWaitsForAnswers(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	arrived, release := make(chan bool, 10), make(chan bool)
	hold := func(_ http.ResponseWriter, r *http.Request) bool {
		if kindOf(r) == Slow {
			arrived <- true
			<-release
		}
		return false
	}
	b.wrong.Store(&hold)
	b.options.Slow = 1
	b.options.Check = func(a Answer) error {
		if a.Kind == Slow {
			return errors.New("this one")
		}
		return nil
	}
	load := Start(t.Context(), b.options)
	<-arrived
	load.cancel()
	close(release)
	if failures := load.Stop().Failures(); len(failures) != 1 {
		t.Errorf("failures %v, want the slow request's", failures)
	}
}
