// Package load sends a steady load of requests of all kinds and reports each one without the right answer. It repeats
// only requests that the server did not look at, by HTTP/2, and closes no connection before the server asks for it.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is a way to send requests.
type Kind string

// The kinds.
const (
	KeepAlive     Kind = "HTTP/1.1, connections kept"
	Rare          Kind = "HTTP/1.1, connections kept, rarely used"
	NewConnection Kind = "HTTP/1.1, new connections"
	NewTLS        Kind = "HTTP/1.1 over TLS, new connections"
	HTTP2         Kind = "HTTP/2 over TLS"
	Slow          Kind = "slow requests"
	WebSocket     Kind = "WebSocket"
	GRPC          Kind = "gRPC stream"
)

// Options say what to send where.
type Options struct {
	// Address takes HTTP, TLSAddress HTTPS. Without the latter, nothing is sent over TLS, and no gRPC.
	Address, TLSAddress string
	TLS                 *tls.Config
	// Dial opens connections. Without it, they come from this machine's own network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Host is whom the requests are for.
	Host string
	// Rate is how many requests a second all short kinds send together.
	Rate int
	// Slow, WebSockets and Streams are how many of these are under way at any time.
	Slow, WebSockets, Streams int
	// Delay is how long a slow request takes, Timeout how long an answer may take beyond that.
	Delay, Timeout time.Duration
	// Interval is the time between two messages of a WebSocket or stream.
	Interval time.Duration
	// Check returns the problem of an answer. It is called from many goroutines.
	Check func(Answer) error
	// Ended returns the problem of the end of a WebSocket or stream that the other side ended. Without it, any such end
	// is a failure.
	Ended func(End) error
}

// Answer is a whole answer to a request.
type Answer struct {
	Kind Kind
	// Opened is when the connection was opened, Sent when the request was sent.
	Opened, Sent time.Time
	// Last reports whether the other side wants no more requests on the connection.
	Last   bool
	Status int
	Header http.Header
	Body   []byte
	// Version and Pod are the echo backend's.
	Version, Pod string
}

// End is the end of a WebSocket or stream that the other side ended.
type End struct {
	Kind   Kind
	Opened time.Time
	At     time.Time
	// Orderly reports whether the other side said so: a FIN or close frame, a GOAWAY or RST_STREAM; no TCP reset, no
	// silence.
	Orderly bool
	Cause   error
}

// Load is being sent from Start to Stop.
type Load struct {
	options Options
	begin   time.Time
	ctx     context.Context //nolint:containedctx // the load's own life
	cancel  context.CancelFunc
	group   sync.WaitGroup
	record  recorder
	// talking is how many WebSockets and streams are open.
	talking atomic.Int32
	// senders are closed when all requests are answered: some share a connection.
	senders []sender
}

// The mix of the short kinds: how many of a hundred requests, and how many connections or senders they come from.
var mix = []struct {
	kind           Kind
	share, senders int
}{
	{KeepAlive, 40, 20},
	{HTTP2, 40, 20},
	{NewConnection, 15, 10},
	{NewTLS, 5, 5},
}

const (
	// streamsPerConnection is how many senders share a connection of HTTP/2.
	streamsPerConnection = 5
	// rareSenders send each once in rareEvery: connections that are mostly idle.
	rareSenders = 10
	rareEvery   = 2 * time.Second
)

// Start begins to send.
func Start(ctx context.Context, options Options) *Load {
	if options.Dial == nil {
		options.Dial = (&net.Dialer{}).DialContext
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{options: options, begin: time.Now(), ctx: ctx, cancel: cancel}
	l.record.result.Kinds = map[Kind]*Stats{}
	for _, part := range mix {
		if options.TLSAddress == "" && (part.kind == HTTP2 || part.kind == NewTLS) {
			continue
		}
		every := time.Duration(part.senders) * time.Second * 100 / time.Duration(options.Rate*part.share)
		l.startSenders(part.kind, part.senders, every)
	}
	l.startSenders(Rare, rareSenders, rareEvery)
	l.startSenders(Slow, options.Slow, options.Delay+100*time.Millisecond)
	for i := range options.WebSockets {
		l.group.Go(func() { l.talk(WebSocket, i, l.openWebSocket) })
	}
	if options.TLSAddress != "" {
		for i := range options.Streams {
			l.group.Go(func() { l.talk(GRPC, i, l.openStream) })
		}
	}
	return l
}

// Talking is how many WebSockets and streams are open.
func (l *Load) Talking() int { return int(l.talking.Load()) }

// Stop ends the load when the requests under way are answered, and says what happened.
func (l *Load) Stop() *Result {
	l.cancel()
	l.group.Wait()
	for _, s := range l.senders {
		s.close()
	}
	l.record.result.Elapsed = time.Since(l.begin)
	return &l.record.result
}

// startSenders starts n senders that send a request each in every interval, evenly spread.
func (l *Load) startSenders(kind Kind, n int, every time.Duration) {
	var shared *http2Client
	for i := range n {
		var s sender
		switch kind {
		case HTTP2:
			if i%streamsPerConnection == 0 {
				shared = &http2Client{dial: l.dialHTTP2}
			}
			s = shared
		case NewTLS:
			s = &http1Client{dial: l.dialTLS, closes: true}
		default:
			s = &http1Client{dial: l.dialPlain, closes: kind == NewConnection}
		}
		offset := every * time.Duration(i) / time.Duration(n)
		l.senders = append(l.senders, s)
		l.group.Go(func() { l.sendAll(kind, s, every, l.begin.Add(offset)) })
	}
}

// sendAll sends requests from the sender at their times; one that is late goes out at once.
func (l *Load) sendAll(kind Kind, s sender, every time.Duration, due time.Time) {
	for n := 0; l.sleepUntil(due); n++ {
		l.request(kind, s, n, due)
		due = due.Add(every)
	}
}

func (l *Load) sleepUntil(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-timer.C:
		return l.ctx.Err() == nil
	}
}

// request sends the n-th request of a sender. Its latency counts from when it was due: if the ones before had to wait,
// so had this.
func (l *Load) request(kind Kind, s sender, n int, due time.Time) {
	timeout, path, body := l.options.Timeout, "/", ""
	if kind == Slow {
		timeout += l.options.Delay
		path = "/delay/" + l.options.Delay.String()
		due = due.Add(l.options.Delay)
	}
	if n%4 == 3 && kind != Slow {
		body = strings.Repeat("x", 100)
	}
	// Its own time limit: the request under way when the load stops still counts.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), timeout)
	defer cancel()
	answer, err := s.send(ctx, newRequest(ctx, l.options.Host, path, body))
	latency := time.Since(due)
	answer.Kind = kind
	if err == nil {
		err = answer.read(len(body))
	}
	if err == nil {
		err = l.options.Check(answer)
	}
	if err != nil {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		err = fmt.Errorf("%s %s, sent %s: %w", method, path, answer.Sent.Format(clock), err)
	}
	l.record.request(kind, latency, err)
}

func (l *Load) dialPlain(ctx context.Context) (net.Conn, error) {
	return l.options.Dial(ctx, "tcp", l.options.Address)
}

func (l *Load) dialTLS(ctx context.Context) (net.Conn, error) {
	return l.dialProtocol(ctx, "http/1.1")
}

func (l *Load) dialHTTP2(ctx context.Context) (net.Conn, error) {
	return l.dialProtocol(ctx, "h2")
}

func (l *Load) dialProtocol(ctx context.Context, protocol string) (net.Conn, error) {
	config := l.options.TLS.Clone()
	config.NextProtos = []string{protocol}
	raw, err := l.options.Dial(ctx, "tcp", l.options.TLSAddress)
	if err != nil {
		return nil, err
	}
	connection := tls.Client(raw, config)
	if err := connection.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return connection, nil
}
