package dataplanetest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
)

func TestAccessLog(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	requests := []string{
		"PATCH /api/x?secret HTTP/1.1\r\nHost: Shop.example.com\r\nUser-Agent: test \"agent\"\r\n\r\n",
		get("shop.example.com", `/api/"\`+strings.Repeat(`\`, 5000)),
		get("\xff\x80\xe2\x84\"\\", "/"),
		"nonsense\r\n\r\n",
	}
	for i, request := range requests {
		newClient(t, g.ports[80]).send(request)
		g.accessLog(t, i+1) // In order, and alone: of two lines at once HAProxy drops one rather than wait long.
	}
	lines := g.accessLog(t, len(requests))
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the access log is not JSON: %q", line)
		}
	}
	var entry map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &entry); err != nil {
		t.Fatalf("failed to parse %q: %v", lines[0], err)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", fmt.Sprint(entry["time"])); err != nil {
		t.Error(err)
	}
	want := map[string]any{
		"client": "127.0.0.1", "port": fmt.Sprint(g.ports[80]), "method": "PATCH", "host": "shop.example.com", "path": "/api/x", "status": 200.0,
		"listener": "http", "route": "shop", "rule": "0", "backend": "api_80", "userAgent": "test \"agent\"", "termination": "--",
		"server": ir.ServerName(g.in.Backends[routing.Backend{Service: "api", Port: 80}].Servers[0]),
	}
	for key, value := range want {
		if entry[key] != value {
			t.Errorf("%s is %v, want %v", key, entry[key], value)
		}
	}
}

// TestLoggedHeaders: headers are logged as the client sent them, whatever is in them and whatever the proxy makes of
// them. A line with the most that can be logged is not cut.
func TestLoggedHeaders(t *testing.T) {
	t.Parallel()
	names := []string{"Referer", "X-Forwarded-For", "X-1", "X-2", "X-3", "X-4", "X-5", "X-6"}
	g := startGateway(t, rendertest.Parse(t, strings.Replace(shopWorld, "spec:", "spec:\n  accessLog: {requestHeaders: ["+strings.Join(names, ", ")+"]}", 1)))
	most := strings.Repeat(`"`, 256)
	every := "User-Agent: " + most + "\r\n"
	for _, name := range names {
		every += name + ": " + most + "x\r\n"
	}
	for i, c := range []struct {
		headers string
		want    map[string]string
	}{
		{"", nil},
		{"referer: https://a.example/\"%t\r\nX-Forwarded-For: 192.0.2.9\r\nX-1: a\r\nX-1: b\r\n", map[string]string{"referer": `https://a.example/"%t`, "x-forwarded-for": "192.0.2.9", "x-1": "b"}},
		{"X-2: \xff\xfe\u00e4\t1\r\n", map[string]string{"x-2": "\u00e4\t1"}},
		{every, map[string]string{"referer": most, "x-forwarded-for": most, "x-1": most, "x-2": most, "x-3": most, "x-4": most, "x-5": most, "x-6": most}},
	} {
		newClient(t, g.ports[80]).send("GET /" + strings.Repeat("%22", 340) + " HTTP/1.1\r\nHost: shop.example.com\r\n" + c.headers + "\r\n")
		var entry struct{ RequestHeaders map[string]string }
		if line := g.accessLog(t, i+1)[i]; json.Unmarshal([]byte(line), &entry) != nil {
			t.Fatalf("a line of the access log is not JSON: %q", line)
		}
		want := map[string]string{}
		for _, name := range names {
			want[strings.ToLower(name)] = "-"
		}
		maps.Copy(want, c.want)
		if !maps.Equal(entry.RequestHeaders, want) {
			t.Errorf("after %q, logged are %q, want %q", c.headers, entry.RequestHeaders, want)
		}
	}
}

// TestKindsCountApart: an HTTPRoute and a GRPCRoute may have the same name.
func TestKindsCountApart(t *testing.T) {
	t.Parallel()
	const name = "shop/web"
	filters := "filters: [{type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}]"
	world := rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - {name: http, rules: [{matches: [{path: {value: /http}}], backendRefs: [{name: api, port: 80}], `+filters+`}]}
    - {name: grpc, rules: [{matches: [{path: {value: /grpc}}], backendRefs: [{name: api, port: 80}], `+filters+`}]}
backends: [{service: api, port: 80, servers: ["192.0.2.1:80"]}]
`)
	g := startGatewayWith(t, world, func(in *render.Input) {
		in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
			if rule.Route == "grpc" {
				rule.Kind = "GRPCRoute"
			}
			rule.Route = name
		})
	})
	want := map[string]int64{name: 1, "GRPCRoute/" + name: 2}
	for _, path := range []string{"/http", "/grpc", "/grpc"} {
		newClient(t, g.ports[80]).send(get("a.example", path))
	}
	logged := map[string]int64{}
	for _, line := range g.accessLog(t, 3) {
		var entry struct{ Route string }
		must.Do(t, json.Unmarshal([]byte(line), &entry))
		logged[entry.Route]++
	}
	decisions := must.Get(runtime.NewWorker(g.WorkerSocket).Decisions(t.Context()))(t)
	counted := map[string]int64{}
	for _, d := range decisions {
		counted[d.Route] = d.Allowed
	}
	if !maps.Equal(logged, want) || !maps.Equal(counted, want) {
		t.Errorf("logged are %v and counted %v, want %v", logged, counted, want)
	}
}

// TestAccessLogTellsWhatWasAskedFor: whatever a client sends, its lines parse, have the same keys, and name what was
// found and the request as it was sent, cut where it is long.
func TestAccessLogTellsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, strings.ReplaceAll(shopWorld, "    - name: named", `    - name: more
      listeners: [any]
      rules:
        - {matches: [{path: {value: /split}}], backendRefs: [{name: api, port: 80}, {name: missing, port: 80, weight: 0}]}
        - {matches: [{path: {value: /teapot}}], filters: [{type: DirectResponse, directResponse: {statusCode: 418}}]}
        - {matches: [{path: {value: /if}, headers: [{name: X-A, value: a}]}], backendRefs: [{name: api, port: 80}]}
        - {matches: [{path: {value: /if}, headers: [{name: X-A, value: b}]}], backendRefs: [{name: missing, port: 80}, {name: empty, port: 80, weight: 0}]}
    - name: named`)))
	long := "/api/" + strings.Repeat("a", 4000)
	quotes := `/api/"\` + strings.Repeat(`\`, 5000)
	const api, none, unknown = "shop[0] http api_80", "-[-] http -", "-[-] - -"
	for i, c := range []struct {
		port                               int32
		status                             int
		request, method, host, path, found string
	}{
		{80, 200, get("shop.example.com", "/api/x?secret"), "GET", "shop.example.com", "/api/x", api},
		{80, 200, get("Shop.example.com.:80", "/api//%41%22?secret"), "GET", "shop.example.com", "/api//%41%22", api},
		{80, 200, get("shop.example.com", long), "GET", "shop.example.com", long[:1024], api},
		{80, 503, get("shop.example.com", "/empty"), "GET", "shop.example.com", "/empty", "shop[2] http empty_80"},
		{80, 500, get("shop.example.com", "/missing"), "GET", "shop.example.com", "/missing", "shop[3] http no-backend"},
		{80, 404, get("shop.example.com", "/nothing"), "GET", "shop.example.com", "/nothing", none},
		{80, 404, get("shop.example.com", "//nothing"), "GET", "shop.example.com", "//nothing", none},
		{80, 404, get("example.org", "/api"), "GET", "example.org", "/api", unknown},
		{80, 404, get("Example.org", "/api"), "GET", "example.org", "/api", unknown},
		{81, 200, get("x", "/api"), "GET", "x", "/api", "any[0] any any_80"},
		{81, 200, get("x", "/split"), "GET", "x", "/split", "more[0] any api_80"},
		{81, 418, get("x", "/teapot"), "GET", "x", "/teapot", "more[1] any answer"},
		{81, 200, get("x\r\nX-A: a", "/if"), "GET", "x", "/if", "more[2] any api_80"},
		{81, 500, get("x\r\nX-A: b", "/if"), "GET", "x", "/if", "more[3] any no-backend"},
		{81, 200, get("x", "/if"), "GET", "x", "/if", "any[0] any any_80"},
		{80, 400, get("shop.example.com", "/api/%41|"+long), "GET", "shop.example.com", ("/api/%41|" + long)[:1024], unknown},
		{80, 400, get("shop.example.com", quotes), "GET", "shop.example.com", quotes[:1024], unknown},
		{80, 400, get(`"}`, `/api/"}`), "GET", `"}`, `/api/"}`, unknown},
		{80, 400, get(strings.Repeat("Long.", 60), "/api"), "GET", strings.Repeat("long.", 60)[:253], "/api", unknown},
		{80, 200, strings.Replace(get("shop.example.com", "/api"), "GET", "!#$%&'*+-.^_`|~", 1), "!#23$%&'*+-.^_`|~", "shop.example.com", "/api", api},
		{80, 200, strings.Replace(get("shop.example.com", "/api"), "GET", strings.Repeat("A", 2000), 1), "<BADREQ>", "shop.example.com", "/api", api},
		{80, 405, "CONNECT shop.example.com:80 HTTP/1.1\r\nHost: shop.example.com:80\r\n\r\n", "CONNECT", "shop.example.com", "/", unknown},
		{80, 200, strings.Replace(get("shop.example.com", "*"), "GET", "OPTIONS", 1), "OPTIONS", "shop.example.com", "/", "shop[1] http exact_80"},
		{80, 404, "GET /api HTTP/1.0\r\n\r\n", "GET", "-", "/api", unknown},
		{80, 400, "GET /api HTTP/1.9\r\nHost: a\"b\r\n\r\n", "GET", `a"b`, "/api", unknown},
		{80, 400, "nonsense\r\n\r\n", "<BADREQ>", "-", "-", unknown},
		{80, 400, strings.Replace(get("shop.example.com", "/api"), "GET", `GE"T`, 1), "<BADREQ>", "-", "-", unknown},
		{80, 400, strings.Replace(get("shop.example.com", "/api"), "GET", `GE\T`, 1), "<BADREQ>", "-", "-", unknown},
	} {
		if got := newClient(t, g.ports[c.port]).send(c.request); got.Status != c.status {
			t.Errorf("%.100q gets %d, want %d", c.request, got.Status, c.status)
		}
		got := parseLogged(t, g.accessLog(t, i+1)[i])
		if got.BytesOut == 0 && got.Error == "" {
			t.Errorf("%.100q is logged as answered with nothing", c.request)
		}
		if got.Method != c.method || got.Host != c.host || got.Path != c.path || got.found() != c.found || strings.Trim(got.Error, "-") != "" {
			t.Errorf("%.100q is logged as %+v, want %q, %q, %q and %q", c.request, got, c.method, c.host, c.path, c.found)
		}
	}
}

// logged is a line of the access log.
type logged struct {
	Client, Method, Host, Path, Route, Rule, Listener, Backend, Error, TLSError string
	BytesOut                                                                    int
}

func (l logged) found() string {
	return fmt.Sprintf("%s[%s] %s %s", l.Route, l.Rule, l.Listener, l.Backend)
}

// parseLogged reads a line of the access log, which has each key once, in the same order, and two more if there was no
// request.
func parseLogged(t *testing.T, line string) (l logged) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Errorf("a line of the access log is not JSON: %v: %q", err, line)
	}
	const keys = "time requestId client clientPort port method host path userAgent status bytesIn bytesOut msRequest msQueue msConnect msResponse msTotal " +
		"route rule listener backend filter server retries termination"
	var got []string
	decoder := json.NewDecoder(strings.NewReader(line))
	for isKey := false; decoder.More() || len(got) == 0; isKey = !isKey {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		if isKey {
			got = append(got, fmt.Sprint(token))
		}
	}
	if all := strings.Join(got, " "); all != keys && all != keys+" error tlsError" {
		t.Errorf("a line of the access log has the keys %s: %s", all, line)
	}
	return l
}

// accessLog returns the lines of the access log, once there are as many as wanted: HAProxy writes a line after the
// answer.
func (g *gateway) accessLog(t *testing.T, count int) []string {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var lines []string
		for line := range strings.Lines(g.Log()) {
			if strings.HasPrefix(line, "{") {
				lines = append(lines, strings.TrimSuffix(line, "\n"))
			}
		}
		if len(lines) >= count {
			return lines
		}
		select {
		case <-deadline:
			t.Fatalf("%d lines of access log, want %d", len(lines), count)
		case <-tick.C:
		}
	}
}

// TestHandshakesThatFailAreLogged as requests are, with why.
func TestHandshakesThatFailAreLogged(t *testing.T) {
	t.Parallel()
	g, _ := startTLS(t)
	conn := dial(t, g.ports[443])
	must.Get(io.WriteString(conn, get("shop.example.com", "/")))(t)
	if _, err := io.ReadAll(conn); err != nil {
		t.Logf("the connection ends with %v", err)
	}
	got := parseLogged(t, g.accessLog(t, 1)[0])
	want := logged{
		Client: "127.0.0.1", Method: "<BADREQ>", Host: "-", Path: "-", Route: "-", Rule: "-", Listener: "-", Backend: "-",
		Error: "SSL handshake failure", TLSError: "error:0A00009C:SSL routines::http request",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
