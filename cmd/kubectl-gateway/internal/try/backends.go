package try

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/pires/go-proxyproto"

	"gateway/internal/model"
)

// builtIn is a Service port with a built-in backend. proxied reports whether connections to it begin with a PROXY
// header.
type builtIn struct {
	model.Backend
	proxied bool
}

// backends are the built-in ones: a server on 127.0.0.1 for each Service port without endpoints.
type backends struct {
	ctx       context.Context
	addresses map[builtIn]netip.AddrPort
}

// complete gives each Service port without endpoints the address of a built-in backend, which runs until the context of
// the backends ends.
func (b *backends) complete(o *objects) error {
	for _, backend := range o.builtIn {
		address, ok := b.addresses[backend]
		if !ok {
			var err error
			if address, err = b.serve(backend); err != nil {
				return err
			}
			b.addresses[backend] = address
		}
		o.setEndpoints(backend.Backend, address)
	}
	return nil
}

func (b *backends) serve(backend builtIn) (netip.AddrPort, error) {
	listener, err := (&net.ListenConfig{}).Listen(b.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("failed to start a backend: %w", err)
	}
	server := &http.Server{Handler: answer(backend), ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		<-b.ctx.Done()
		_ = server.Close() // the process ends
	}()
	address := listener.Addr().(*net.TCPAddr).AddrPort()
	if backend.proxied {
		listener = &proxyproto.Listener{Listener: listener}
	}
	go func() { _ = server.Serve(listener) }() // it ends when it is closed
	return address, nil
}

// answer describes the Service, and the request.
func answer(backend builtIn) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		fmt.Fprintf(&text, "%s:%d answers. It got:\n\n%s %s %s\nHost: %s\n", backend.Object(), backend.Port, r.Method, r.URL.RequestURI(), r.Proto, r.Host)
		if backend.proxied {
			fmt.Fprintf(&text, "PROXY header: from %s\n", r.RemoteAddr)
		}
		_ = r.Header.Write(&text) // a Builder never fails
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(text.String())) // who went away needs no answer
	})
}
