package dataplanetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
)

const mirrorsWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: mirrors
      rules:
        - matches: [{path: {value: /all}}]
          filters:
            - {type: RequestMirror, requestMirror: {backendRefs: [{name: copy, port: 80}, {name: missing, port: 80}]}}
            - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: one}], remove: [X-Remove]}}
            - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /two}}]
          filters: [{type: RequestMirror, requestMirror: {backendRefs: [{name: copy, port: 80}, {name: other, port: 80, percent: 25}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /none}}]
          filters: [{type: RequestMirror, requestMirror: {backendRefs: [{name: copy, port: 80, percent: 0}]}}]
          backendRefs: [{name: web, port: 80}]
        - backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: copy, port: 80, servers: ["127.0.0.1:1"]}
  - {service: other, port: 80, servers: ["127.0.0.1:1"]}
`

// mirrors are a gateway for mirrorsWorld, and what its Services get: each request as a text.
type mirrors struct {
	*gateway
	web, copies, others chan string
}

// startMirrors runs HAProxy for mirrorsWorld. The handler, if there is one, answers the requests that copy gets.
func startMirrors(t *testing.T, handler http.HandlerFunc) *mirrors {
	t.Helper()
	m := &mirrors{web: make(chan string, 10_000), copies: make(chan string, 10_000), others: make(chan string, 10_000)}
	m.gateway = startServing(t, rendertest.Parse(t, mirrorsWorld), handlers{"web": record(m.web, nil), "copy": record(m.copies, handler), "other": record(m.others, nil)})
	return m
}

// record returns a handler that sends each request to a channel as a text, and has another one answer, if there is one.
func record(to chan string, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(&text, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
		_ = r.Header.Write(&text)
		fmt.Fprintf(&text, "\n%s", body)
		to <- text.String()
		if handler != nil {
			handler(w, r)
		}
	}
}

// next returns the next request that a Service gets.
func next(t *testing.T, from chan string) string {
	t.Helper()
	select {
	case text := <-from:
		return text
	case <-time.After(20 * time.Second):
		t.Fatal("no request came")
		return ""
	}
}

// TestMirrors: what is copied is the request that the backend gets, and every one but those that the page names.
func TestMirrors(t *testing.T) {
	t.Parallel()
	m := startMirrors(t, nil)
	c := newClient(t, m.ports[80])
	copied := map[string]string{
		"GET":                   "GET /all/a%20b?c=d&e HTTP/1.1\r\nHost: x\r\nX-Remove: a\r\nCookie: a=b\r\n\r\n",
		"a body":                "POST /all HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\na\r\n\x00%s\"'\n\xff",
		"the longest body":      "PUT /all HTTP/1.1\r\nHost: x\r\nContent-Length: 14000\r\n\r\n" + strings.Repeat("a", 14000),
		"a body that is empty":  "POST /all HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"a method of no number": "PATCH /all HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na",
		"a header twice":        "DELETE /all HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: 2\r\nX-Set: old\r\n\r\n",
		"HTTP/1.0":              "GET /all HTTP/1.0\r\nHost: x\r\n\r\n",
		"no Host":               "GET /all HTTP/1.0\r\n\r\n",
		"an empty Host":         "GET /all HTTP/1.1\r\nHost: \r\n\r\n",
		"another backend":       "GET /all HTTP/1.1\r\nHost: x\r\nX-Mirror-To: web_80\r\nX-A: a\r\n\r\n",
	}
	for name, request := range copied {
		c.send(request)
		want, got := next(t, m.web), next(t, m.copies)
		want = strings.Replace(want, "X-Mirror-To: web_80\r\n", "", 1)
		got, want = strings.Replace(got, "Connection: keep-alive\r\n", "", 1), strings.Replace(want, "Connection: keep-alive\r\n", "", 1)
		if got != want || !strings.Contains(got, " /new") || !strings.Contains(got, "X-Set: one") || strings.Contains(got, "X-Remove") {
			t.Errorf("%s: the backend got\n%s\nthe copy is\n%s", name, want, got)
		}
	}
	not := map[string]string{
		"a body of unknown length": "POST /all HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"a body that is too long":  "POST /all HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("a", 20000),
		"an upgrade":               "GET /all HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
		"another rule":             get("x", "/all2"),
		"none of a hundred":        get("x", "/none"),
		"the header, from afar":    "GET / HTTP/1.1\r\nHost: x\r\nX-Mirror-To: copy_80\r\n\r\n",
		"the header, and a rule":   "GET /none HTTP/1.1\r\nHost: x\r\nX-Mirror-To: copy_80\r\n\r\n",
	}
	for name, request := range not {
		if got := c.send(request); got.Status != http.StatusOK {
			t.Fatalf("%s: got %d", name, got.Status)
		}
		next(t, m.web)
		c.send(get("x", "/all/last"))
		next(t, m.web)
		if got := next(t, m.copies); !strings.Contains(got, "/new/last") {
			t.Errorf("%s was copied:\n%s", name, got)
		}
	}
}

// TestMirrorsOverHTTP2: most requests with a body say its length, and those that do not are not copied.
func TestMirrorsOverHTTP2(t *testing.T) {
	t.Parallel()
	m := startMirrors(t, nil)
	send := func(method string, length int64, body string) {
		request, _ := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d/all", m.ports[80]), nil)
		if body != "" {
			request.Body, request.ContentLength = io.NopCloser(strings.NewReader(body)), length
		}
		response, err := http2Client(t).Do(request)
		must.Do(t, err)
		_ = response.Body.Close()
	}
	for _, body := range []string{"", "a body"} {
		send("POST", -1, "not copied")
		next(t, m.web)
		send("GET", int64(len(body)), body)
		if want, got := next(t, m.web), next(t, m.copies); got != want {
			t.Errorf("the backend got\n%s\nthe copy is\n%s", want, got)
		}
	}
}

func TestSharesOfMirrors(t *testing.T) {
	t.Parallel()
	m := startMirrors(t, nil)
	c := newClient(t, m.ports[80])
	const n = 2000
	for range n {
		c.send(get("x", "/two"))
		next(t, m.copies)
	}
	checkShares(t, map[string]int{"copied": len(m.others), "not": n - len(m.others)}, map[string]int{"copied": 1, "not": 3}, n)
}

// TestAMirrorThatHangs gets so many copies and no more, and takes nothing from requests and other mirrors. In the end,
// its copies are given up.
func TestAMirrorThatHangs(t *testing.T) {
	t.Parallel()
	var ended atomic.Int32
	m := startMirrors(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended.Add(1)
	})
	c := newClient(t, m.ports[80])
	for i := range 2000 {
		if got := c.send(get("x", "/two")); got.Status != http.StatusOK {
			t.Fatalf("request %d got %d", i, got.Status)
		}
	}
	for range 20 {
		next(t, m.others)
	}
	if got := len(m.copies); got == 0 || got > 128 {
		t.Errorf("%d copies are on their way", got)
	}
	for deadline := time.Now().Add(30 * time.Second); ended.Load() == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no copy is given up")
		}
	}
}

// TestALargeAnswerToACopy: of an answer without an end, so much is read.
func TestALargeAnswerToACopy(t *testing.T) {
	t.Parallel()
	ended := make(chan int, 1)
	m := startMirrors(t, func(w http.ResponseWriter, _ *http.Request) {
		for n := 0; ; n++ {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				ended <- n << 16
				return
			}
		}
	})
	newClient(t, m.ports[80]).send(get("x", "/all"))
	select {
	case n := <-ended:
		t.Logf("after %d bytes", n)
	case <-time.After(30 * time.Second):
		t.Fatal("the answer goes on")
	}
}

// TestMirrorsAcrossAReload: a worker that ends, and one that starts, send their copies.
func TestMirrorsAcrossAReload(t *testing.T) {
	t.Parallel()
	m := startMirrors(t, nil)
	old := newClient(t, m.ports[80])
	old.send(get("x", "/all/before"))
	next(t, m.copies)
	m.Master("reload")
	for _, c := range []*client{old, newClient(t, m.ports[80])} {
		c.send(get("x", "/all/after"))
		next(t, m.copies)
	}
}
