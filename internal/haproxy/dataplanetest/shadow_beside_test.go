package dataplanetest_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
)

// besideWorld has guards in shadow beside guards that refuse.
const besideWorld = `
spec:
  trustedProxies: [127.0.0.1/32]
  listeners:
    - name: http
      port: 80
      protocol: HTTP
      filters: [{type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}]
      maxRequestBytes: 3
      shadow: [ClientAddress, maxRequestBytes]
  routes:
    - name: beside
      rules:
        - {matches: [{path: {value: /listener}}], backendRefs: [{name: web, port: 80}]}
        - matches: [{path: {value: /own}}]
          filters: [{type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}]
          maxRequestBytes: 3
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /later}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour, key: {type: Rule}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /earlier}}]
          filters: [{type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}, {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}]
          shadow: [RateLimit]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /known}}]
          filters: [{type: HeaderVariables, headerVariables: {set: [{name: X-Client, variable: ClientAddress}]}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`

// TestShadowBesideOthers: a guard in shadow changes nothing for those that refuse: neither for others of the rule, nor
// for the rule's own in place of the listener's. What it would have refused counts for those after it.
func TestShadowBesideOthers(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, besideWorld))
	const denied, allowed, unknown = "192.0.2.1", "198.51.100.1", "nobody, 127.0.0.1"
	for i, test := range []struct {
		path, client, body string
		status             int
		shadow             statuses
	}{
		{"/listener", denied, "", 200, statuses{"ClientAddress": 403}},
		{"/listener", denied, "long", 200, statuses{"ClientAddress": 403, "maxRequestBytes": 413}},
		{"/listener", allowed, "", 200, statuses{}},
		{"/listener", unknown, "", 200, statuses{"ClientAddress": 403}},
		{"/own", denied, "", 403, statuses{}},
		{"/own", unknown, "", 403, statuses{}},
		{"/own", allowed, "long", 413, statuses{}},
		{"/later", denied, "", 200, statuses{"ClientAddress": 403}},
		{"/later", unknown, "", 200, statuses{"ClientAddress": 403}},
		{"/later", allowed, "", 429, statuses{}},
		{"/later", denied, "", 429, statuses{"ClientAddress": 403}},
		{"/earlier", denied, "", 403, statuses{}},
		{"/earlier", unknown, "", 403, statuses{}},
		{"/earlier", allowed, "", 200, statuses{}},
		{"/earlier", allowed, "", 200, statuses{"RateLimit": 429}},
		{"/known", unknown, "", 403, statuses{}},
	} {
		name := fmt.Sprint("line ", i)
		request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nUser-Agent: %s\r\nX-Forwarded-For: %s\r\n%s", test.path, name, test.client, body(test.body))
		got := newClient(t, g.ports[80]).send(request)
		if shadow := g.shadowOf(t, name); got.Status != test.status || !maps.Equal(shadow, test.shadow) {
			t.Errorf("%s: got %d and logged %v, want %d and %v", name, got.Status, shadow, test.status, test.shadow)
		}
	}
}

// TestShadowOfBodies: a body in shadow is as long as it likes, with HTTP/2 too.
func TestShadowOfBodies(t *testing.T) {
	t.Parallel()
	g := startBackends(t, ", maxRequestBytes: 10, shadow: [maxRequestBytes]", "", "", serve(t, readAll, nil))
	client := http2Client(t)
	for i, size := range []int64{10, 11, 300_000} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			agent := fmt.Sprint(method, " ", size)
			request := must.Get(http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), io.LimitReader(endless{}, size)))(t)
			request.Header.Set("User-Agent", agent)
			response, err := client.Do(request)
			must.Do(t, err)
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK || string(text) != fmt.Sprint(size) {
				t.Errorf("%s: got %d %q", agent, response.StatusCode, text)
			}
			if method == http.MethodPost {
				if shadow := g.shadowOf(t, agent); len(shadow) != min(i, 1) {
					t.Errorf("%s: logged %v", agent, shadow)
				}
			}
		}
	}
}

// TestShadowOfTooManyBodies: a body in shadow may come when it likes. One more than are counted at a time goes on, and
// counts as not decided.
func TestShadowOfTooManyBodies(t *testing.T) {
	t.Parallel()
	const begin = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
	g := startBackends(t, ", maxRequestBytes: 10, shadow: [maxRequestBytes]", "", "", serve(t, readAll, nil))
	_, _ = io.WriteString(dial(t, g.ports[80]), preface+frame(frameSettings, 0, "")+frame(frameHeaders, flagEndHeaders,
		fields(field(":method", "POST"), field(":scheme", "http"), field(":path", "/"), field(":authority", "x"))))
	for range 1023 {
		_, _ = io.WriteString(dial(t, g.ports[80]), begin+"\r\n1\r\na\r\n")
	}
	eventually(t, "1,024 are counted", func() bool { return g.arrived(t) == "1024" })
	more := dial(t, g.ports[80])
	_, _ = io.WriteString(more, begin+"User-Agent: one more\r\n\r\n")
	eventually(t, "one more is on its way", func() bool { return g.arrived(t) == "1025" })
	_, _ = io.WriteString(more, "0\r\n\r\n")
	got, err := http.ReadResponse(bufio.NewReader(more), nil)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("one more gets %v, %v", got, err)
	}
	_ = got.Body.Close()
	if shadow := g.shadowOf(t, "one more"); !maps.Equal(shadow, statuses{"maxRequestBytes": 503}) {
		t.Errorf("for one more, it logged %v", shadow)
	}
	decisions, err := runtime.NewWorker(g.WorkerSocket).Decisions(t.Context())
	if err != nil || len(decisions) != 1 || decisions[0].Allowed != 1 || decisions[0].ShadowFailed["maxRequestBytes"] != 1 {
		t.Errorf("one is let through, and the others are not done: HAProxy says %+v, %v", decisions, err)
	}
}

// TestShadowOfLongBodies: a body that is too long for a question is not waited for.
func TestShadowOfLongBodies(t *testing.T) {
	t.Parallel()
	begun := make(chan bool, 1)
	g := startBackends(t, ", filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: b, port: 80}, forwardBody: {maxSize: 3}}}], shadow: [ExternalAuth]", "", "",
		serve(t, func(w http.ResponseWriter, r *http.Request) {
			begun <- true
			readAll(w, r)
		}, nil))
	conn := dial(t, g.ports[80])
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nUser-Agent: slow\r\nContent-Length: 4\r\n\r\n")
	select {
	case <-begun:
	case <-time.After(15 * time.Second):
		t.Fatal("the backend does not get it")
	}
	_, _ = io.WriteString(conn, "abcd")
	if shadow := g.shadowOf(t, "slow"); !maps.Equal(shadow, statuses{"ExternalAuth": 413}) {
		t.Errorf("it logged %v", shadow)
	}
}
