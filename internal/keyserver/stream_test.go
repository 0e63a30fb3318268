package keyserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/keystream"
	"gateway/internal/must"
)

// pipes is a listener of connections in memory.
type pipes struct {
	connections chan net.Conn
	closed      context.Context
	close       context.CancelFunc
}

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "10.0.0.1:1" }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case connection := <-p.connections:
		return connection, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Addr() net.Addr { return address{} }

func (p *pipes) Close() error {
	p.close()
	return nil
}

// inBubble calls test with a server, and a function that connects to it.
func inBubble(t *testing.T, test func(f *fixture, dial func() net.Conn), documents ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, documents...)
		p := &pipes{connections: make(chan net.Conn)}
		p.closed, p.close = context.WithCancel(context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- f.serve(ctx, p, f.config) }()
		defer func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		test(f, func() net.Conn {
			ours, theirs := net.Pipe()
			p.connections <- theirs
			return ours
		})
	})
}

// secure makes a connection speak TLS.
func (f *fixture) secure(connection net.Conn) *tls.Conn {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.authority)
	return tls.Client(connection, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13})
}

func header(token string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", keystream.Path, token, length)
}

// TestHalfStreams: whoever does not go on is cut, and holds nothing.
func TestHalfStreams(t *testing.T) {
	tests := map[string]struct {
		send    string
		isPlain bool
		after   time.Duration
	}{
		"no handshake":   {"", true, headerTimeout},
		"no request":     {"", false, headerTimeout},
		"half a header":  {header("x", 0)[:20], false, headerTimeout},
		"half a request": {header(podToken("shop", "pod-1"), 100) + "{", false, writeTimeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture, dial func() net.Conn) {
				connection, begun := dial(), time.Now()
				if !test.isPlain {
					connection = f.secure(connection)
					must.Get(io.WriteString(connection, test.send))(t)
				}
				_, _ = io.Copy(io.Discard, connection)
				if took := time.Since(begun); took < test.after || took > test.after+time.Second {
					t.Errorf("it was cut after %v, want %v", took, test.after)
				}
				_ = connection.Close()
			}, secrets, shop)
		})
	}
}

// TestLongRequests: nobody sends more than a request may have.
func TestLongRequests(t *testing.T) {
	tests := map[string]struct{ send, want string }{
		"a long header": {"POST / HTTP/1.1\r\nHost: " + strings.Repeat("x", 2*maxHeader), "431"},
		"a long body":   {header(podToken("shop", "pod-1"), maxRequest+1) + `{"have":{"` + strings.Repeat("x", maxRequest), "400"},
		"no JSON":       {header(podToken("shop", "pod-1"), 3) + "abc", "400"},
		"nothing here":  {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture, dial func() net.Conn) {
				connection := f.secure(dial())
				go func() { _, _ = io.WriteString(connection, test.send) }()
				line, err := bufio.NewReader(connection).ReadString('\n')
				if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+test.want) {
					t.Errorf("the answer is %q, error %v, want %s", line, err, test.want)
				}
				_ = connection.Close()
			}, secrets, shop)
		})
	}
}

// TestManyLongRequests: few long requests of a pod are read at the same time. More requests of its Gateway are
// refused, and requests of other Gateways are not.
func TestManyLongRequests(t *testing.T) {
	inBubble(t, func(f *fixture, dial func() net.Conn) {
		begin := func(gateway, pod string) net.Conn {
			connection := f.secure(dial())
			must.Get(io.WriteString(connection, header(podToken(gateway, pod), longRequest+1)+"{"))(t)
			synctest.Wait()
			return connection
		}
		status := func(connection net.Conn) string {
			line, _ := bufio.NewReader(connection).ReadString('\n')
			_ = connection.Close()
			return strings.TrimSpace(line)
		}
		var long []net.Conn
		for range maxLong {
			long = append(long, begin("shop", "pod-1"))
		}
		if got := status(begin("shop", "pod-2")); !strings.HasPrefix(got, "HTTP/1.1 429") {
			t.Errorf("one more is answered %q", got)
		}
		long = append(long, begin("plain", "pod-2"))
		for _, connection := range long {
			if got := status(connection); !strings.HasPrefix(got, "HTTP/1.1 400") {
				t.Errorf("half a request is answered %q", got)
			}
		}
		f.state.mu.Lock()
		defer f.state.mu.Unlock()
		for name, p := range f.state.plans {
			if p.long > 0 {
				t.Errorf("%d of %s count", p.long, name)
			}
		}
	}, secrets, shop, own)
}

// stream opens a stream, and returns what comes.
func (f *fixture) stream(connection net.Conn) *bufio.Reader {
	f.t.Helper()
	secured := f.secure(connection)
	f.t.Cleanup(func() { _ = secured.Close() })
	must.Get(io.WriteString(secured, header(podToken("shop", "pod-1"), 2)+"{}"))(f.t)
	return bufio.NewReader(secured)
}

// TestSlowReaders: a pod that does not read is cut, and holds one line.
func TestSlowReaders(t *testing.T) {
	inBubble(t, func(f *fixture, dial func() net.Conn) {
		reader, begun := f.stream(dial()), time.Now()
		must.Get(reader.ReadString('\n'))(t)
		time.Sleep(2 * writeTimeout)
		synctest.Wait()
		f.state.mu.Lock()
		left := len(f.state.pods)
		f.state.mu.Unlock()
		if left > 0 {
			t.Errorf("the stream is there after %v", time.Since(begun))
		}
		if _, err := io.Copy(io.Discard, reader); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("the end was in order: %v", err)
		}
	}, secrets, shop)
}

// TestLifetime: a stream says that it is there, and ends in order after some minutes: its pod shows its token again.
func TestLifetime(t *testing.T) {
	inBubble(t, func(f *fixture, dial func() net.Conn) {
		reader, begun := f.stream(dial()), time.Now()
		all := must.Get(io.ReadAll(reader))(t)
		took := time.Since(begun)
		if took < lifetime*4/5 || took > lifetime*6/5 || !strings.HasSuffix(string(all), "\r\n0\r\n\r\n") {
			t.Errorf("the stream ended after %v with %q", took, all[max(0, len(all)-100):])
		}
		if pings := strings.Count(string(all), `{"ping":true}`); pings != int(took/keystream.PingInterval) {
			t.Errorf("%d pings in %v", pings, took)
		}
	}, secrets, shop)
}

// TestStop: streams end in order when the server does.
func TestStop(t *testing.T) {
	ended := make(chan string, 1)
	inBubble(t, func(f *fixture, dial func() net.Conn) {
		reader := f.stream(dial())
		go func() {
			all, err := io.ReadAll(reader)
			ended <- fmt.Sprint(strings.HasSuffix(string(all), "\r\n0\r\n\r\n"), err)
		}()
		synctest.Wait()
	}, secrets, shop)
	if got := <-ended; got != "true <nil>" {
		t.Errorf("the stream ended in order, and with an error: %s", got)
	}
}
