package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// sender sends one request and reads the whole answer.
type sender interface {
	send(ctx context.Context, request *http.Request) (Answer, error)
	close()
}

// newRequest is a GET, or a POST if there is a body.
func newRequest(ctx context.Context, host, path, body string) *http.Request {
	request := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: host, Path: path}, Host: host, Header: http.Header{},
	}).WithContext(ctx)
	if body != "" {
		request.Method = http.MethodPost
		request.ContentLength = int64(len(body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
		request.Body, _ = request.GetBody()
	}
	return request
}

// read reads what the echo backend says about itself and the request.
func (a *Answer) read(bodyBytes int) error {
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		return nil
	}
	var echo struct {
		Version, Pod string
		BodyBytes    int
	}
	if err := json.Unmarshal(a.Body, &echo); err != nil {
		return fmt.Errorf("failed to read answer %q: %w", a.Body, err)
	}
	if echo.BodyBytes != bodyBytes {
		return fmt.Errorf("the backend got %d bytes of %d", echo.BodyBytes, bodyBytes)
	}
	a.Version, a.Pod = echo.Version, echo.Pod
	return nil
}

// http1Client has one connection at a time and gives it up when an answer says so, or when it failed. Not net/http's
// client: that sends again what fails on a connection it had kept.
type http1Client struct {
	dial func(ctx context.Context) (net.Conn, error)
	// closes asks for the connection to be closed after each answer.
	closes     bool
	opened     time.Time
	connection net.Conn
	reader     *bufio.Reader
}

func (c *http1Client) send(ctx context.Context, request *http.Request) (Answer, error) {
	answer := Answer{Sent: time.Now()}
	kept := c.connection != nil
	if !kept {
		var err error
		if c.connection, err = c.dial(ctx); err != nil {
			c.connection = nil
			return answer, fmt.Errorf("failed to connect: %w", err)
		}
		c.opened, c.reader = time.Now(), bufio.NewReader(c.connection)
	}
	answer.Opened = c.opened
	request.Close = c.closes
	err := c.exchange(ctx, request, &answer)
	if err != nil {
		err = fmt.Errorf("on %s (kept: %t): %w", c.connection.LocalAddr(), kept, err)
	}
	if err != nil || answer.Last {
		c.close()
	}
	return answer, err
}

// exchange sends the request on the connection and reads the answer.
func (c *http1Client) exchange(ctx context.Context, request *http.Request, answer *Answer) error {
	deadline, _ := ctx.Deadline()
	if err := c.connection.SetDeadline(deadline); err != nil {
		return err
	}
	if err := request.Write(c.connection); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, request)
	if err != nil {
		return err
	}
	answer.Last = response.Close
	return answer.fill(response)
}

func (c *http1Client) close() {
	if c.connection != nil {
		_ = c.connection.Close()
		c.connection = nil
	}
}

func (a *Answer) fill(response *http.Response) (err error) {
	a.Status, a.Header = response.StatusCode, response.Header
	if a.Body, err = io.ReadAll(response.Body); err != nil {
		err = fmt.Errorf("answer %d was cut short: %w", a.Status, err)
	}
	return errors.Join(err, response.Body.Close())
}

// http2Client has one connection that many use at a time, and opens another when a GOAWAY says that no more streams may
// be opened on it.
type http2Client struct {
	dial       func(ctx context.Context) (net.Conn, error)
	mutex      sync.Mutex
	opened     time.Time
	connection *http2.ClientConn //nolint:staticcheck // net/http's has no error that reports whether the server looked at a request
}

func (c *http2Client) send(ctx context.Context, request *http.Request) (Answer, error) {
	for {
		connection, opened, err := c.use(ctx)
		answer := Answer{Opened: opened, Sent: time.Now()}
		if err != nil {
			return answer, fmt.Errorf("failed to connect: %w", err)
		}
		response, err := connection.RoundTrip(request)
		if err == nil {
			err = answer.fill(response)
			answer.Last = !connection.CanTakeNewRequest()
			return answer, err
		}
		if !unprocessed(err) || ctx.Err() != nil {
			return answer, err
		}
		if request.GetBody != nil {
			request.Body, _ = request.GetBody()
		}
	}
}

// unprocessed reports whether the server promised not to have looked at the request, or that it was not even sent. The
// first two errors have no names in the package; their texts are what net/http's own client goes by, too.
func unprocessed(err error) bool {
	switch err.Error() {
	case "http2: Transport received Server's graceful shutdown GOAWAY", "http2: client conn not usable":
		return true
	}
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream
}

// use returns a connection on which a stream may be opened, and when it was opened itself.
func (c *http2Client) use(ctx context.Context) (*http2.ClientConn, time.Time, error) { //nolint:staticcheck // as above
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.connection != nil && c.connection.CanTakeNewRequest() {
		return c.connection, c.opened, nil
	}
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, c.opened, err
	}
	connection, err := new(http2.Transport).NewClientConn(raw) //nolint:staticcheck // as above
	if err != nil {
		_ = raw.Close()
		return nil, c.opened, err
	}
	c.connection, c.opened = connection, time.Now()
	return c.connection, c.opened, nil
}

func (c *http2Client) close() {
	if c.connection != nil {
		_ = c.connection.Close()
	}
}
