package keystream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// dialTimeout is how long a connection and its handshake may take, each.
	dialTimeout = 5 * time.Second
	// answerTimeout is how long the server may take to answer. It asks the API server about the token.
	answerTimeout = 20 * time.Second
	// silence is how long the server may send nothing.
	silence = 3 * PingInterval
	// maxBatch is how many objects are passed on at once.
	maxBatch = 256
	// maxReason is how much of a refusal is shown.
	maxReason = 512
)

// errSilent is why a stream is given up.
var errSilent = fmt.Errorf("the key server says nothing for %v", silence)

// StatusError is an answer of the server other than a stream.
type StatusError struct {
	Status int
	Reason string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the key server answers %d %s: %s", e.Status, http.StatusText(e.Status), e.Reason)
}

// Client asks a key server.
type Client struct {
	// Address is its HOST:PORT.
	Address string
	// TokenFile has the pod's token, and AuthorityFile the certificates that the server's is verified with. Both are
	// read for each connection.
	TokenFile, AuthorityFile string

	// dial makes connections; nil: over the network.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Watch gets objects until the stream or ctx ends. have is what a Request has. got is called with what arrived
// together; synced reports whether everything that differed has arrived, and stays. An error of got ends the stream and
// is returned. The result is nil if the server ended the stream in order: ask again soon.
func (c *Client) Watch(ctx context.Context, have map[string]string, got func(objects []Object, synced bool) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := c.ask(ctx, have)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines, ended := make(chan Line, maxBatch), make(chan error, 1)
	go func() {
		defer close(lines)
		ended <- read(ctx, cancel, response.Body, lines)
	}()
	if err := deliver(lines, got); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("failed to read from the key server: %w", err)
	}
	return nil
}

// ask returns the server's answer, if it is a stream.
func (c *Client) ask(ctx context.Context, have map[string]string) (*http.Response, error) {
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the token for the key server: %w", err)
	}
	authority, err := os.ReadFile(c.AuthorityFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the key server's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("the key server's CA in %s has no certificate", c.AuthorityFile)
	}
	body, err := json.Marshal(Request{Have: have})
	if err != nil {
		return nil, fmt.Errorf("failed to ask the key server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.Address+Path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("failed to ask the key server: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/json")
	response, err := c.transport(pool).RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("failed to ask the key server: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		reason, _ := io.ReadAll(io.LimitReader(response.Body, maxReason))
		return nil, &StatusError{response.StatusCode, strings.TrimSpace(string(reason))}
	}
	return response, nil
}

// transport returns a transport for one request. Its connection ends with the answer.
func (c *Client) transport(authorities *x509.CertPool) *http.Transport {
	dial := c.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS13},
		Protocols: protocols, DisableKeepAlives: true, DisableCompression: true,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout,
	}
}

// read passes lines on until the stream ends. It gives up if nothing comes.
func read(ctx context.Context, cancel context.CancelCauseFunc, stream io.Reader, lines chan<- Line) error {
	silent := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer silent.Stop()
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, MaxLine)
	for scanner.Scan() {
		silent.Stop()
		var line Line
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("not a line of a stream: %w", err)
		}
		if !line.Ping {
			select {
			case lines <- line:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		silent.Reset(silence)
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", MaxLine)
	}
	return scanner.Err()
}

// deliver calls got with the objects of lines, with as many as there are without waiting.
func deliver(lines <-chan Line, got func([]Object, bool) error) error {
	synced := false
	for line := range lines {
		var objects []Object
		more := true
		for more {
			isMark := line.Synced
			synced = synced || isMark
			if !isMark {
				objects = append(objects, Object{line.Kind, line.Name, line.Digest, line.Files})
			}
			if isMark || len(objects) == maxBatch {
				break // the mark says nothing about later objects
			}
			select {
			case line, more = <-lines:
			default:
				more = false
			}
		}
		if err := got(objects, synced); err != nil {
			return err
		}
	}
	return nil
}
