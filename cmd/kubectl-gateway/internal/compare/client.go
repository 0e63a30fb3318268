package compare

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// answer is what is compared.
type answer struct {
	status   int
	location string
	// headers are the chosen ones, each with all of its values.
	headers [][]string
	size    int64
	hash    [sha256.Size]byte
	// err is why there is no answer.
	err error
}

// side is one of the two addresses.
type side struct {
	client  *http.Client
	headers []string
}

// newSide returns a side whose connections all go to an address, whatever the host of a URL is. If the address has no
// port, it is the URL's.
func newSide(address string, roots *x509.CertPool, connections int, timeout time.Duration, headers []string) *side {
	dialer := &net.Dialer{Timeout: timeout}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, target string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, resolve(address, target))
		},
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: timeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: connections,
	}
	return &side{headers: headers, client: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// resolve returns where to connect to, in place of the target of a URL.
func resolve(address, target string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	_, port, _ := net.SplitHostPort(target) // net/http gives one
	return net.JoinHostPort(address, port)
}

// send sends a request and reads the answer.
func (s *side) send(ctx context.Context, r request) answer {
	sent, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), nil)
	if err != nil {
		return answer{err: err}
	}
	response, err := s.client.Do(sent)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close() //nolint:errcheck // all was read
	got := answer{status: response.StatusCode, location: response.Header.Get("Location")}
	for _, name := range s.headers {
		got.headers = append(got.headers, response.Header.Values(name))
	}
	hash := sha256.New()
	if got.size, err = io.Copy(hash, response.Body); err != nil {
		return answer{err: fmt.Errorf("failed to read the body: %w", err)}
	}
	hash.Sum(got.hash[:0])
	return got
}
