package dataplanetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// gateway is a running HAProxy for a world whose Services have real servers.
type gateway struct {
	*haproxytest.Instance
	in render.Input
	// ports are where HAProxy listens, by the port in the world.
	ports map[int32]int32
}

// startGateway runs HAProxy for a world. Listeners get free ports on loopback in place of the world's. The servers in
// the world are replaced: a Service that has any gets one real server, named like the Service.
func startGateway(t testing.TB, w rendertest.World) *gateway {
	t.Helper()
	return startGatewayWith(t, w, func(*render.Input) {})
}

// startGatewayWith lets change what HAProxy is started with.
func startGatewayWith(t testing.TB, w rendertest.World, change func(in *render.Input)) *gateway {
	t.Helper()
	g := &gateway{ports: map[int32]int32{}}
	for i := range w.Spec.Listeners {
		port := w.Spec.Listeners[i].Port
		if g.ports[port] == 0 {
			g.ports[port] = haproxytest.FreePort(t)
		}
		w.Spec.Listeners[i].Port = g.ports[port]
	}
	g.in = w.Input(t)
	g.in.Bind = render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)}
	g.in.Paths = haproxytest.NewPaths(t)
	for backend, state := range g.in.Backends {
		if len(state.Servers) > 0 {
			state.Servers = []ir.Server{startServer(t, backend.Service)}
			g.in.Backends[backend] = state
		}
	}
	change(&g.in)
	g.Instance = haproxytest.Start(t, g.in.Paths, haproxytest.ShowMatches(render.Render(g.in).AllFiles()))
	return g
}

// handlers are the servers of Services, by the names of these. Each has port 80.
type handlers map[string]http.HandlerFunc

// startServing runs HAProxy for a world, with these servers.
func startServing(t testing.TB, w rendertest.World, of handlers) *gateway {
	t.Helper()
	return startGatewayWith(t, w, func(in *render.Input) { serveAll(t, in, of) })
}

// serveAll starts the servers of Services.
func serveAll(t testing.TB, in *render.Input, of handlers) {
	t.Helper()
	for name, handler := range of {
		in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{serve(t, handler, nil)}}
	}
}

// change makes HAProxy run what a plan leads to, without a reload, and calls between before each change of an entry
// that leads requests on.
func (g *gateway) change(t testing.TB, p plan.Plan, between func()) {
	t.Helper()
	if p.Reload != "" {
		t.Fatalf("a reload is wanted: %s", p.Reload)
	}
	worker, edits := runtime.NewWorker(g.WorkerSocket), p.Edits
	p.Edits = nil
	must.Get(worker.Execute(t.Context(), g.in.Paths, p))(t)
	for _, file := range edits {
		for i := range file.Edits {
			between()
			must.Do(t, worker.EditMap(t.Context(), g.in.Paths.Map(file.File), file.Edits[i:i+1]))
		}
	}
}

const shopWorld = `
generation: 7
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP, hostname: "*.example.com"}
    - {name: any, port: 81, protocol: HTTP}
  routes:
    - name: shop
      hostnames: [shop.example.com]
      rules:
        - matches: [{path: {value: /api}}]
          backendRefs: [{name: api, port: 80}]
        - matches: [{path: {type: Exact, value: "/odd!$&'()*+,;=:@%7E-._~"}}, {path: {type: Exact, value: /}}]
          backendRefs: [{name: exact, port: 80}]
        - matches: [{path: {value: /empty}}]
          backendRefs: [{name: empty, port: 80}]
        - matches: [{path: {value: /missing}}]
          backendRefs: [{name: missing, port: 80}]
    - name: any
      listeners: [any]
      rules: [{backendRefs: [{name: any, port: 80}]}]
    - name: named
      listeners: [any]
      hostnames: [inner, example.com]
      rules: [{backendRefs: [{name: any, port: 80}]}]
backends:
  - {service: api, port: 80, servers: ["127.0.0.1:1"]}
  - {service: exact, port: 80, servers: ["127.0.0.1:1"]}
  - {service: any, port: 80, servers: ["127.0.0.1:1"]}
  - {service: empty, port: 80}
`

func TestRequests(t *testing.T) { //nolint:funlen // a flat table
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	long := strings.Repeat("a", 14000)
	tests := map[string]struct {
		port    int32
		request string
		status  int
		backend string // the Service whose server answered
		body    string // a part of the body
	}{
		"an exact path":                                    {80, get("shop.example.com", "/"), 200, "exact", "GET /\n"},
		"a prefix, with a query":                           {80, get("shop.example.com", "/api/users?q=/x"), 200, "api", "GET /api/users?q=/x\n"},
		"a prefix ends on a segment":                       {80, get("shop.example.com", "/apis"), 404, "", "no route matches the request\n"},
		"every character the schema allows in a path":      {80, get("shop.example.com", "/odd!$&'()*+,;=:@%7E-._~"), 200, "exact", ""},
		"an encoded path, which the backend gets as it is": {80, get("shop.example.com", "/%61pi"), 200, "api", "GET /%61pi\n"},
		"an encoded slash, which ends a segment":           {80, get("shop.example.com", "/api%2fusers"), 200, "api", "GET /api%2fusers\n"},
		"slashes in a row":                                 {80, get("shop.example.com", "//api///users"), 200, "api", "GET //api///users\n"},
		"a segment of one dot":                             {80, get("shop.example.com", "/x/./api"), 400, "", ""},
		"a segment of two dots":                            {80, get("shop.example.com", "/x/../api"), 400, "", ""},
		"two encoded dots":                                 {80, get("shop.example.com", "/x/%2E%2e"), 400, "", ""},
		"two dots between encoded slashes":                 {80, get("shop.example.com", "/x%2f..%2Fapi"), 400, "", ""},
		"a percent sign that encodes nothing":              {80, get("shop.example.com", "/api%zz"), 400, "", ""},
		"a host in upper case with port and trailing dot":  {80, get("SHOP.Example.COM.:8080", "/api"), 200, "api", "Host: SHOP.Example.COM.:8080\n"},
		"a host with an empty port":                        {80, get("shop.example.com:", "/api"), 200, "api", ""},
		"a host without route":                             {80, get("x.example.com", "/"), 404, "", ""},
		"a wildcard is not for the name itself":            {80, get("example.com", "/"), 404, "", ""},
		"a listener is not for other hosts":                {80, get("example.org", "/"), 404, "", ""},
		"a Service without endpoints":                      {80, get("shop.example.com", "/empty"), 503, "", "no endpoint of the backend is available\n"},
		"a Service that does not exist":                    {80, get("shop.example.com", "/missing"), 500, "", "the route has no backend that can be used\n"},
		"an absolute URI":                                  {80, "GET http://shop.example.com/api HTTP/1.1\r\nHost: shop.example.com\r\n\r\n", 200, "api", ""},
		"an absolute URI without a path":                   {80, "GET http://shop.example.com HTTP/1.1\r\nHost: shop.example.com\r\n\r\n", 200, "exact", ""},
		"an absolute URI of another host":                  {80, "GET http://example.com/api HTTP/1.1\r\nHost: shop.example.com\r\n\r\n", 400, "", ""},
		"an absolute URI without Host":                     {81, "GET http://shop.example.com/api HTTP/1.0\r\n\r\n", 400, "", "the request is malformed\n"},
		"OPTIONS *, which Go's server answers nameless":    {80, "OPTIONS * HTTP/1.1\r\nHost: shop.example.com\r\n\r\n", 200, "", ""},
		"CONNECT":                           {81, "CONNECT shop.example.com:80 HTTP/1.1\r\nHost: shop.example.com:80\r\n\r\n", 405, "", ""},
		"TRACE":                             {80, "TRACE /api HTTP/1.1\r\nHost: shop.example.com\r\nCookie: secret\r\n\r\n", 405, "", "the method is not allowed\n"},
		"HTTP/1.0 without Host":             {81, "GET /api HTTP/1.0\r\n\r\n", 200, "any", ""},
		"HTTP/1.1 without Host":             {81, "GET /api HTTP/1.1\r\n\r\n", 400, "", "the request is malformed\n"},
		"an empty Host":                     {81, get("", "/api"), 200, "any", ""},
		"an IPv4 host":                      {81, get("10.0.0.1:80", "/"), 200, "any", ""},
		"an IPv6 host":                      {81, get("[::1]:80", "/"), 200, "any", ""},
		"two Hosts that differ":             {81, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "", ""},
		"a list of hosts":                   {81, get("evil.example.org, shop.example.com", "/"), 400, "", ""},
		"a slash in the host":               {80, get("shop.example.com/api", "/x"), 400, "", ""},
		"a port that is no number":          {81, get("a:x", "/"), 400, "", ""},
		"two ports":                         {81, get("a:80:81", "/"), 400, "", ""},
		"two trailing dots":                 {81, get("a..", "/"), 400, "", ""},
		"a wildcard as host":                {80, get("*.example.com", "/"), 400, "", ""},
		"a byte outside ASCII in the host":  {81, get("\xe2\x84\xaa", "/"), 400, "", ""},
		"the longest host":                  {81, get(strings.Repeat("a.", 126)+"a", "/"), 200, "any", ""},
		"a longer host":                     {81, get(strings.Repeat("a.", 127)+"a", "/"), 400, "", ""},
		"a very long host":                  {81, get(strings.Repeat("a.", 7000)+"a", "/"), 400, "", ""},
		"a very long path":                  {80, get("shop.example.com", "/api/"+long), 200, "api", ""},
		"a path that does not fit":          {80, get("shop.example.com", "/api/"+long+long), 431, "", ""},
		"NUL in the path":                   {81, get("a", "/\x00"), 400, "", ""},
		"an encoded NUL in the path":        {81, get("a", "/%00"), 400, "", ""},
		"a backslash in the path":           {80, get("shop.example.com", `/api\x`), 400, "", "the request is malformed\n"},
		"an encoded backslash in the path":  {80, get("shop.example.com", "/api%5cx"), 400, "", "the request is malformed\n"},
		"a path that ends in a backslash":   {80, get("shop.example.com", "/api%5C"), 400, "", "the request is malformed\n"},
		"a backslash in the query":          {80, get("shop.example.com", `/api?a=\%5c`), 200, "api", ""},
		"a backslash that is encoded twice": {80, get("shop.example.com", "/api/%255c"), 200, "api", ""},
		"a fragment":                        {81, get("a", "/#a"), 400, "", ""},
		"a space in the path":               {81, get("a", "/a b"), 400, "", ""},
		"a byte outside ASCII in the path":  {81, get("a", "/\xff"), 400, "", ""},
		"a relative path":                   {81, get("a", "api"), 400, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newClient(t, g.ports[test.port]).send(test.request)
			if got.Status == http.StatusRequestURITooLong {
				got.Status = 400 // HAProxy says it like that
			}
			if got.Status != test.status || got.Header.Get("Backend") != test.backend || !strings.Contains(got.Body, test.body) {
				t.Errorf("got %d from %q, want %d from %q with %q; body:\n%s", got.Status, got.Header.Get("Backend"), test.status, test.backend, test.body, got.Body)
			}
			// HAProxy answers what its parser refuses with a page of its own, whatever the configuration says.
			parser := got.Status == 400 && got.Header.Get("Content-Type") == "text/html"
			if got.Status >= 400 && !parser && got.Header.Get("Content-Type") != "text/plain" {
				t.Errorf("an error is not plain text: %v", got.Header)
			}
		})
	}
}

func TestForwardedHeadersAreNotBelieved(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	got := newClient(t, g.ports[81]).send("GET / HTTP/1.1\r\nHost: example.com:81\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n" +
		"X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nForwarded: for=3.3.3.3\r\nX-Forwarded-User: evil\r\n" +
		"X_Forwarded_For: 4.4.4.4\r\nx-forwarded_host: evil\r\nX-Forwarded_Prefix: /evil\r\nClient_Cert: a\r\nX_SSL_Client-Subject: b\r\n\r\n")
	if strings.Contains(got.Body, "_") {
		t.Errorf("the backend received headers that it may take for others:\n%s", got.Body)
	}
	want := fmt.Sprintf("Forwarded: for=127.0.0.1;proto=http;host=\"example.com:81\"\r\n"+
		"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: example.com:81\r\nX-Forwarded-Port: %d\r\nX-Forwarded-Proto: http\r\n", g.ports[81])
	if !strings.Contains(got.Body, want) || strings.Count(got.Body, "orwarded") != 5 {
		t.Errorf("the backend received\n%s\nwant only\n%s", got.Body, want)
	}
}

// TestNoHost: a request of HTTP/1.0 needs none, and then nothing says that there is an empty one.
func TestNoHost(t *testing.T) {
	t.Parallel()
	for _, trusted := range []string{"", "127.0.0.1/32"} {
		world := rendertest.Parse(t, shopWorld)
		if trusted != "" {
			world.Spec.TrustedProxies = []appv1.CIDR{appv1.CIDR(trusted)}
		}
		g := startGateway(t, world)
		for _, request := range []string{"GET / HTTP/1.0\r\n\r\n", get("", "/")} {
			if got := newClient(t, g.ports[81]).send(request); got.Status != 200 || strings.Contains(got.Body, "X-Forwarded-Host") || !strings.Contains(got.Body, "Forwarded: for=127.0.0.1;proto=http\r\n") {
				t.Errorf("%q: got %d, and the backend received\n%s", request, got.Status, got.Body)
			}
		}
		got := newClient(t, g.ports[81]).send("GET / HTTP/1.0\r\nX-Forwarded-Host: first\r\nForwarded: for=1.1.1.1;host=first\r\n\r\n")
		if isKept := strings.Contains(got.Body, "X-Forwarded-Host: first\r\n") && strings.Contains(got.Body, "Forwarded: for=1.1.1.1;host=first\r\n"); isKept != (trusted != "") {
			t.Errorf("trusted %q: the backend received\n%s", trusted, got.Body)
		}
		for name, authority := range map[string][][2]string{"none": nil, "an empty one": {{":authority", ""}}, "an empty Host": {{"host", ""}}} {
			conn := dial(t, g.ports[81])
			lines := append([][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}}, authority...)
			_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(frameSettings, 0, "")+frame(frameHeaders, flagEndHeaders|flagEndStream, fields(lines...)))
			if answered(t, conn) {
				t.Errorf("HTTP/2 with %s gets 200", name)
			}
		}
	}
}

// TestForgedHeadersAreRemoved from requests that are ordinary otherwise, wherever they are and however many others
// there are.
func TestForgedHeadersAreRemoved(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	c := newClient(t, g.ports[81])
	many := strings.Repeat("X-A: "+strings.Repeat("a", 100)+"\r\n", 40)
	for _, header := range []string{
		"Client-Cert", "client_cert", "client.cert", "Client-Cert-Chain", "client_cert.chain", "X-SSL-Client-Subject", "X-SSL-Client-", "x_ssl-client_a",
		"x.ssl.client.a", "X-Forwarded_For", "X.Forwarded.For", "X-Forwarded.User", "HTTP2-Settings",
		// Backends may take each of these names for one with "-".
		"X_Tenant", "x.tenant", "X!Tenant", "X~Tenant", "X-Tenant_", "_", "Content_Length", "Transfer_Encoding", "Transfer.Encoding", "Content_Type",
		// Backends may believe these.
		"Proxy", "X-Original-URL", "x-original-uri", "X-Original-Host", "X-Rewrite-URL", "SSL-Client-Verify", "X-HTTP-Host-Override", "X-Forwarded",
		"Forwarded-For", "X-Forwarded-Server", "X-Forwarded-Prefix", "X-Real-IP", "Client-IP", "X-Client-IP", "True-Client-IP", "X-Cluster-Client-IP",
		"CF-Connecting-IP", "Fastly-Client-IP", "Front-End-HTTPS", "X-Scheme", "X-URL-Scheme", "Trailer",
	} {
		forged := header + ": forged\r\n"
		for _, lines := range []string{forged + "Host: inner\r\n", "Host: inner\r\n" + forged, "Host: inner\r\n" + many + forged, many + forged + "Host: inner\r\n" + many} {
			got := c.send("GET / HTTP/1.1\r\n" + lines + "\r\n")
			if got.Status != 200 || strings.Contains(got.Body, "forged") {
				t.Errorf("%s: %d, and the backend received\n%.500s", header, got.Status, got.Body)
			}
		}
	}
}

// TestHeadersThatAreKept: their names only look like those that are removed.
func TestHeadersThatAreKept(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	for _, header := range []string{"Proxy-Authorization", "Proxy-Status", "Client-Certain", "X-Original", "X-Rewrite-Url-B", "Clients-Ip", "X-Real-Ip-A", "X-Schemes", "Forwarded-Fo", "1", "-", "X--A"} {
		for _, odd := range []string{"", "a_b: c\r\n"} {
			if got := newClient(t, g.ports[81]).send("GET / HTTP/1.1\r\nHost: inner\r\n" + odd + header + ": kept\r\n\r\n"); got.Status != 200 || !strings.Contains(got.Body, header+": kept") {
				t.Errorf("%s: %d, and the backend received\n%.500s", header, got.Status, got.Body)
			}
		}
	}
}

// TestFiltersAreNotPassedBy: a header that a filter sets or removes does not come from the client under another name
// that a backend may take for it, as a header or a trailer.
func TestFiltersAreNotPassedBy(t *testing.T) {
	t.Parallel()
	seen := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, r.Header, r.Trailer)
	}
	g := startBackends(t, `, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Tenant, value: good}, {name: X_Team, value: good}, {name: X-Team, value: good}], remove: [X-Debug]}}]`, "", "", serve(t, seen, nil))
	for _, name := range []string{"X-Tenant", "X_Tenant", "x.tenant", "X-Team", "X_Team", "X.Team", "X-Debug", "X_Debug", "X.Debug"} {
		got := newClient(t, g.ports[80]).send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + name + ": forged\r\n\r\n0\r\n" + name + ": forged\r\n\r\n")
		if got.Status != 200 || strings.Contains(got.Body, "forged") || strings.Count(got.Body, "[good]") != 3 {
			t.Errorf("%s: %d, and the backend received %s", name, got.Status, got.Body)
		}
	}
}

// TestForwardedOfIPv6: the addresses are in brackets where RFC 7239 wants it.
func TestForwardedOfIPv6(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string][]appv1.CIDR{"the proxy is trusted": {"127.0.0.0/8"}, "others are trusted too": {"10.0.0.0/8", "127.0.0.1/32"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rendertest.Parse(t, shopWorld)
			w.Spec.TrustedProxies = trusted
			w.Spec.Listeners[1].ProxyProtocol = "Any"
			g := startGateway(t, w)
			got := newClient(t, g.ports[81]).send("PROXY TCP6 2001:db8::1 ::1 1234 81\r\n" + get("inner", "/"))
			want := "Forwarded: for=\"[2001:db8::1]\";proto=http;host=\"inner\"\r\nX-Forwarded-For: 2001:db8::1\r\n"
			if !strings.Contains(got.Body, want) {
				t.Errorf("the backend received\n%s\nwant\n%s", got.Body, want)
			}
		})
	}
}

// TestLongRequests: nothing gets past a rule by its length. What HAProxy cannot hold is refused, not cut.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - matches: [{path: {type: RegularExpression, value: "/admin/[a-z/-]*"}}, {path: {type: RegularExpression, value: "/(adm|b)in/([a-z]|/)*(-.*)?"}}, {path: {type: RegularExpression, value: "/.*open.*secret.*"}}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 403}}]
        - matches: [{queryParams: [{name: debug, value: "1"}]}, {headers: [{name: X-Debug, type: RegularExpression, value: ".*1.*"}]}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 403}}]
    - {name: open, rules: [{backendRefs: [{name: one, port: 80}]}]}
    - name: method
      hostnames: [method.io]
      rules:
        - {matches: [{method: POST}], filters: [{type: DirectResponse, directResponse: {statusCode: 403}}]}
    - {name: faq, hostnames: ["*.io"], rules: [{backendRefs: [{name: one, port: 80}]}]}
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`))
	for name, request := range map[string]string{
		"a path of many segments":             get("x", "/admin"+strings.Repeat("/a", 6000)),
		"a path of many segments, by another": get("x", "/bin"+strings.Repeat("/a", 6000)),
		"a path with many beginnings":         get("x", "/opensecret"+strings.Repeat("open", 3000)),
		"a path with many signs":              get("x", "/admin/"+strings.Repeat("-", 13000)),
		"dots behind an encoded path":         get("x", "/a/"+strings.Repeat("%c3", 3300)+"/../../admin"),
		"dots behind quotes":                  get("x", "/a/"+strings.Repeat(`"`, 3000)+"/../../admin"),
		"a parameter behind pluses":           get("x", "/?a="+strings.Repeat("+", 3000)+"&debug=1"),
		"dots behind a shorter one":           get("x", "/a/"+strings.Repeat("%c3", 1600)+"/../../admin"),
		"a parameter behind an encoded one":   get("x", "/?a="+strings.Repeat("%c3", 3300)+"&debug=1"),
		"a parameter behind a shorter one":    get("x", "/?a="+strings.Repeat("%c3", 1500)+"&debug=1"),
		"a parameter behind percent signs":    get("x", "/?a="+strings.Repeat("%", 9000)+"&debug=1"),
		"a parameter behind many":             get("x", "/?"+strings.Repeat("a&", 2400)+"debug=1"),
		"a header with a long value":          "GET / HTTP/1.1\r\nHost: x\r\nX-Debug: " + strings.Repeat("a", 13000) + "1\r\n\r\n",
		"a header that comes many times":      "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Debug: a\r\n", 80) + "X-Debug: 1\r\n\r\n",
	} {
		if got := newClient(t, g.ports[80]).send(request); got.Status != 403 && got.Status != 400 {
			t.Errorf("%s: got %d, want 403 or 400", name, got.Status)
		}
	}
	for name, request := range map[string]string{
		"a long path, with no rule for paths":    get("method.io", "/other/"+strings.Repeat("a/", 6000)),
		"a long query, with no rule for queries": get("method.io", "/?a="+strings.Repeat("a", 6000)),
	} {
		if got := newClient(t, g.ports[80]).send(request); got.Status != 200 {
			t.Errorf("%s: got %d", name, got.Status)
		}
	}
}

// TestTrustedProxies: the client is in a trusted range, and HAProxy adds to its forwarding headers.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, shopWorld)
	w.Spec.TrustedProxies = []appv1.CIDR{"127.0.0.0/8", "fd00::/8"}
	g := startGateway(t, w)
	got := newClient(t, g.ports[81]).send("GET / HTTP/1.1\r\nHost: inner\r\nX-Forwarded-For: 1.1.1.1\r\n" +
		"X-Forwarded-Proto: https\r\nX-Forwarded-Host: outer\r\nX-Forwarded-User: me\r\nForwarded: for=1.1.1.1\r\n\r\n")
	// The port goes with the scheme: the listener's is not one that the client knows.
	const want = "Forwarded: for=1.1.1.1\r\nForwarded: for=127.0.0.1;proto=http;host=\"inner\"\r\nX-Forwarded-For: 1.1.1.1\r\n" +
		"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: outer\r\nX-Forwarded-Port: 443\r\nX-Forwarded-Proto: https\r\nX-Forwarded-User: me\r\n"
	if !strings.Contains(got.Body, want) {
		t.Errorf("the backend received\n%s\nwant\n%s", got.Body, want)
	}
	for header, kept := range map[string]bool{"X-Real-Ip": true, "True-Client-Ip": true, "X-Forwarded": true, "Proxy": false, "X-Original-Url": false, "X_Real_Ip": false} {
		got := newClient(t, g.ports[81]).send("GET / HTTP/1.1\r\nHost: inner\r\n" + header + ": said\r\n\r\n")
		if strings.Contains(got.Body, header+": said") != kept {
			t.Errorf("%s: is kept: %v; the backend received\n%s", header, !kept, got.Body)
		}
	}
	for said, port := range map[string]int32{
		"": g.ports[81], "X-Forwarded-Proto: http\r\n": g.ports[81], "X-Forwarded-Proto: HTTPS\r\n": 443, "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https\r\n": 443,
		"X-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\n": 8443, "X-Forwarded-Port: 80\r\n": 80,
	} {
		got := newClient(t, g.ports[81]).send("GET / HTTP/1.1\r\nHost: inner\r\n" + said + "\r\n")
		if want := fmt.Sprintf("X-Forwarded-Port: %d\r\n", port); strings.Count(got.Body, "X-Forwarded-Port") != 1 || !strings.Contains(got.Body, want) {
			t.Errorf("%q: the backend received\n%s\nwant\n%s", said, got.Body, want)
		}
	}
	// It is refused before headers are made of it, for which there would be no room.
	if got := newClient(t, g.ports[81]).send(get(strings.Repeat("a.", 7000)+"a", "/")); got.Status != 400 {
		t.Errorf("a very long host: got %d, want 400", got.Status)
	}
}

// TestConnect in every form: what passes for an answer to it makes a tunnel to the backend, past all rules.
func TestConnect(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	for _, target := range []string{"shop.example.com:80", "http://shop.example.com:80/api", "x://a@shop.example.com:80/api", "https://shop.example.com:443/api", "/api", "*"} {
		for _, host := range []string{"shop.example.com", "shop.example.com:80", "shop.example.com:443"} {
			got := newClient(t, g.ports[80]).send("CONNECT " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			// HAProxy itself refuses some, newer versions more.
			if got.Status != 400 && got.Status != 405 {
				t.Errorf("%s with host %s: got %d, want 400 or 405", target, host, got.Status)
			}
		}
	}
}

func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	c := newClient(t, g.in.Bind.MetricsPort)
	if got := c.send(get("x", "/healthz")); got.Status != 200 {
		t.Errorf("/healthz answers %d", got.Status)
	}
	if got := c.send(get("x", "/metrics")); got.Status != 200 || !strings.Contains(got.Body, `haproxy_backend_status{proxy="api_80"`) {
		t.Errorf("/metrics answers %d without the backend:\n%.2000s", got.Status, got.Body)
	}
	// Where the kernel has no IPv6, HAProxy does not start if it is to listen there.
	if cfg := string(render.Render(g.in).Content(ir.ConfigFile)); strings.Contains(cfg, "bind :") {
		t.Errorf("not everything is bound on the addresses given:\n%s", cfg)
	}
}
