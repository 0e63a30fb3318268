package dataplanetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
)

const authBodyWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, forwardBody: {maxSize: 8192}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /small}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, forwardBody: {maxSize: 10}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /counted}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, forwardBody: {maxSize: 8192}}}]
          maxRequestBytes: 8192
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /few}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, forwardBody: {maxSize: 8192}}}]
          maxRequestBytes: 10
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /none}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}}}]
          backendRefs: [{name: web, port: 80}]
  backends:
    - {name: web, port: 80, connections: {maxPerEndpoint: 10}}
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
`

// startAuthBodies runs HAProxy for authBodyWorld. All requests may pass.
func startAuthBodies(t *testing.T, appProtocol string) *authorized {
	t.Helper()
	mode := cleartextHTTP2
	if appProtocol == "" {
		mode = nil
	}
	a := &authorized{web: make(chan string, 100), asked: make(chan string, 100)}
	a.gateway = startGatewayWith(t, rendertest.Parse(t, authBodyWorld), func(in *render.Input) {
		for name, to := range map[string]chan string{"web": a.web, "auth": a.asked} {
			server := serve(t, record(to, nil), mode)
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, AppProtocol: appProtocol, Servers: []ir.Server{server}}
		}
	})
	return a
}

// longHeader is as long as headers may be, with a few others.
var longHeader = "Long: " + strings.Repeat("h", 16000) + "\r\n"

func chunked(parts ...string) string {
	var text strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&text, "%x\r\n%s\r\n", len(part), part)
	}
	return "Transfer-Encoding: chunked\r\n\r\n" + text.String() + "0\r\n\r\n"
}

func ofLength(body string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// TestBodiesOfQuestions: the Service and the backend get the whole body, byte by byte. The Service gets its length, and
// no other header about it.
func TestBodiesOfQuestions(t *testing.T) {
	t.Parallel()
	for _, appProtocol := range []string{"", h2c} {
		a := startAuthBodies(t, appProtocol)
		arrived := func(name, method, body string) {
			t.Helper()
			asked, got := next(t, a.asked), next(t, a.web)
			header, end, _ := strings.Cut(asked, "\n\n")
			before, header, _ := strings.Cut(header, fmt.Sprintf("Content-Length: %d\r\n", len(body)))
			if !strings.HasPrefix(before, "POST /\n") || !strings.Contains(header, "X-Forwarded-Method: "+method+"\r") ||
				end != body || strings.Contains(header, "Length") || strings.Contains(header, "Encoding") || strings.Contains(header, "Expect") || strings.Contains(header, "Long") {
				t.Errorf("%s: the Service got %.500q", name, asked)
			}
			if _, end, _ := strings.Cut(got, "\n\n"); !strings.HasPrefix(got, method) || end != body {
				t.Errorf("%s: the backend got %.500q", name, got)
			}
		}
		binary, longest := "a\r\n\x00\n\n%s\"'\xff0\r\n\r\n", strings.Repeat("\x00b", 4096)
		for _, request := range []struct{ method, header, body string }{
			{"GET", "", ""}, {"POST", "", ""}, {"POST", "", binary}, {"GET", "", "a"}, {"PUT", "Expect: 100-continue\r\n", "a"},
			{"POST", "", longest}, {"POST", longHeader, binary}, {"POST", longHeader, longest},
		} {
			for _, path := range []string{"/a", "/counted"} {
				begin := request.method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + request.header
				for _, rest := range []string{ofLength(request.body), chunked(strings.Split(request.body, "")...)} {
					if got := newClient(t, a.ports[80]).send(begin + rest); got.Status != 200 && got.Status != 100 {
						t.Errorf("got %d", got.Status)
					}
					arrived(begin[:20]+rest[:20], request.method, request.body)
				}
			}
		}
		for _, body := range []io.Reader{strings.NewReader(longest), io.MultiReader(strings.NewReader(longest))} {
			got, err := http2Client(t).Post(fmt.Sprintf("http://127.0.0.1:%d/", a.ports[80]), "", body)
			if err != nil || got.StatusCode != http.StatusOK {
				t.Fatalf("got %v: %v", got, err)
			}
			_ = got.Body.Close()
			arrived("HTTP/2", "POST", longest)
		}
	}
}

// TestLongBodiesOfQuestions: nobody gets anything of a body that is longer than allowed.
func TestLongBodiesOfQuestions(t *testing.T) {
	t.Parallel()
	a := startAuthBodies(t, "")
	b := strings.Repeat("b", 8193)
	for _, request := range []string{
		"POST /small HTTP/1.1\r\nHost: x\r\n" + ofLength(b[:11]),
		"POST /small HTTP/1.1\r\nHost: x\r\n" + chunked(b[:10], "b"),
		"POST /small HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\nUpgrade: other\r\nConnection: upgrade\r\n" + ofLength(b),
		"POST /a HTTP/1.1\r\nHost: x\r\n" + longHeader + ofLength(b),
		"POST /a HTTP/1.1\r\nHost: x\r\n" + longHeader + chunked(strings.Split(b, "")...),
		"POST /a HTTP/1.1\r\nHost: x\r\n" + chunked(b, b, b, b, b, b),
		"POST /few HTTP/1.1\r\nHost: x\r\n" + chunked(b[:11]),
	} {
		if got := newClient(t, a.ports[80]).send(request); got.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%.60q: got %d", request, got.Status)
		}
	}
	if len(a.asked)+len(a.web) > 0 {
		t.Errorf("the Service got %d requests, the backend %d", len(a.asked), len(a.web))
	}
}

// TestSlowBodiesOfQuestions: the Service is asked when the whole body has arrived. Where it does not get bodies, they
// are not waited for.
func TestSlowBodiesOfQuestions(t *testing.T) {
	t.Parallel()
	a := startAuthBodies(t, "")
	const fillsBuffer = 8000
	for _, slow := range []struct{ request, rest, body string }{
		{"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", "cde", "abcde"},
		{"GET /a HTTP/1.1\r\nHost: x\r\nUpgrade: other\r\nConnection: upgrade\r\nContent-Length: 5\r\n\r\nab", "cde", "abcde"},
		{"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "3\r\ncde\r\n0\r\n\r\n", "abcde"},
		{"POST /a HTTP/1.1\r\nHost: x\r\n" + longHeader + "Transfer-Encoding: chunked\r\n\r\n1f40\r\n" + strings.Repeat("a", fillsBuffer), "\r\n1\r\nb\r\n0\r\n\r\n", strings.Repeat("a", fillsBuffer) + "b"},
		{overHTTP2("ab", field(":method", "POST"), field(":scheme", "http"), field(":path", "/a"), field(":authority", "x")), frame(frameData, 1, "cde"), "abcde"},
	} {
		conn := dial(t, a.ports[80])
		_, _ = io.WriteString(conn, slow.request)
		_, _ = io.WriteString(dial(t, a.ports[80]), "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\na")
		if got := next(t, a.asked); !strings.HasPrefix(got, "GET /\n") {
			t.Errorf("the Service got %.500q", got)
		}
		_, _ = io.WriteString(conn, slow.rest)
		for _, from := range []chan string{a.asked, a.web} {
			if got := next(t, from); !strings.HasSuffix(got, "\n\n"+slow.body) {
				t.Errorf("%.60q: got %.500q", slow.request, got)
			}
		}
	}
	_, _ = io.WriteString(dial(t, a.ports[80]), preface+frame(frameSettings, 0, "")+frame(frameHeaders, flagEndHeaders, fields(webSocket("websocket")...)))
	if got := next(t, a.asked); !strings.HasPrefix(got, "POST /\n") || !strings.HasSuffix(got, "\n\n") {
		t.Errorf("about a WebSocket, the Service got %.500q", got)
	}
}
