// Program echo is the backend of the demo, of the examples and of the end-to-end tests: it answers every request with a
// JSON object that says who answered and what arrived. Some paths do something else:
//
//	/healthz              says ok
//	/status/503           answers with this status; with ?once=NAME only the first request with this name, others with 200
//	/delay/2s             answers later
//	/events               goes on sending server-sent events, or ends after ?count=3, with ?interval=100ms between them
//	/ws                   sends WebSocket messages back
//	/grpc.health.v1...    is the gRPC health service
//	/echo.Echo/Echo       is a gRPC stream that sends messages back
//
// It speaks HTTP/1.1, HTTP/2 without TLS (by prior knowledge), and both over TLS on a port of its own.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
)

// options are the flags of the command line.
type options struct {
	listen, tlsListen, proxyListen string
	certificates                   string
	version                        string
	drain                          time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", ":8080", "The address to listen on.")
	flag.StringVar(&o.tlsListen, "tls-listen", ":8443", "The address to listen on for TLS; empty: none.")
	flag.StringVar(&o.proxyListen, "proxy-listen", ":8081",
		"The address to listen on for connections that begin with a PROXY protocol header; empty: none.")
	flag.StringVar(&o.certificates, "certificates", "/certificates",
		"The directory of tls.crt and tls.key, which are read for each connection, so they may come later and change.")
	flag.StringVar(&o.version, "version", os.Getenv("VERSION"), "The version to answer with; by default $VERSION.")
	flag.DurationVar(&o.drain, "drain", 5*time.Second,
		"How long to go on serving after SIGTERM, so that everyone learns first that the endpoint is gone.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	listeners, err := o.listeners()
	if err == nil {
		err = serve(ctx, listeners, o.version, o.drain)
	}
	if err != nil {
		log.Fatalf("echo: %v", err)
	}
}

// listeners opens the ports.
func (o options) listeners() ([]net.Listener, error) {
	var all []net.Listener
	for _, port := range []struct {
		address string
		wrap    func(net.Listener) net.Listener
	}{
		{o.listen, func(l net.Listener) net.Listener { return l }},
		{o.tlsListen, func(l net.Listener) net.Listener { return tls.NewListener(l, tlsConfig(o.certificates)) }},
		{o.proxyListen, func(l net.Listener) net.Listener { return &proxyproto.Listener{Listener: l} }},
	} {
		if port.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", port.address)
		if err != nil {
			return nil, err
		}
		all = append(all, port.wrap(listener))
	}
	return all, nil
}

func tlsConfig(dir string) *tls.Config {
	return &tls.Config{
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
			return &pair, err
		},
	}
}

// serve answers until ctx is done, then for drain more, and returns when the requests in flight are done.
func serve(ctx context.Context, listeners []net.Listener, version string, drain time.Duration) error {
	streams, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	server := &http.Server{Handler: newHandler(version, streams), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	// Streams do not end by themselves.
	server.RegisterOnShutdown(endStreams)

	failed := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	select {
	case err := <-failed:
		return errors.Join(err, server.Close())
	case <-time.After(drain):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// podName says who answers.
func podName() string {
	// In a pod, the host name is the pod's.
	host, _ := os.Hostname()
	return cmp.Or(os.Getenv("POD_NAME"), host)
}
