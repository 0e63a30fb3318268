package keyserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/keystream"
	"gateway/internal/logging"
)

const (
	// maxRequest is how long a request may be: one with 20,000 objects has about 2 MiB.
	maxRequest = 8 << 20
	// longRequest is how long one is of which only maxLong of a Gateway are read at a time: a pod may send it slowly.
	longRequest, maxLong = 64 << 10, 4
	// maxHeader is how long its header may be, and headerTimeout how long it and the handshake may take.
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	// stopTimeout is how long streams have to end in order.
	stopTimeout = 2 * time.Second
)

// errRequest is returned if a request cannot be read.
var errRequest = errors.New("failed to read the request")

// handler answers pods.
type handler struct {
	state  *state
	review *reviewer
	// ready returns an error while something is missing to answer about objects.
	ready func() error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path != keystream.Path || request.Method != http.MethodPost {
		http.NotFound(w, request)
		return
	}
	if err := h.ready(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	who, err := h.identify(request)
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	control := http.NewResponseController(w)
	have, err := h.readHave(w, request, control, who.gateway)
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	st, err := h.state.open(who.gateway, who.pod, have)
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	defer h.state.close(st)
	logging.V(1).Infof("Pod %s of Gateway %s asks, and has %d objects", who.podName, who.gateway, len(have))
	w.Header().Set("Content-Type", "application/x-ndjson")
	if err := h.state.send(request.Context(), st, have, &writer{w, control}); err != nil {
		logging.V(1).Infof("Pod %s of Gateway %s: %v", who.podName, who.gateway, err)
		panic(http.ErrAbortHandler) // what it got is not the end of a stream
	}
}

// identify returns who asks.
func (h *handler) identify(request *http.Request) (identity, error) {
	token, isBearer := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		return identity{}, errToken
	}
	gateway, err := unchecked(token, time.Now())
	if err == nil && !h.state.hasGateway(gateway) {
		err = errNoGateway
	}
	if err != nil {
		return identity{}, err
	}
	return h.review.review(request.Context(), token)
}

// readHave returns what a pod of a Gateway has.
func (h *handler) readHave(
	w http.ResponseWriter, request *http.Request, control *http.ResponseController, gateway types.NamespacedName,
) (map[string]string, error) {
	if request.ContentLength < 0 || request.ContentLength > longRequest {
		if !h.state.takeLong(gateway) {
			return nil, errTooMany
		}
		defer h.state.releaseLong(gateway)
	}
	if err := control.SetReadDeadline(time.Now().Add(writeTimeout)); err != nil {
		return nil, fmt.Errorf("failed to bound how long a pod takes to ask: %w", err)
	}
	content, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxRequest))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	var asked keystream.Request
	if err := json.Unmarshal(content, &asked); err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	if asked.Have == nil {
		asked.Have = map[string]string{}
	}
	return asked.Have, control.SetReadDeadline(time.Time{})
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, errToken):
		return http.StatusUnauthorized
	case errors.Is(err, errNoGateway):
		return http.StatusForbidden
	case errors.Is(err, errRequest):
		return http.StatusBadRequest
	case errors.Is(err, errTooMany):
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// refuse answers that nothing is given. The connection ends.
func refuse(w http.ResponseWriter, status int, err error) {
	logging.V(1).Infof("Answering %d: %v", status, err)
	w.Header().Set("Connection", "close")
	http.Error(w, err.Error(), status)
}

// serve answers pods until ctx ends.
func (h *handler) serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler: h, TLSConfig: config, Protocols: protocols, ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	server.SetKeepAlivesEnabled(false)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = server.Shutdown(bounded)
		_ = server.Close()
	})
	defer stop()
	if err := server.ServeTLS(bound(listener), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve: %w", err)
	}
	<-stopped
	return nil
}
