package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"gateway/internal/must"
)

// start serves on ports of its own until the test ends and returns their addresses: plain, TLS, PROXY protocol. stop is
// what SIGTERM is.
func start(t *testing.T, certificates string) (addresses [3]string, stop func() error) {
	t.Helper()
	o := options{listen: "127.0.0.1:0", tlsListen: "127.0.0.1:0", proxyListen: "127.0.0.1:0", certificates: certificates}
	listeners := must.Get(o.listeners())(t)
	for i, listener := range listeners {
		addresses[i] = listener.Addr().String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listeners, "v7", time.Millisecond) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return addresses, stop
}

// clientOf is an HTTP client that speaks these protocols and no others.
func clientOf(t *testing.T, enable func(p *http.Protocols), config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: config}
	enable(transport.Protocols)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func http1(p *http.Protocols) { p.SetHTTP1(true) }

// get returns the status of the answer and its body.
func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	must.Do(t, err)
	defer func() { _ = response.Body.Close() }()
	body := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(body)
}

func parse(t *testing.T, body string) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("the answer is no reply: %v: %s", err, body)
	}
	return r
}

func TestEcho(t *testing.T) {
	t.Parallel()
	addresses, _ := start(t, "")
	request := must.Get(http.NewRequest(http.MethodPost, "http://"+addresses[0]+"//a/%2e%2e/b?x=1&x=2", strings.NewReader("hello")))(t)
	request.Host = "shop.example.com"
	request.Header["X-Two"] = []string{"1", "2"}
	response, err := clientOf(t, http1, nil).Do(request)
	must.Do(t, err)
	defer func() { _ = response.Body.Close() }()
	body := must.Get(io.ReadAll(response.Body))(t)
	r := parse(t, string(body))
	if response.StatusCode != http.StatusOK || r.Version != "v7" || r.Method != http.MethodPost || r.Host != "shop.example.com" ||
		r.Path != "//a/%2e%2e/b" || r.Query != "x=1&x=2" || r.BodyBytes != 5 || r.Protocol != "HTTP/1.1" ||
		!slices.Equal(r.Headers["X-Two"], []string{"1", "2"}) || !strings.HasPrefix(r.Client, "127.0.0.1:") {
		t.Errorf("the answer is %d %s", response.StatusCode, body)
	}
}

func TestSpecialPaths(t *testing.T) {
	t.Parallel()
	addresses, _ := start(t, "")
	client := clientOf(t, http1, nil)
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{"/healthz", "ok\n", 200},
		{"/status/503", `"path":"/status/503"`, 503},
		{"/status/204", "", 204},
		{"/status/99", "want a status", 400},
		{"/status/1x", "want a status", 400},
		{"/status/502?once=a", `"once=a"`, 502},
		{"/status/502?once=a", `"once=a"`, 200},
		{"/status/502?once=b", `"once=b"`, 502},
		{"/delay/soon", "want a duration", 400},
		{"/events?count=2&interval=1ms", "id: 1\ndata: v7\n\nid: 2\ndata: v7\n\n", 200},
		{"/ws", "this is a WebSocket", 426},
	} {
		status, body := get(t, client, "http://"+addresses[0]+test.path)
		if status != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s: answered %d %q, want %d and %q", test.path, status, body, test.status, test.body)
		}
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	addresses, _ := start(t, "")
	client := clientOf(t, http1, nil)
	begin := time.Now()
	status, body := get(t, client, "http://"+addresses[0]+"/delay/30ms")
	if took := time.Since(begin); status != http.StatusOK || parse(t, body).Path != "/delay/30ms" || took < 30*time.Millisecond {
		t.Errorf("answered %d %s after %v", status, body, took)
	}
}

// TestEventsStream: events come one by one, and a stream without an end does not keep the program from ending.
func TestEventsStream(t *testing.T) {
	t.Parallel()
	addresses, stop := start(t, "")
	response, err := clientOf(t, http1, nil).Get("http://" + addresses[0] + "/events?interval=1ms")
	must.Do(t, err)
	defer func() { _ = response.Body.Close() }()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("Content-Type is %q", kind)
	}
	lines := bufio.NewScanner(response.Body)
	for _, want := range []string{"id: 1", "data: v7", "", "id: 2"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("a line is %q, want %q: %v", lines.Text(), want, lines.Err())
		}
	}
	if err := stop(); err != nil {
		t.Errorf("serving ended with %v", err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	addresses, _ := start(t, "")
	client := clientOf(t, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, nil)
	if status, body := get(t, client, "http://"+addresses[0]+"/x"); status != http.StatusOK || parse(t, body).Protocol != "HTTP/2.0" {
		t.Errorf("answered %d %s", status, body)
	}
	if status, body := get(t, client, "http://"+addresses[0]+"/ws"); status != http.StatusUpgradeRequired {
		t.Errorf("/ws over HTTP/2: answered %d %s", status, body)
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	addresses, stop := start(t, "")
	connection := must.Get(websocket.Dial("ws://"+addresses[0]+"/ws", "", "http://localhost"))(t)
	defer func() { _ = connection.Close() }()
	for _, sent := range []message{
		{websocket.TextFrame, []byte("hello")},
		{websocket.BinaryFrame, []byte{0, 1, 2, 255}},
		{websocket.TextFrame, []byte(strings.Repeat("x", 100_000))},
	} {
		var got message
		must.Do(t, messages.Send(connection, sent))
		must.Do(t, messages.Receive(connection, &got))
		if got.kind != sent.kind || string(got.data) != string(sent.data) {
			t.Errorf("%d bytes of kind %d came back as %d bytes of kind %d", len(sent.data), sent.kind, len(got.data), got.kind)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("with a WebSocket, serving ended with %v", err)
	}
	if err := messages.Receive(connection, &message{}); !errors.Is(err, io.EOF) {
		t.Errorf("the WebSocket ended with %v", err)
	}
}

func TestGRPCHealth(t *testing.T) {
	t.Parallel()
	addresses, stop := start(t, "")
	connection := must.Get(grpc.NewClient(addresses[0], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()
	client := grpc_health_v1.NewHealthClient(connection)
	answer, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("Check: %v, %v", answer, err)
	}
	// The error is in trailers, so they arrive.
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("Check of an unknown service: %v", err)
	}
	watch := must.Get(client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{}))(t)
	if answer, err := watch.Recv(); err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("Watch: %v, %v", answer, err)
	}
	if err := stop(); err != nil {
		t.Errorf("with a watcher, serving ended with %v", err)
	}
}

func TestGRPCMessages(t *testing.T) {
	t.Parallel()
	addresses, stop := start(t, "")
	connection := must.Get(grpc.NewClient(addresses[0], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()
	stream := must.Get(connection.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/echo.Echo/Echo"))(t)
	for _, sent := range []string{"one", "two"} {
		var got grpc_health_v1.HealthCheckRequest
		must.Do(t, stream.SendMsg(&grpc_health_v1.HealthCheckRequest{Service: sent}))
		if err := stream.RecvMsg(&got); err != nil || got.Service != sent {
			t.Errorf("%q came back as %q, %v", sent, got.Service, err)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("with a stream, serving ended with %v", err)
	}
	if err := stream.RecvMsg(&grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestTLS: the certificate may come after the start, and another may replace it.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses, _ := start(t, dir)
	roots := x509.NewCertPool()
	dial := func(protocol string) (*tls.Conn, error) {
		return tls.Dial("tcp", addresses[1], &tls.Config{RootCAs: roots, ServerName: "echo.example.com", NextProtos: []string{protocol}})
	}
	if connection, err := dial("h2"); err == nil {
		_ = connection.Close()
		t.Fatal("there was TLS without a certificate")
	}
	for serial := range int64(2) {
		writeCertificate(t, dir, serial, roots)
		for _, protocol := range []string{"h2", "http/1.1"} {
			connection := must.Get(dial(protocol))(t)
			state := connection.ConnectionState()
			if state.NegotiatedProtocol != protocol || state.PeerCertificates[0].SerialNumber.Int64() != serial {
				t.Errorf("got protocol %s, certificate %v, want %s, %d",
					state.NegotiatedProtocol, state.PeerCertificates[0].SerialNumber, protocol, serial)
			}
			_ = connection.Close()
		}
	}
	client := clientOf(t, func(p *http.Protocols) { p.SetHTTP2(true) }, &tls.Config{RootCAs: roots, ServerName: "echo.example.com"})
	status, body := get(t, client, "https://"+addresses[1]+"/")
	if r := parse(t, body); status != http.StatusOK || r.Protocol != "HTTP/2.0" || r.ServerName != "echo.example.com" || r.ClientCertificate != "" {
		t.Errorf("answered %d %s", status, body)
	}
	shown := must.Get(tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")))(t)
	config := &tls.Config{RootCAs: roots, ServerName: "echo.example.com", Certificates: []tls.Certificate{shown}}
	client = clientOf(t, func(p *http.Protocols) { p.SetHTTP2(true) }, config)
	if status, body := get(t, client, "https://"+addresses[1]+"/"); parse(t, body).ClientCertificate != "CN=caller" {
		t.Errorf("with a certificate: answered %d %s", status, body)
	}
}

// writeCertificate writes a certificate for echo.example.com, and adds it to those trusted.
func writeCertificate(t *testing.T, dir string, serial int64, roots *x509.CertPool) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "caller"}, DNSNames: []string{"echo.example.com"}, NotAfter: time.Now().Add(time.Hour),
	}
	certificate := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate}, "tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		content := pem.EncodeToMemory(&block)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		if name == "tls.crt" {
			roots.AppendCertsFromPEM(content)
		}
	}
}

func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	addresses, _ := start(t, "")
	v2 := "\r\n\r\n\x00\r\nQUIT\n"
	for _, test := range []struct {
		name, header, client string
	}{
		{"version 1", "PROXY TCP4 203.0.113.7 192.0.2.1 1234 80\r\n", "203.0.113.7:1234"},
		{"version 1, IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 1234 80\r\n", "[2001:db8::7]:1234"},
		{"version 1, unknown", "PROXY UNKNOWN\r\n", "127.0.0.1:"},
		{"version 2", v2 + "\x21\x11\x00\x0c\xcb\x00\x71\x07\xc0\x00\x02\x01\x04\xd2\x00\x50", "203.0.113.7:1234"},
		{"version 2 with more", v2 + "\x21\x11\x00\x10\xcb\x00\x71\x07\xc0\x00\x02\x01\x04\xd2\x00\x50\x04\x00\x01\x00", "203.0.113.7:1234"},
		{"version 2, local", v2 + "\x20\x00\x00\x00", "127.0.0.1:"},
		{"none", "", ""},
		{"another protocol", "EHLO x\r\nEHLO x\r\n", ""},
		{"no port", "PROXY TCP4 203.0.113.7 192.0.2.1 x 80\r\n", ""},
		{"no end", "PROXY " + strings.Repeat("x", 10_000), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			connection := must.Get(net.Dial("tcp", addresses[2]))(t)
			defer func() { _ = connection.Close() }()
			_, _ = io.WriteString(connection, test.header+"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if test.client == "" {
				if err == nil && response.StatusCode == http.StatusOK {
					t.Errorf("it was answered")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body := must.Get(io.ReadAll(response.Body))(t)
			if r := parse(t, string(body)); !strings.HasPrefix(r.Client, test.client) {
				t.Errorf("the client is %q, want %q", r.Client, test.client)
			}
		})
	}
}
