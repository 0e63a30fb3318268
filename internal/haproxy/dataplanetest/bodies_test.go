package dataplanetest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
)

// TestBodiesOfUnknownLength are counted: what is within the limit arrives as a whole, and of what is longer, at most as
// much as the limit, without an end.
func TestBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	const most = 100_000
	count := func(_ http.ResponseWriter, r *http.Request) {
		sent, _ := strconv.ParseInt(r.Header.Get("X-Sent"), 10, 64)
		if n, err := io.Copy(io.Discard, r.Body); n > most || (err == nil) != (sent <= most) {
			t.Errorf("of %d bytes, the backend got %d, and then %v", sent, n, err)
		}
	}
	for appProtocol, mode := range map[string]func(*httptest.Server){"": nil, h2c: cleartextHTTP2} {
		g := startBackends(t, fmt.Sprintf(", maxRequestBytes: %d", most), "", appProtocol, serve(t, count, mode))
		for proto, client := range map[string]*http.Client{"HTTP/1.1": {Transport: &http.Transport{}, Timeout: answerTimeout}, "HTTP/2": http2Client(t)} {
			for _, size := range []int64{0, 1, most - 1, most, most + 1, most + 100<<10, 50 * most} {
				status, text := 200, ""
				if size > most {
					status, text = 413, "the body of the request is too long\n"
				}
				// The reader hides the length.
				request := must.Get(http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), io.LimitReader(endless{}, size)))(t)
				request.Header.Set("X-Sent", fmt.Sprint(size))
				response, err := client.Do(request)
				if err != nil {
					t.Fatalf("%s, %q, %d bytes: %v", proto, appProtocol, size, err)
				}
				answer, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if response.StatusCode != status || string(answer) != text {
					t.Errorf("%s, %q, %d bytes: got %d %q", proto, appProtocol, size, response.StatusCode, answer)
				}
			}
		}
	}
}

// endless has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// TestSlowBodiesOfUnknownLength are counted as they come. Trailers are not.
func TestSlowBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan string), make(chan bool, 1)
	g := startBackends(t, ", maxRequestBytes: 10", "", "", serve(t, func(_ http.ResponseWriter, r *http.Request) {
		half := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, half)
		begun <- string(half)
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err == nil
	}, nil))
	for rest, status := range map[string]int{
		"5\r\n56789\r\n0\r\n\r\n":                             200,
		"5\r\n56789\r\n0\r\nX-Long: 0123456789\r\n\r\n":       200,
		"6\r\n56789a\r\n0\r\n\r\n":                            413,
		"5\r\n56789\r\n1\r\na\r\n0\r\n\r\n":                   413,
		"5\r\n56789\r\n1\r\na\r\n0\r\nX-Long: 012345\r\n\r\n": 413,
	} {
		conn := dial(t, g.ports[80])
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n")
		if half := <-begun; half != "01234" {
			t.Fatalf("the backend got %q", half)
		}
		_, _ = io.WriteString(conn, rest)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.Do(t, err)
		_ = response.Body.Close()
		if end := <-ended; response.StatusCode != status || end != (status == 200) {
			t.Errorf("%q: got %d; the request ended for the backend: %v", rest, response.StatusCode, end)
		}
	}
}

// TestWholeBodiesOfUnknownLength that come together with their headers have no connection of their own to the backend.
// The limit is the same.
func TestWholeBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	from := make(chan string, 1)
	g := startBackends(t, ", maxRequestBytes: 10", "", "", serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		from <- fmt.Sprint(r.RemoteAddr, " ", string(body), " ", err)
	}, nil))
	client, first := newClient(t, g.ports[80]), ""
	for _, test := range []struct {
		chunks string
		status int
	}{
		{"a\r\n0123456789\r\n0\r\n\r\n", 200},
		{"5\r\n01234\r\n5\r\n56789\r\n0\r\nX-Long: 0123456789\r\n\r\n", 200},
		{"b\r\n0123456789a\r\n0\r\n\r\n", 413},
		{"5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n", 413},
	} {
		got := client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + test.chunks)
		if got.Status != test.status {
			t.Errorf("%q: got %d", test.chunks, got.Status)
		}
		if test.status != 200 {
			continue
		}
		switch sent := <-from; {
		case first == "":
			first = sent
		case sent != first:
			t.Errorf("%q: the backend got %q, and before, %q", test.chunks, sent, first)
		}
	}
	decisions, err := runtime.NewWorker(g.WorkerSocket).Decisions(t.Context())
	if err != nil || len(decisions) != 1 || decisions[0].Allowed != 2 || decisions[0].Denied["maxRequestBytes"] != 2 {
		t.Errorf("two passed, and two did not: HAProxy says %+v, %v", decisions, err)
	}
}

// TestTooManyBodiesOfUnknownLength: one more than are counted at a time gets 503, and is none that was allowed.
func TestTooManyBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	const begin = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
	g := startBackends(t, ", maxRequestBytes: 10", "", "", serve(t, readAll, nil))
	for range 1024 {
		_, _ = io.WriteString(dial(t, g.ports[80]), begin)
	}
	eventually(t, "1,024 are counted", func() bool { return g.arrived(t) == "1024" })
	if got := newClient(t, g.ports[80]).send(begin); got.Status != http.StatusServiceUnavailable {
		t.Errorf("one more gets %d", got.Status)
	}
	decisions, err := runtime.NewWorker(g.WorkerSocket).Decisions(t.Context())
	if err != nil || len(decisions) != 1 || decisions[0].Allowed != 0 || decisions[0].Failed["maxRequestBytes"] != 1 {
		t.Errorf("one failed, and the others are not done: HAProxy says %+v, %v", decisions, err)
	}
}

// TestStreamsOfUnknownLength: both sides send in turn, until the client has sent too much.
func TestStreamsOfUnknownLength(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"": "", "with a limit of connections": limited} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			g := startBackends(t, ", maxRequestBytes: 20", policy, h2c, serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush() // The answer begins before the first message.
				buffer := make([]byte, 10)
				for {
					if _, err := io.ReadFull(r.Body, buffer); err != nil {
						failed <- err
						return
					}
					_, _ = w.Write(buffer)
					w.(http.Flusher).Flush()
				}
			}, cleartextHTTP2))
			reader, writer := io.Pipe()
			request := must.Get(http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/pkg.Service/Method", g.ports[80]), reader))(t)
			request.Header.Set("Content-Type", "application/grpc")
			response, err := http2Client(t).Do(request)
			must.Do(t, err)
			defer response.Body.Close() //nolint:errcheck // it is read to its end
			buffer := make([]byte, 10)
			for range 2 {
				_, _ = io.WriteString(writer, "0123456789")
				if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != "0123456789" {
					t.Fatalf("got %q: %v", buffer, err)
				}
			}
			_, _ = io.WriteString(writer, "0")
			if rest, err := io.ReadAll(response.Body); err == nil || len(rest) > 0 {
				t.Errorf("the answer goes on with %q, and ends with %v", rest, err)
			}
			if err := <-failed; errors.Is(err, io.EOF) {
				t.Error("the request ended for the backend")
			}
		})
	}
}

// TestCountedRequests are for the backend as all others are.
func TestCountedRequests(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close() //nolint:errcheck // the end of the test
	g := startBackends(t, ", maxRequestBytes: 5", ", proxyProtocol: V1", "", ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)})
	client := dial(t, g.ports[80])
	_, _ = io.WriteString(client, "POST /a HTTP/1.1\r\nHost: x\r\nGateway-Body-Filters: max=100\r\nGateway-Body-Backend: no-route\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
	conn := must.Get(listener.Accept())(t)
	defer conn.Close() //nolint:errcheck // the end of the test
	reader := bufio.NewReader(conn)
	from, _ := reader.ReadString('\n')
	if want := fmt.Sprintf("PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\n", client.LocalAddr().(*net.TCPAddr).Port, g.ports[80]); from != want {
		t.Errorf("the connection begins with %q, want %q", from, want)
	}
	request := must.Get(http.ReadRequest(reader))(t)
	_, _ = io.WriteString(client, "0\r\n\r\n")
	if body, err := io.ReadAll(request.Body); string(body) != "abcde" || err != nil || strings.Contains(fmt.Sprint(request.Header), "Gateway") {
		t.Errorf("the backend got %q (%v) with %v", body, err, request.Header)
	}
}
