package dataplanetest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// concurrentWorld returns a world whose rules limit concurrent requests.
func concurrentWorld() string {
	const jwt = `{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: 'KEYS'}}]}}`
	return strings.NewReplacer("JWT", strings.ReplaceAll(jwt, "KEYS", keySet("ES256")), "WEB", "backendRefs: [{name: web, port: 80}]").Replace(`
generation: 1
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: all, port: 81, protocol: HTTP, filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2, key: {type: Rule}}}}]}
  trustedProxies: [127.0.0.0/8]
  routes:
    - name: limited
      listeners: [http]
      rules:
        - filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2}}}]
          WEB
        - matches: [{path: {value: /header}}]
          filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2, key: {type: Header, name: X-Key}}}}]
          WEB
        - matches: [{path: {value: /rule}}]
          filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2, key: {type: Rule}}}}]
          WEB
        - matches: [{path: {value: /user}}]
          filters: [JWT, {type: RateLimit, rateLimit: {concurrent: {requests: 2, key: {type: Claim, name: sub}}}}]
          WEB
        - matches: [{path: {value: /both}}]
          filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2, key: {type: Rule}}, limits: [{requests: 4, unit: Hour, key: {type: Rule}}]}}]
          WEB
        - matches: [{path: {value: /counted}}]
          filters: [JWT, {type: RateLimit, rateLimit: {concurrent: {requests: 1, key: {type: Claim, name: sub}}, limits: [{requests: 4, unit: Hour, key: {type: Rule}}]}}]
          WEB
    - name: unlimited
      listeners: [all]
      rules:
        - WEB
        - matches: [{path: {value: /other}}]
          WEB
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`)
}

// holding is a gateway whose backend holds requests with "hold" in their query until the test releases them, or their
// client gives up. It answers all others at once.
type holding struct {
	*gateway
	arrived chan string
	release chan struct{}
}

func startHolding(t *testing.T, world string) *holding {
	t.Helper()
	h := &holding{arrived: make(chan string, 100), release: make(chan struct{})}
	h.gateway = startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != "hold" {
				return
			}
			h.arrived <- r.URL.Path
			if r.Header.Get("Upgrade") != "" {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "websocket")
				w.Header().Set("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
				w.WriteHeader(http.StatusSwitchingProtocols)
			}
			select {
			case <-h.release:
			case <-r.Context().Done():
			}
		}, nil)
		in.Backends[routing.Backend{Service: "web", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{server}}
	})
	return h
}

// hold begins a request, and returns its connection when the backend has it.
func (h *holding) hold(t *testing.T, port int32, path string, headers ...string) net.Conn {
	t.Helper()
	conn := dial(t, h.ports[port])
	must.Get(io.WriteString(conn, lines(path+"?hold", headers)))(t)
	next(t, h.arrived)
	return conn
}

// send sends a request over a connection of its own, and returns the answer.
func (h *holding) send(t *testing.T, port int32, path string, headers ...string) answer {
	t.Helper()
	c := newClient(t, h.ports[port])
	defer c.close()
	return c.send(lines(path, headers))
}

// passes waits until a request is let through, and has ended beside as many others.
func (h *holding) passes(t *testing.T, others int, port int32, path string, headers ...string) {
	t.Helper()
	eventually(t, "a request for "+path+" passes", func() bool { return h.send(t, port, path, headers...).Status == http.StatusOK })
	eventually(t, "it does not count any more", func() bool {
		table := h.Worker("show table concurrent")
		return strings.Count(table, "conn_cur=1")+2*strings.Count(table, "conn_cur=2") == others
	})
}

func lines(path string, headers []string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + strings.Join(append(headers, "\r\n"), "\r\n")
}

// TestConcurrentRequests: two requests are held, so a third one that counts with them is refused, however often it
// comes. Others pass. Once one of the two has ended, the next one passes. So does it once the client has given the
// other up.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	h := startHolding(t, concurrentWorld())
	const from = "X-Forwarded-For: "
	bearer := func(user string) string {
		return "Authorization: Bearer " + token(t, "ES256", map[string]any{"sub": user})
	}
	type request struct {
		path   string
		header string
	}
	for name, test := range map[string]struct {
		port           int32
		first, second  request
		beside, refuse request
	}{
		"clients":         {80, request{"/", from + "192.0.2.1"}, request{"/a", from + "192.0.2.1"}, request{"/", from + "192.0.2.2"}, request{"/b", from + "192.0.2.1"}},
		"clients of IPv6": {80, request{"/", from + "2001:db8::1"}, request{"/", from + "2001:db8::2"}, request{"/", from + "2001:db8:0:1::1"}, request{"/", from + "2001:db8::3"}},
		"spoofed clients": {80, request{"/", from + "192.0.2.7, 203.0.113.1"}, request{"/", from + "203.0.113.1"}, request{"/", from + "192.0.2.7"}, request{"/", from + "192.0.2.8, 203.0.113.1"}},
		"headers":         {80, request{"/header", "X-Key: a"}, request{"/header", "x-key: a"}, request{"/header", "X-Key: b"}, request{"/header/b", "X-Key: a"}},
		"no header":       {80, request{"/header", "X-A: a"}, request{"/header", "X-Key: a\r\nX-Key: b"}, request{"/header", "X-Key: c"}, request{"/header", "X-B: b"}},
		"a rule":          {80, request{"/rule", "X-A: a"}, request{"/rule/a", from + "192.0.2.3"}, request{"/header", "X-A: a"}, request{"/rule/b", from + "192.0.2.4"}},
		"users":           {80, request{"/user", bearer("ann")}, request{"/user", bearer("ann")}, request{"/user", bearer("ben")}, request{"/user", bearer("ann")}},
		"a listener":      {81, request{"/", "X-A: a"}, request{"/other", "X-A: a"}, request{"/header", "X-A: a"}, request{"/other", from + "192.0.2.3"}},
	} {
		refused := func(when string) {
			t.Helper()
			for range 5 {
				got := h.send(t, test.port, test.refuse.path, test.refuse.header)
				if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "1" || got.Header.Get("RateLimit") != "" {
					t.Errorf("%s: %s: got %d, %v", name, when, got.Status, got.Header)
				}
			}
		}
		h.hold(t, test.port, test.first.path, test.first.header)
		given := h.hold(t, test.port, test.second.path, test.second.header)
		refused("two are held")
		beside := test.port
		if name == "a listener" {
			beside = 80
		}
		if got := h.send(t, beside, test.beside.path, test.beside.header); got.Status != http.StatusOK {
			t.Errorf("%s: beside: got %d, %v", name, got.Status, got.Header)
		}
		_ = given.Close()
		h.passes(t, 1, test.port, test.refuse.path, test.refuse.header)
		h.hold(t, test.port, test.second.path, test.second.header)
		refused("two are held again")
		h.release <- struct{}{}
		h.passes(t, 1, test.port, test.refuse.path, test.refuse.header)
		h.release <- struct{}{}
	}
}

// TestConcurrentRequestsAtOnce: of many that come at the same time, no more are let through than there may be.
func TestConcurrentRequestsAtOnce(t *testing.T) {
	t.Parallel()
	h := startHolding(t, concurrentWorld())
	statuses := make(chan string, 200)
	for range cap(statuses) {
		conn := dial(t, h.ports[80])
		go func() {
			_, _ = io.WriteString(conn, get("x", "/rule?hold"))
			status, _ := bufio.NewReader(conn).ReadString('\n')
			statuses <- status
		}()
	}
	for range cap(statuses) - 2 {
		if got := next(t, statuses); !strings.HasPrefix(got, "HTTP/1.1 429 ") {
			t.Errorf("one more gets %q", got)
		}
	}
	if got := len(h.arrived); got > 2 {
		t.Errorf("the backend got %d requests", got)
	}
}

// TestManyConcurrentKeys: requests that are held keep no others out, however many clients there were.
func TestManyConcurrentKeys(t *testing.T) {
	t.Parallel()
	h := startHolding(t, strings.Replace(concurrentWorld(), "trustedProxies:", "clientLimits: {maxConnections: 150}\n  trustedProxies:", 1))
	for i := range 80 {
		h.hold(t, 80, "/header", fmt.Sprintf("X-Key: held-%d", i))
	}
	c := newClient(t, h.ports[80])
	for i := range 3000 {
		if got := c.send(lines("/header", []string{fmt.Sprintf("X-Key: %d", i)})); got.Status != http.StatusOK {
			t.Fatalf("client %d gets %d", i, got.Status)
		}
	}
}

// TestConcurrentRequestsAndRates: a request beyond one of the limits counts for none of them. The exception is one
// beyond the limit by a Claim: others have counted it before its token was verified.
func TestConcurrentRequestsAndRates(t *testing.T) {
	t.Parallel()
	h := startHolding(t, concurrentWorld())
	expect := func(status int, retry, left string) {
		t.Helper()
		got := h.send(t, 80, "/both")
		if got.Status != status || got.Header.Get("Retry-After") != retry || got.Header.Get("RateLimit") != `"hour";r=`+left+`;t=3600` {
			t.Errorf("got %d, %v, want %d, %q and %s left", got.Status, got.Header, status, retry, left)
		}
	}
	h.hold(t, 80, "/both")
	h.hold(t, 80, "/both")
	for range 5 {
		expect(http.StatusTooManyRequests, "1", "2")
	}
	h.release <- struct{}{}
	h.passes(t, 1, 80, "/both")
	h.hold(t, 80, "/both")
	for range 5 {
		expect(http.StatusTooManyRequests, "4500", "0")
	}
	bearer := "Authorization: Bearer " + token(t, "ES256", map[string]any{"sub": "ann"})
	h.hold(t, 80, "/counted", bearer)
	for left := 2; left >= 0; left-- {
		got := h.send(t, 80, "/counted", bearer)
		if want := fmt.Sprintf(`"hour";r=%d;t=3600`, left); got.Status != http.StatusTooManyRequests || got.Header.Get("RateLimit") != want {
			t.Errorf("by a Claim: got %d, %v, want 429 and %s", got.Status, got.Header, want)
		}
	}
}

// TestConcurrentRequestsOfStrangers: what a client that is no trusted proxy says about its address changes nothing.
func TestConcurrentRequestsOfStrangers(t *testing.T) {
	t.Parallel()
	h := startHolding(t, strings.Replace(concurrentWorld(), "trustedProxies: [127.0.0.0/8]", "trustedProxies: [192.0.2.0/24]", 1))
	headers := func(i int) []string {
		return []string{fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i), fmt.Sprintf("Forwarded: for=203.0.113.%d", i), fmt.Sprintf("X-Real-IP: 203.0.113.%d", i)}
	}
	h.hold(t, 80, "/", headers(1)...)
	h.hold(t, 80, "/", headers(2)...)
	if got := h.send(t, 80, "/", headers(3)...); got.Status != http.StatusTooManyRequests {
		t.Errorf("got %d, %v", got.Status, got.Header)
	}
}

// TestConcurrentStreams: the requests of one connection over HTTP/2 count, each for itself. A WebSocket counts until it
// is closed.
func TestConcurrentStreams(t *testing.T) {
	t.Parallel()
	h := startHolding(t, concurrentWorld())
	client, statuses := http2Client(t), make(chan int, 10)
	ask := func(query string) {
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/rule?%s", h.ports[80], query))
		if err != nil {
			statuses <- 0
			return
		}
		_ = response.Body.Close()
		statuses <- response.StatusCode
	}
	for range 2 {
		go ask("hold")
		next(t, h.arrived)
	}
	for range 5 {
		go ask("")
	}
	for range 5 {
		if got := <-statuses; got != http.StatusTooManyRequests {
			t.Errorf("one more stream gets %d", got)
		}
	}
	h.release <- struct{}{}
	h.release <- struct{}{}
	for range 2 {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("a stream gets %d", got)
		}
	}
	h.passes(t, 0, 80, "/rule")
	var sockets [2]net.Conn
	for i := range sockets {
		sockets[i] = h.hold(t, 80, "/rule", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
	}
	if got := h.send(t, 80, "/rule"); got.Status != http.StatusTooManyRequests {
		t.Errorf("beside two WebSockets: got %d", got.Status)
	}
	_ = sockets[0].Close()
	h.passes(t, 1, 80, "/rule")
}

// TestConcurrentRequestsAreCounted: the access log names the filter, and so does what the metric of filters is made of.
func TestConcurrentRequestsAreCounted(t *testing.T) {
	t.Parallel()
	h := startHolding(t, concurrentWorld())
	h.hold(t, 80, "/rule")
	h.hold(t, 80, "/rule")
	h.send(t, 80, "/rule")
	if line := h.accessLog(t, 1)[0]; !strings.Contains(line, `"filter":"RateLimit"`) || !strings.Contains(line, `"status":429`) {
		t.Errorf("the access log says %s", line)
	}
	decisions, err := runtime.NewWorker(h.WorkerSocket).Decisions(t.Context())
	if err != nil || len(decisions) != 1 || decisions[0].Allowed != 2 || decisions[0].Denied["RateLimit"] != 1 || decisions[0].Failed["RateLimit"] != 0 {
		t.Errorf("two are allowed, and one is not: HAProxy says %+v, %v", decisions, err)
	}
}

// TestConcurrentRequestsChange: another number takes no reload, and what is there still counts. A new process counts
// anew.
func TestConcurrentRequestsChange(t *testing.T) {
	t.Parallel()
	h := startHolding(t, concurrentWorld())
	h.hold(t, 80, "/rule")
	h.hold(t, 80, "/rule")
	changed := rendertest.Parse(t, strings.ReplaceAll(concurrentWorld(), "requests: 2", "requests: 3"))
	for i := range changed.Spec.Listeners {
		changed.Spec.Listeners[i].Port = h.ports[int32(80+i)]
	}
	in := h.in
	in.Table, _ = routingtest.Compile(&changed.Spec)
	h.change(t, plan.Diff(render.Render(in), render.Render(h.in)), func() {})
	h.passes(t, 2, 80, "/rule")
	h.hold(t, 80, "/rule")
	if got := h.send(t, 80, "/rule"); got.Status != http.StatusTooManyRequests {
		t.Errorf("a fourth request gets %d", got.Status)
	}
	h.reload(t)
	h.passes(t, 0, 80, "/rule")
}
