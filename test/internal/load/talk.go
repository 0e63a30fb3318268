package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// conversation is a WebSocket or stream whose other side sends every message back.
type conversation interface {
	// say sends a message and reads the answer.
	say(message string) (string, error)
	// orderly reports whether the error that say returned is an end in order.
	orderly(err error) bool
	close()
}

// talk keeps a conversation going, and begins another one when the other side has ended it.
func (l *Load) talk(kind Kind, i int, open func() (conversation, error)) {
	due := l.begin.Add(l.options.Interval * time.Duration(i) / 10)
	for l.sleepUntil(due) {
		opened := time.Now()
		c, err := open()
		l.record.request(kind, time.Since(opened), wrap("failed to open", err))
		if err == nil {
			l.talking.Add(1)
			l.converse(kind, c, opened)
			l.talking.Add(-1)
			c.close()
		}
		due = time.Now().Add(l.options.Interval)
	}
}

// converse sends messages until the load stops or the conversation ends.
func (l *Load) converse(kind Kind, c conversation, opened time.Time) {
	due := time.Now()
	for n := 0; l.sleepUntil(due); n++ {
		message := fmt.Sprintf("message %d", n)
		sent := time.Now()
		got, err := c.say(message)
		if err != nil {
			l.ended(End{Kind: kind, Opened: opened, At: time.Now(), Orderly: c.orderly(err), Cause: err})
			return
		}
		if got != message {
			err = fmt.Errorf("answer to %q is %q", message, got)
		}
		l.record.request(kind, time.Since(sent), err)
		due = due.Add(l.options.Interval)
	}
}

func (l *Load) ended(end End) {
	err := errors.New("it was ended")
	if l.options.Ended != nil {
		err = l.options.Ended(end)
	}
	if err != nil {
		err = fmt.Errorf("after %s: %w (%w)", end.At.Sub(end.Opened).Round(time.Millisecond), err, end.Cause)
	}
	l.record.end(end, err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

type webSocket struct {
	*websocket.Conn
	timeout time.Duration
}

func (l *Load) openWebSocket() (conversation, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), l.options.Timeout)
	defer cancel()
	raw, err := l.dialPlain(ctx)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	connection, err := websocket.NewClient(&websocket.Config{
		Location: &url.URL{Scheme: "ws", Host: l.options.Host, Path: "/ws"},
		Origin:   &url.URL{Scheme: "http", Host: l.options.Host}, Version: websocket.ProtocolVersionHybi13,
	}, raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return webSocket{connection, l.options.Timeout}, nil
}

func (w webSocket) say(message string) (got string, err error) {
	if err := w.SetDeadline(time.Now().Add(w.timeout)); err != nil {
		return "", err
	}
	if err := websocket.Message.Send(w.Conn, message); err != nil {
		return "", err
	}
	err = websocket.Message.Receive(w.Conn, &got)
	return got, err
}

// orderly: a close frame and a FIN between two messages both end in io.EOF. If the other side has closed before a
// message is written, there is a reset, also after a FIN.
func (webSocket) orderly(err error) bool { return errors.Is(err, io.EOF) }

func (w webSocket) close() { _ = w.Close() }

type stream struct {
	grpc.ClientStream
	connection *grpc.ClientConn
	cancel     context.CancelFunc
	timeout    time.Duration
}

// EchoMethod is a stream of the echo backend that sends every message back. Its messages are health checks for want of
// another type in the library.
const EchoMethod = "/echo.Echo/Echo"

func (l *Load) openStream() (conversation, error) {
	connection, err := grpc.NewClient("passthrough:///"+l.options.TLSAddress,
		grpc.WithTransportCredentials(credentials.NewTLS(l.options.TLS.Clone())), grpc.WithAuthority(l.options.Host),
		grpc.WithDisableRetry(), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return l.options.Dial(ctx, "tcp", address)
		}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.ctx))
	limit := time.AfterFunc(l.options.Timeout, cancel)
	defer limit.Stop()
	opened, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, EchoMethod)
	s := stream{opened, connection, cancel, l.options.Timeout}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s stream) say(message string) (string, error) {
	limit := time.AfterFunc(s.timeout, s.cancel)
	defer limit.Stop()
	// When the stream has ended, RecvMsg says why and SendMsg does not.
	if err := s.SendMsg(&grpc_health_v1.HealthCheckRequest{Service: message}); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	var got grpc_health_v1.HealthCheckRequest
	if err := s.RecvMsg(&got); err != nil {
		return "", err
	}
	return got.Service, nil
}

// orderly: the other side said so by GOAWAY, RST_STREAM or a status, or ended the stream without one. Where HAProxy
// closes other connections, it resets the stream. What the library says of a connection that broke without a GOAWAY, or
// of a stream that this side gave up, has the same code, so only its text tells.
func (stream) orderly(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	text := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.Unavailable:
		broken := strings.Contains(text, "connection error") || strings.Contains(text, "error reading from server")
		return !broken || strings.Contains(text, "received prior goaway")
	case codes.Internal:
		return text == "server closed the stream without sending trailers"
	case codes.Canceled:
		return text == "stream terminated by RST_STREAM with error code: CANCEL"
	}
	return false
}

func (s stream) close() {
	s.cancel()
	_ = s.connection.Close()
}
