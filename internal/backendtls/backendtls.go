// Package backendtls speaks TLS to endpoints whose certificates must be for names that HAProxy cannot verify. In:
// connections of HAProxy, with a PROXY header whose TLVs name the endpoint and the names to verify. Out: the same over
// TLS, or nothing.
package backendtls

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"gateway/internal/haproxy/ir"
	"gateway/internal/logging"
)

const (
	// connectTime is how long it may take until the certificate is verified.
	connectTime = 5 * time.Second
	// maxConnections is how many there are at a time: the memory of the container has room for them.
	maxConnections = 1000
	// lookInterval is how often a connection looks whether HAProxy is done with it.
	lookInterval = time.Second
	// logInterval is how often failures are logged.
	logInterval = 10 * time.Second
)

// Relay carries connections.
type Relay struct {
	mu     sync.Mutex
	logged time.Time
}

// Serve carries the connections of a listener until ctx ends. It returns an error if it cannot.
func (r *Relay) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	places := make(chan struct{}, maxConnections)
	for {
		from, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("failed to accept connections to backends: %w", err)
		}
		select {
		case places <- struct{}{}:
			go func() {
				defer func() { <-places }()
				if err := carry(ctx, from); err != nil {
					r.log(err)
				}
			}()
		default:
			_ = from.Close() // nothing was read
			r.log(fmt.Errorf("there are %d connections to backends already", maxConnections))
		}
	}
}

// log logs a failure, unless another one was logged just before.
func (r *Relay) log(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.logged) > logInterval {
		r.logged = now
		logging.Warningf("HAProxy gets no connection: %v", err)
	}
}

// carry carries a connection. It returns an error if the certificate could not be verified.
func carry(ctx context.Context, from net.Conn) error {
	defer func() { _ = from.Close() }()
	if err := from.SetReadDeadline(time.Now().Add(connectTime)); err != nil {
		return err
	}
	reader := bufio.NewReader(from)
	header, err := proxyproto.Read(reader)
	if err != nil {
		return fmt.Errorf("failed to read what HAProxy wants: %w", err)
	}
	if err := from.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	wanted, err := parse(header)
	if err != nil {
		return fmt.Errorf("failed to read what HAProxy wants: %w", err)
	}
	to, err := wanted.connect(ctx)
	if err != nil {
		return fmt.Errorf("failed to connect to %s by TLS: %w", wanted.endpoint, err)
	}
	defer func() { _ = to.Close() }()
	if wanted.answers && header.Command.IsLocal() {
		_, _ = io.WriteString(from, ir.RelayVerified) // which HAProxy need not wait for
		return nil
	}
	var sent sync.WaitGroup
	done := make(chan struct{})
	defer close(done)
	go closeAfter(to, from, done)
	sent.Go(func() { pass(to, reader, from) })
	pass(from.(halfCloser), to, to)
	sent.Wait()
	return nil
}

// closeAfter closes a connection to an endpoint when HAProxy has closed its own for both directions. An endpoint that
// hangs would keep it, and its place, for ever.
func closeAfter(to *tls.Conn, from net.Conn, done <-chan struct{}) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if isClosed(from) {
				_ = to.Close()
				return
			}
		}
	}
}

// halfCloser is a connection that can be closed for one direction.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// pass copies one direction, and then tells the receiver that it ended. After a failure, it ends both.
func pass(to halfCloser, from io.Reader, sender net.Conn) {
	_, err := io.Copy(to, from)
	if err = errors.Join(err, to.CloseWrite()); err != nil {
		_, _ = to.Close(), sender.Close()
	}
}

// wanted is what HAProxy wants.
type wanted struct {
	endpoint, serverName, authorities, certificate, protocol string
	// names and uris are what the certificate has to be for: one of them.
	names, uris []string
	// prefix is what the connection begins with, before TLS.
	prefix []byte
	// answers reports whether a health check is answered.
	answers bool
}

// parse returns what a header says.
func parse(header *proxyproto.Header) (w wanted, err error) {
	all, err := header.TLVs()
	if err != nil {
		return w, err
	}
	for _, tlv := range all {
		value := string(tlv.Value)
		switch byte(tlv.Type) {
		case ir.RelayEndpoint:
			w.endpoint = value
		case ir.RelayServerName:
			w.serverName = value
		case ir.RelayAuthorities:
			w.authorities = value
		case ir.RelayCertificate:
			w.certificate = value
		case ir.RelayProtocol:
			w.protocol = value
		case ir.RelayDNSName, ir.RelayURI:
			name, bad := base64.RawURLEncoding.DecodeString(value)
			err = errors.Join(err, bad)
			if tlv.Type == ir.RelayURI {
				w.uris = append(w.uris, string(name))
			} else {
				w.names = append(w.names, string(name))
			}
		case ir.RelayProxyProtocol:
			own := *header
			if value == "V1" {
				own.Version = 1
			}
			err = errors.Join(err, own.SetTLVs(nil))
			prefix, bad := own.Format()
			w.prefix, err = prefix, errors.Join(err, bad)
		case ir.RelayAnswer:
			w.answers = true
		}
	}
	if w.endpoint == "" || w.serverName == "" || w.authorities == "" || len(w.names)+len(w.uris) == 0 {
		err = errors.Join(err, errors.New("something is missing"))
	}
	return w, err
}

// connect returns a connection to an endpoint whose certificate is verified.
func (w *wanted) connect(ctx context.Context) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	content, err := os.ReadFile(w.authorities)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(content)
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.endpoint)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		ServerName: w.serverName, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // it would verify ServerName, and VerifyConnection verifies other names
		VerifyConnection:   func(state tls.ConnectionState) error { return w.verify(state, roots) },
	}
	if w.protocol != "" {
		config.NextProtos = []string{w.protocol}
	}
	if w.certificate != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(w.certificate, w.certificate)
			return &pair, err
		}
	}
	conn := tls.Client(raw, config)
	if _, err = raw.Write(w.prefix); err == nil {
		err = conn.HandshakeContext(ctx)
	}
	if err != nil {
		_ = raw.Close() // it is of no use
		return nil, err
	}
	return conn, nil
}

// verify returns why a certificate is not one of those that are wanted.
func (w *wanted) verify(state tls.ConnectionState, roots *x509.CertPool) error {
	if w.protocol == "h2" && state.NegotiatedProtocol != w.protocol {
		return errors.New("the endpoint does not speak HTTP/2")
	}
	leaf, options := state.PeerCertificates[0], x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	if _, err := leaf.Verify(options); err != nil {
		return err
	}
	isFor := func(name string) bool { return leaf.VerifyHostname(name) == nil }
	for _, uri := range leaf.URIs {
		if slices.Contains(w.uris, uri.String()) {
			return nil
		}
	}
	if slices.ContainsFunc(w.names, isFor) {
		return nil
	}
	return fmt.Errorf("the certificate is for %q and %q, and not for any of %q", leaf.DNSNames, leaf.URIs, slices.Concat(w.names, w.uris))
}
