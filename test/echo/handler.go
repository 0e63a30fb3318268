package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// reply is the body of the answers that say what arrived.
type reply struct {
	Version  string `json:"version"`
	Pod      string `json:"pod"`
	Method   string `json:"method"`
	Host     string `json:"host"`
	Path     string `json:"path"`
	Query    string `json:"query,omitempty"`
	Protocol string `json:"protocol"`
	// Client is the other end of the connection, or who the PROXY protocol says it is.
	Client string `json:"client"`
	// ClientCertificate is the subject of the certificate that the client showed.
	ClientCertificate string `json:"clientCertificate,omitempty"`
	// ServerName is what the client asked for by TLS.
	ServerName string `json:"serverName,omitempty"`
	// BodyBytes is how long the request's body was.
	BodyBytes int64       `json:"bodyBytes"`
	Headers   http.Header `json:"headers"`
}

// handler answers everything. It is no ServeMux: that would redirect paths that it finds unclean, and the tests want to
// see them as they arrive.
type handler struct {
	version, pod string
	// streams ends when streams have to.
	streams context.Context
	grpc    http.Handler
	// messages is the gRPC service that sends messages back.
	messages http.Handler
	// failed has the names of requests that failed once.
	failed sync.Map
}

func newHandler(version string, streams context.Context) http.Handler { //nolint:revive // the context is kept, not passed on
	server := grpc.NewServer()
	service := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, service)
	// Watchers are notified, and the streams end.
	context.AfterFunc(streams, func() {
		service.Shutdown()
		server.Stop()
	})
	// Its streams end by themselves, with a status, for which a server that is stopped leaves no time.
	messages := grpc.NewServer()
	messages.RegisterService(messageService(streams), nil)
	return &handler{version: version, pod: podName(), streams: streams, grpc: server, messages: messages}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	argument := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case strings.HasPrefix(r.URL.Path, "/echo.Echo/"):
		h.messages.ServeHTTP(w, r)
	case r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		h.grpc.ServeHTTP(w, r)
	case r.URL.Path == "/healthz":
		_, _ = io.WriteString(w, "ok\n")
	case r.URL.Path == "/ws":
		h.serveWebSocket(w, r)
	case r.URL.Path == "/events":
		h.serveEvents(w, r)
	case r.URL.Path == "/headers":
		for name, values := range r.URL.Query() {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		h.echo(w, r, http.StatusOK)
	case strings.HasPrefix(r.URL.Path, "/status/"):
		h.serveStatus(w, r, argument)
	case strings.HasPrefix(r.URL.Path, "/delay/"):
		h.serveDelay(w, r, argument)
	default:
		h.echo(w, r, http.StatusOK)
	}
}

// echo says what arrived.
func (h *handler) echo(w http.ResponseWriter, r *http.Request, status int) {
	body, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, "failed to read the body: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer := reply{
		Version: h.version, Pod: h.pod, Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Protocol: r.Proto, Client: r.RemoteAddr, BodyBytes: body, Headers: r.Header,
	}
	if r.TLS != nil {
		answer.ServerName = r.TLS.ServerName
		if shown := r.TLS.PeerCertificates; len(shown) > 0 {
			answer.ClientCertificate = shown[0].Subject.String()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *handler) serveStatus(w http.ResponseWriter, r *http.Request, argument string) {
	status, err := strconv.Atoi(argument)
	if err != nil || status < 200 || status > 599 {
		http.Error(w, "want a status from 200 to 599", http.StatusBadRequest)
		return
	}
	if name := r.URL.Query().Get("once"); name != "" {
		if _, again := h.failed.LoadOrStore(name, true); again {
			status = http.StatusOK
		}
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	h.echo(w, r, status)
}

func (h *handler) serveDelay(w http.ResponseWriter, r *http.Request, argument string) {
	delay, err := time.ParseDuration(argument)
	if err != nil {
		http.Error(w, "want a duration like 2s", http.StatusBadRequest)
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(delay):
		h.echo(w, r, http.StatusOK)
	}
}
