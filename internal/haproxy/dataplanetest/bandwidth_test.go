package dataplanetest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
)

const bandwidthWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: r
      rules:
        - matches: [{path: {value: /answers}}]
          filters:
            - {type: BandwidthLimit, bandwidthLimit: {response: {bytesPerSecond: 1024, minBytes: 100000}}}
            - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /requests}}]
          filters: [{type: BandwidthLimit, bandwidthLimit: {request: {bytesPerSecond: 1024}}}]
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /counted}}]
          maxRequestBytes: 10
          filters: [{type: BandwidthLimit, bandwidthLimit: {response: {bytesPerSecond: 1024}}}]
          backendRefs: [{name: app, port: 80}]
        - {matches: [{path: {value: /free}}], backendRefs: [{name: app, port: 80}]}
backends: [{service: app, port: 80}]
`

// startLimited starts a gateway whose backend sends each path to a channel when a request for it begins, and answers
// with as many bytes as the header Want says.
func startLimited(t *testing.T) (*gateway, chan string) {
	t.Helper()
	began := make(chan string, 16)
	app := func(w http.ResponseWriter, r *http.Request) {
		began <- r.URL.Path
		_, _ = io.Copy(io.Discard, r.Body)
		if length := r.Header.Get("Want"); length != "" {
			n, _ := strconv.Atoi(length)
			w.Header().Set("Content-Length", length)
			_, _ = io.WriteString(w, strings.Repeat("a", n))
		}
	}
	return startServing(t, rendertest.Parse(t, bandwidthWorld), handlers{"app": app}), began
}

// TestBandwidthLimit: while a limited request is on its way, others come to their end that began later. It would take a
// quarter of an hour.
func TestBandwidthLimit(t *testing.T) {
	t.Parallel()
	const long = 1 << 20
	g, began := startLimited(t)
	download := "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nWant: " + strconv.Itoa(long) + "\r\n\r\n"
	upload := "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(long) + "\r\n\r\n" + strings.Repeat("a", long)
	counted := strings.Replace(strings.Replace(download, "GET", "POST", 1), "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 1)
	for _, c := range []struct{ path, arrives, request string }{{"/answers", "/new", download}, {"/requests", "/requests", upload}, {"/counted", "/counted", counted}} { // the end of a counted body comes later
		connection := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[80])))(t)
		ended := make(chan int, 1)
		go func() {
			go func() { _, _ = io.WriteString(connection, fmt.Sprintf(c.request, c.path)) }()
			got, _ := io.ReadAll(connection)
			ended <- len(got)
		}()
		if got := <-began; got != c.arrives {
			t.Errorf("%s: the backend gets %s", c.path, got)
		}
		if c.path == "/counted" {
			_, _ = io.WriteString(connection, "0\r\n\r\n")
		}
		for _, request := range []string{download, upload} {
			if got := newClient(t, g.ports[80]).send(fmt.Sprintf(request, "/free")); got.Status != 200 {
				t.Errorf("/free: got %d", got.Status)
			}
			<-began
		}
		select {
		case got := <-ended:
			t.Errorf("%s is not limited: it ended with %d bytes", c.path, got)
		default:
		}
		_ = connection.Close()
	}
}

// TestWhatBandwidthLimitLeaves: short answers pass at once, and long bodies of requests are refused.
func TestWhatBandwidthLimitLeaves(t *testing.T) {
	t.Parallel()
	g, _ := startLimited(t)
	client := newClient(t, g.ports[80])
	if got := client.send("GET /answers HTTP/1.1\r\nHost: x\r\nWant: 99999\r\n\r\n"); got.Status != 200 || len(got.Body) != 99999 {
		t.Errorf("a short answer: got %d with %d bytes", got.Status, len(got.Body))
	}
	if got := client.send("POST /counted HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n"); got.Status != 413 {
		t.Errorf("a long body of a request: got %d", got.Status)
	}
}
