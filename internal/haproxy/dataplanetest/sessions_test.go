package dataplanetest_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
)

func TestSessionPersistence(t *testing.T) {
	t.Parallel()
	g := startBackends(t, ", sessionPersistence: {sessionName: kept, absoluteTimeout: 1h}", ", loadBalancing: {algorithm: RoundRobin}", "",
		serve(t, named("one"), nil), serve(t, named("two"), nil))
	// A server that comes at run time gets its cookie, too.
	added := g.newServer(serve(t, named("three"), nil))
	must.Do(t, runtime.NewWorker(g.WorkerSocket).AddServer(t.Context(), added))
	cookies := map[string]string{}
	c := newClient(t, g.ports[80])
	for range 30 {
		got := c.send(get("x", "/"))
		cookie := got.Header.Get("Set-Cookie")
		if !strings.HasPrefix(cookie, "kept-") || !strings.Contains(cookie, "HttpOnly") {
			t.Fatalf("the cookie is %q", cookie)
		}
		cookies[got.Header.Get("Backend")], _, _ = strings.Cut(cookie, ";")
	}
	if len(cookies) != 3 {
		t.Errorf("the endpoints that got requests are %v", cookies)
	}
	for backend, cookie := range cookies {
		for range 5 {
			if got := c.send("GET / HTTP/1.1\r\nHost: x\r\nCookie: " + cookie + "\r\n\r\n"); got.Header.Get("Backend") != backend {
				t.Errorf("with the cookie of %s: got %s", backend, got.Header.Get("Backend"))
			}
		}
	}
}

// browser is a client that keeps cookies.
type browser struct {
	*client
	cookies map[string]string
}

// get returns the name of the endpoint that answers a request for a path, and whether it set a cookie.
func (b *browser) get(path string) (endpoint string, set bool) {
	b.t.Helper()
	request := "GET " + path + " HTTP/1.1\r\nHost: x\r\n"
	if len(b.cookies) > 0 {
		var pairs []string
		for name, value := range b.cookies {
			pairs = append(pairs, name+"="+value)
		}
		request += "Cookie: " + strings.Join(pairs, "; ") + "\r\n"
	}
	got := b.send(request + "\r\n")
	if got.Status != 200 {
		b.t.Errorf("%q: got %d", request, got.Status)
	}
	cookie := got.Header.Get("Set-Cookie")
	if name, rest, ok := strings.Cut(cookie, "="); ok {
		b.cookies[name], _, _ = strings.Cut(rest, ";")
	}
	return got.Header.Get("Backend"), cookie != ""
}

// startSessions runs HAProxy for these rules and the Services "a" and "b", of two endpoints each.
func startSessions(t *testing.T, rules string) (g *gateway, newBrowser func() *browser) {
	t.Helper()
	g = startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: `+rules+`}]
backends: [{service: a, port: 80}, {service: b, port: 80}]
`), func(in *render.Input) {
		for _, service := range []string{"a", "b"} {
			servers := []ir.Server{serve(t, named(service+"1"), nil), serve(t, named(service+"2"), nil)}
			in.Backends[routing.Backend{Service: service, Port: 80}] = render.BackendState{Exists: true, Servers: servers}
		}
	})
	return g, func() *browser { return &browser{client: newClient(t, g.ports[80]), cookies: map[string]string{}} }
}

// TestSessionsOfTwoServices: each has a cookie of its own, so that neither loses its sessions to the other.
func TestSessionsOfTwoServices(t *testing.T) {
	t.Parallel()
	_, newBrowser := startSessions(t, `[
    {matches: [{path: {value: /a}}], sessionPersistence: {}, backendRefs: [{name: a, port: 80}]},
    {matches: [{path: {value: /b}}], sessionPersistence: {}, backendRefs: [{name: b, port: 80}]}]`)
	b := newBrowser()
	first := map[string]string{}
	for i := range 20 {
		for _, path := range []string{"/a", "/b"} {
			endpoint, set := b.get(path)
			if i == 0 {
				first[path] = endpoint
			}
			if endpoint != first[path] || set != (i == 0) {
				t.Errorf("%s, request %d: got %s, and a cookie: %v; the first got %s", path, i, endpoint, set, first[path])
			}
		}
	}
}

// TestSessionsOfTwoAuthors: nobody can write a rule that has the section of another's. The hashes of these two begin
// with the same 32 bits, for which it takes some 70,000 tries.
func TestSessionsOfTwoAuthors(t *testing.T) {
	t.Parallel()
	g, _ := startSessions(t, `[
    {matches: [{path: {value: /a}}], sessionPersistence: {sessionName: s60597}, backendRefs: [{name: b, port: 80}]},
    {matches: [{path: {value: /b}}], sessionPersistence: {sessionName: s95648}, backendRefs: [{name: b, port: 80}]}]`)
	for path, name := range map[string]string{"/a": "s60597", "/b": "s95648"} {
		if got := newClient(t, g.ports[80]).send(get("x", path)); !strings.HasPrefix(got.Header.Get("Set-Cookie"), name+"-") {
			t.Errorf("%s: got the cookie %q, want one of %s", path, got.Header.Get("Set-Cookie"), name)
		}
	}
	beginnings := map[string]bool{}
	for section := range render.Render(g.in).Backends.Keys() {
		beginnings[section[:len("b_80.01234")]] = true
	}
	if len(beginnings) != 1 {
		t.Errorf("the names of the sections begin with %v: find another two rules", beginnings)
	}
}

// TestSessionsOfASplit: who was sent to one Service stays there, whatever its weight.
func TestSessionsOfASplit(t *testing.T) {
	t.Parallel()
	for _, filters := range []string{"", "filters: [{type: URLRewrite, urlRewrite: {hostname: inner}}], "} {
		t.Run(filters, func(t *testing.T) {
			testSessionsOfASplit(t, "[{sessionPersistence: {}, "+filters+`backendRefs: [{name: a, port: 80, weight: A}, {name: b, port: 80, weight: B}]}]`)
		})
	}
}

// testSessionsOfASplit is for a rule with the weights A and B for two Services.
func testSessionsOfASplit(t *testing.T, rule string) {
	t.Helper()
	_, newBrowser := startSessions(t, strings.NewReplacer("A", "1", "B", "1").Replace(rule))
	services := map[string]int{}
	var cookies map[string]string
	for range 40 {
		b := newBrowser()
		first, set := b.get("/")
		if !set {
			t.Error("no cookie is set")
		}
		services[first[:1]]++
		for range 10 {
			if endpoint, set := b.get("/"); endpoint != first || set {
				t.Errorf("the first request got %s, another one %s, and a cookie: %v", first, endpoint, set)
			}
		}
		if first[:1] == "a" {
			cookies = b.cookies
		}
	}
	if services["a"] < 5 || services["b"] < 5 {
		t.Errorf("new clients were sent to %v", services)
	}
	_, newBrowser = startSessions(t, strings.NewReplacer("A", "0", "B", "1").Replace(rule))
	b := newBrowser()
	if endpoint, _ := b.get("/"); endpoint[:1] != "b" {
		t.Errorf("a new client was sent to %s, which has no weight", endpoint)
	}
	b = newBrowser()
	b.cookies = cookies
	for range 10 {
		if endpoint, _ := b.get("/"); endpoint[:1] != "a" {
			t.Errorf("the session was taken to %s", endpoint)
		}
	}
}

// TestSessionsWithoutCookies: a filter that changes what cookies the backend gets does not end the session, and the
// backend gets what the filter says.
func TestSessionsWithoutCookies(t *testing.T) {
	t.Parallel()
	servers := func() []ir.Server {
		var all []ir.Server
		for i := range 4 {
			all = append(all, serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Backend", strconv.Itoa(i))
				w.Header().Set("Got", strings.Join(r.Header["Cookie"], "|"))
			}, nil))
		}
		return all
	}
	auth := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cookie", "from=auth") }, nil)
	quiet := serve(t, func(http.ResponseWriter, *http.Request) {}, nil)
	for filter, want := range map[string]string{
		"RequestHeaderModifier, requestHeaderModifier: {remove: [cookie]}":                            "",
		"RequestHeaderModifier, requestHeaderModifier: {set: [{name: Cookie, value: a=b}]}":           "a=b",
		"RequestHeaderModifier, requestHeaderModifier: {add: [{name: Cookie, value: a=b}]}":           "first=1; last=2|a=b",
		"HeaderVariables, headerVariables: {set: [{name: Cookie, variable: Route}]}":                  "r",
		"HeaderVariables, headerVariables: {set: [{name: Cookie, variable: ClientAddress}]}":          "127.0.0.1",
		"HeaderVariables, headerVariables: {set: [{name: Cookie, variable: TLSVersion}]}":             "",
		"ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, responseHeaders: [Cookie]}": "from=auth",
		// Of the Gateway API, without allowedResponseHeaders: the backend gets all headers of the answer.
		"ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}}":  "from=auth",
		"ExternalAuth, externalAuth: {backendRef: {name: quiet, port: 80}}": "first=1; last=2",
	} {
		for _, refs := range []string{"[{name: b, port: 80}]", "[{name: b, port: 80}, {name: missing, port: 80, weight: 0}]"} {
			g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{sessionPersistence: {}, filters: [{type: `+filter+`}], backendRefs: `+refs+`}]}]
backends: [{service: b, port: 80}, {service: auth, port: 80}, {service: quiet, port: 80}]
`), func(in *render.Input) {
				in.Backends[routing.Backend{Service: "b", Port: 80}] = render.BackendState{Exists: true, Servers: servers()}
				in.Backends[routing.Backend{Service: "auth", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{auth}}
				in.Backends[routing.Backend{Service: "quiet", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{quiet}}
				in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
					if rule.ExternalAuth != nil {
						rule.ExternalAuth.Repeat = len(rule.ExternalAuth.ResponseHeaders) == 0
					}
				})
			})
			c := newClient(t, g.ports[80])
			first := c.send(get("x", "/"))
			cookie, _, _ := strings.Cut(first.Header.Get("Set-Cookie"), ";")
			for range 10 {
				got := c.send("GET / HTTP/1.1\r\nHost: x\r\nCookie: first=1; " + cookie + "; last=2\r\n\r\n")
				if got.Header.Get("Backend") != first.Header.Get("Backend") || got.Header.Get("Set-Cookie") != "" {
					t.Errorf("%s, %s: the first request got %s, another one %s", filter, refs, first.Header.Get("Backend"), got.Header.Get("Backend"))
				}
				if got.Header.Get("Got") != want {
					t.Errorf("%s, %s: the backend got the cookies %q, want %q", filter, refs, got.Header.Get("Got"), want)
				}
			}
		}
	}
}
