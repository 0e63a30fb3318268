package jwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	// timeout is how long an answer may take, with all of its body.
	timeout = 10 * time.Second
	// maxBytes is how large a key set may be.
	maxBytes = 64 << 10
)

// client asks one source.
type client struct {
	http *http.Client
	// etag is the ETag of the answer that was accepted last.
	etag string
}

// answer is a key set, as it was received. The zero answer means that the set still has the client's etag.
type answer struct {
	body []byte
	etag string
}

// newClient returns a client that trusts these CA certificates (PEM).
func newClient(authorities string, local bool) *client {
	return &client{http: newHTTPClient(authorities, local)}
}

// NewHTTPClient returns a client that trusts these CA certificates (PEM), and asks no addresses that keys are not
// fetched from. An answer has as many bytes as a key set.
func NewHTTPClient(authorities string) *http.Client {
	bounded := newHTTPClient(authorities, false)
	bounded.Transport = bound{bounded.Transport}
	return bounded
}

// bound cuts answers.
type bound struct{ http.RoundTripper }

func (b bound) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBytes)
	}
	return response, err
}

func newHTTPClient(authorities string, local bool) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authorities))
	dialer := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if what := refused(to.Addr()); err == nil && !local && what != "" {
			err = fmt.Errorf("keys are not fetched from %s, which is %s", to.Addr(), what)
		}
		return err
	}}
	return &http.Client{
		Timeout: timeout,
		// An issuer gives the address that has the keys. One that leads elsewhere could lead anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxBytes,
		},
	}
}

// fetch returns a source's answer, the zero answer if the set still has the client's etag.
func (c *client) fetch(ctx context.Context, url string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer{}, errors.New("it is no URL")
	}
	request.Header.Set("User-Agent", "gateway-agent")
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	if c.etag != "" {
		request.Header.Set("If-None-Match", c.etag)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, plain(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	switch {
	case response.StatusCode == http.StatusNotModified && c.etag != "":
		return answer{}, nil
	case response.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("the answer has the status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	switch {
	case err != nil:
		return answer{}, plain(err)
	case len(body) > maxBytes:
		return answer{}, fmt.Errorf("the answer has more than %d bytes", maxBytes)
	}
	return answer{body: body, etag: response.Header.Get("ETag")}, nil
}

// plain returns an error without the parts that differ at each try, such as ports.
func plain(err error) error {
	var operation *net.OpError
	var timedOut net.Error
	switch {
	case errors.As(err, &timedOut) && timedOut.Timeout():
		return fmt.Errorf("there was no answer within %s", timeout)
	case errors.As(err, &operation):
		return fmt.Errorf("%s: %w", operation.Op, operation.Err)
	}
	if inner := errors.Unwrap(err); inner != nil { // of the http client, which names the method and URL
		return inner
	}
	return err
}
