package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"gateway/internal/certtest"
	"gateway/internal/must"
)

// Proxy passes requests on to an API server, with their bearer tokens. To programs it is the API server.
type Proxy struct {
	// URL is where it listens, Authority what its certificate is to be verified by.
	URL       string
	Authority []byte

	t       *testing.T
	address string
	server  *http.Server
	forward http.Handler

	mu        sync.Mutex
	fault     Fault
	requests  []*Request
	underWay  map[*Request]context.CancelFunc
	listening net.Listener
	conns     map[net.Conn]bool
	// thawed is closed unless the proxy is frozen.
	thawed chan struct{}
}

// Request is what a program asked for.
type Request struct {
	At                  time.Time
	Method, Path, Agent string
	// Watch reports whether it is a watch, Write whether it is to change something; leases and reviews do not count.
	Watch, Write bool
	// Code is what was answered, 0 for nothing.
	Code int
	// TooOld reports whether the API server told that it forgot what was asked for, as an event or in the answer.
	TooOld bool
}

// Start starts a proxy for the API server of the configuration. It ends with the test.
func Start(t *testing.T, target *rest.Config) *Proxy {
	t.Helper()
	upstream := must.Get(url.Parse(target.Host))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(target.CAData)
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{"localhost"})
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16}
	quiet := log.New(io.Discard, "", 0)
	p := &Proxy{Authority: authority.PEM, t: t, underWay: map[*Request]context.CancelFunc{}, conns: map[net.Conn]bool{}}
	p.thawed = closed()
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		// If the API server did not answer, nobody did.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{Handler: p, ErrorLog: quiet, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	p.listen("127.0.0.1:0")
	_, port, _ := net.SplitHostPort(p.address)
	p.URL = "https://localhost:" + port
	t.Cleanup(func() {
		p.Thaw()
		p.Cut()
		_ = p.server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Set makes a fault apply to every request from now on. Nil stands for none.
func (p *Proxy) Set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// Cut ends the requests under way, such as watches, in the middle.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.underWay {
		cancel()
	}
}

// Requests returns what was asked for since then.
func (p *Proxy) Requests(since time.Time) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var requests []Request
	for _, r := range p.requests {
		if !r.At.Before(since) {
			requests = append(requests, *r)
		}
	}
	return requests
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := describe(r)
	ctx, cancel := context.WithCancel(r.Context())
	p.mu.Lock()
	fault := p.fault
	p.requests = append(p.requests, request)
	p.underWay[request] = cancel
	p.mu.Unlock()
	defer func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.underWay, request)
	}()
	w = &recorder{w, p, request}
	if r = r.WithContext(ctx); fault == nil {
		p.forward.ServeHTTP(w, r)
		return
	}
	fault(w, r, p.forward)
}

func describe(r *http.Request) *Request {
	write := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "authorization.k8s.io/v1/self")
	return &Request{At: time.Now(), Method: r.Method, Path: r.URL.Path, Agent: r.UserAgent(), Watch: r.URL.Query().Has("watch"), Write: write}
}

// recorder notes the code of the answer.
type recorder struct {
	http.ResponseWriter
	proxy   *Proxy
	request *Request
}

func (r *recorder) WriteHeader(code int) {
	r.proxy.mu.Lock()
	r.request.Code = code
	r.proxy.mu.Unlock()
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("too old resource version")) {
		r.proxy.mu.Lock()
		r.request.TooOld = true
		r.proxy.mu.Unlock()
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find what can flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
