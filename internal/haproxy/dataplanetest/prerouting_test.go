package dataplanetest_test

import (
	"bytes"
	"crypto/tls"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/model"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

const preRoutingWorld = `
generation: 1
spec:
  listeners: [{name: asked, port: 80, protocol: HTTP}, {name: open, port: 81, protocol: HTTP}]
  routes:
    - name: asked
      listeners: [asked]
      hostnames: [x]
      rules: &rules
        - matches: [{path: {value: /app}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /app}, headers: [{name: X-Team, value: blue}]}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Rule, value: blue}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /moved}}]
          filters: [{type: RequestRedirect, requestRedirect: {hostname: new.io}}]
        - matches: [{path: {value: /own}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: second, port: 80}, path: /second, requestHeaders: [X-Team]}}]
          backendRefs: [{name: web, port: 80}]
    - name: open
      listeners: [open]
      hostnames: [x]
      rules: *rules
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: first, port: 80, servers: ["127.0.0.1:1"]}
  - {service: second, port: 80, servers: ["127.0.0.1:1"]}
`

// startPreRouting runs HAProxy for a world. The handler answers the questions about requests to listener "asked".
func startPreRouting(t *testing.T, world string, handler http.HandlerFunc, mods ...func(*render.Input, *model.PreRouting)) (g *gateway, web, asked chan string) {
	t.Helper()
	web, asked = make(chan string, 100), make(chan string, 100)
	g = startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
		before := &model.PreRouting{
			ExternalAuth: model.ExternalAuth{
				Backend: routing.Backend{Service: "first", Port: 80}, Path: "/check", Timeout: 5 * time.Second, Repeat: true,
				RequestHeaders: []string{"authorization", "x-forwarded-for"}, ResponseHeaders: []string{"x-team"},
			},
			Namespace: "team",
		}
		for _, mod := range mods {
			mod(in, before)
		}
		in.Table.Rules(func(listener *routing.Listener, rule *routing.Rule) {
			if listener.Name == "asked" {
				action := *rule.Action
				action.PreRouting, rule.Action = before, &action
			}
		})
		for name, handler := range map[string]http.HandlerFunc{"web": record(web, nil), "first": record(asked, handler), "second": record(asked, byTeam)} {
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{serve(t, handler, nil)}}
		}
	})
	return g, web, asked
}

// byTeam lets the requests of the team blue pass.
func byTeam(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Team") != "blue" {
		w.WriteHeader(http.StatusForbidden)
	}
}

// teamOf answers with the team of whoever asks.
func teamOf(w http.ResponseWriter, r *http.Request) {
	switch team := r.Header.Get("Authorization"); team {
	case "":
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	case "broken":
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.Header().Set("X-Team", team)
		w.Header().Set("Set-Cookie", "seen=1")
	}
}

// TestPreRouting: a Service decides about all requests to a listener before a rule is chosen. So rules match headers of
// its answer.
func TestPreRouting(t *testing.T) {
	t.Parallel()
	g, web, asked := startPreRouting(t, preRoutingWorld, teamOf)
	for _, test := range []struct {
		name          string
		port          int32
		path, headers string
		status        int
		questions     int
		want, not     string
	}{
		{"who is not known", 80, "/app", "", 401, 1, "", ""},
		{"and claims to be of a team", 80, "/app", "X-Team: blue\r\n", 401, 1, "", ""},
		{"at no rule", 80, "/none", "", 401, 1, "", ""},
		{"at a redirect", 80, "/moved", "", 401, 1, "", ""},
		{"with a path that is no usual one", 80, "//app/%61", "", 401, 1, "", ""},
		{"known, at no rule", 80, "/none", "Authorization: red\r\n", 404, 1, "", ""},
		{"known, at a redirect", 80, "/moved", "Authorization: red\r\n", 302, 1, "", ""},
		{"of a team without a rule of its own", 80, "/app", "Authorization: red\r\n", 200, 1, "X-Team: red", "X-Rule"},
		{"of a team with a rule of its own", 80, "/app", "Authorization: blue\r\n", 200, 1, "X-Rule: blue", ""},
		{"of another team than it claims", 80, "/app", "Authorization: red\r\nX-Team: blue\r\n", 200, 1, "X-Team: red", "X-Rule"},
		{"a rule with a question of its own lets it in", 80, "/own", "Authorization: blue\r\n", 200, 2, "X-Team: blue", ""},
		{"a rule with a question of its own refuses it", 80, "/own", "Authorization: red\r\n", 403, 2, "", ""},
		{"an answer that decides nothing", 80, "/app", "Authorization: broken\r\n", 503, 1, "", ""},
		{"a host that no route has", 80, "/app", "Host: y\r\n", 404, 0, "", ""},
		{"another listener", 81, "/app", "X-Team: blue\r\n", 200, 0, "X-Rule: blue", ""},
		{"a rule of another listener with a question", 81, "/own", "X-Team: red\r\n", 403, 1, "", ""},
	} {
		host := "Host: x\r\n"
		if strings.Contains(test.headers, "Host: ") {
			host = ""
		}
		got := newClient(t, g.ports[test.port]).send("GET " + test.path + " HTTP/1.1\r\n" + host + test.headers + "\r\n")
		if got.Status != test.status || len(asked) != test.questions {
			t.Errorf("%s: got %d after %d questions, want %d after %d", test.name, got.Status, len(asked), test.status, test.questions)
		}
		for len(asked) > 0 {
			<-asked
		}
		cookie, isAuthorized := got.Header.Get("Set-Cookie"), test.port == 80 && strings.Contains(test.headers, "Authorization") && test.status != 503
		if isAuthorized != (cookie == "seen=1") {
			t.Errorf("%s: the client gets the cookie %q of the answer", test.name, cookie)
		}
		if test.status != 200 {
			if len(web) > 0 {
				t.Errorf("%s: the backend got the request: %s", test.name, <-web)
			}
			continue
		}
		if request := next(t, web); !strings.Contains(request, test.want) || test.not != "" && strings.Contains(request, test.not) {
			t.Errorf("%s: the backend got %s, want %q, and not %q", test.name, request, test.want, test.not)
		}
	}
}

// TestPreRoutingQuestions: what is asked is what came, but for what clients may not claim.
func TestPreRoutingQuestions(t *testing.T) {
	t.Parallel()
	g, _, asked := startPreRouting(t, preRoutingWorld, teamOf, func(_ *render.Input, p *model.PreRouting) { p.MaxBody = 10 })
	newClient(t, g.ports[80]).send("POST /none?a=%20b HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7\r\nContent-Length: 5\r\n\r\nhello")
	question := next(t, asked)
	for _, want := range []string{"POST /check/none?a=%20b", "Host: x", "hello"} {
		if !strings.Contains(question, want) {
			t.Errorf("the question has no %q: %s", want, question)
		}
	}
	if strings.Contains(question, "192.0.2.7") {
		t.Errorf("the Service is asked with the address that the client claims: %s", question)
	}
	if got := newClient(t, g.ports[80]).send("POST /app HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world"); got.Status != 413 {
		t.Errorf("a body that is too long is answered with %d", got.Status)
	}
}

// TestPreRoutingShares: the questions of a listener take no more places than its namespace has, unless that is the
// Gateway's.
func TestPreRoutingShares(t *testing.T) {
	t.Parallel()
	const most, more = 5, 3
	for owner, refused := range map[string]int{"other": more, "team": 0} {
		t.Run(owner, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			g, _, _ := startPreRouting(t, preRoutingWorld, func(http.ResponseWriter, *http.Request) { <-release }, func(in *render.Input, _ *model.PreRouting) {
				in.Table.Shares.Owner, in.Table.Shares.Questions = owner, most
			})
			got := make(chan int, most+more)
			for range most + more {
				c := newClientFrom(t, "127.0.0.1", g.ports[80])
				go func() {
					answer, _ := c.try(get("x", "/app"))
					got <- answer.Status
				}()
			}
			for range refused {
				if status := <-got; status != http.StatusServiceUnavailable {
					t.Fatalf("got %d, want 503 beyond %d", status, most)
				}
			}
			close(release)
			for range most + more - refused {
				if status := <-got; status != http.StatusOK {
					t.Errorf("got %d, want 200 within the share", status)
				}
			}
		})
	}
}

// TestPreRoutingTooLong: a question that takes more than HAProxy has room for is refused.
func TestPreRoutingTooLong(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]bool{100: false, 20_000: true} {
		asks := &model.PreRouting{ExternalAuth: model.ExternalAuth{RequestHeaders: []string{strings.Repeat("a", most)}}}
		if got := filters.Problem(&routing.Rule{Action: &routing.Action{PreRouting: asks}}); (got != "") != want {
			t.Errorf("%d bytes of names: got the problem %q", most, got)
		}
	}
}

// TestPreRoutingOverTLS: of two listeners of a port, the one whose hostname is closest to the request's has it asked.
func TestPreRoutingOverTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	world := strings.NewReplacer(
		"{name: asked, port: 80, protocol: HTTP}", `{name: asked, port: 443, protocol: HTTPS, hostname: a.io, tls: {certificateRefs: [{name: a}]}}`,
		"{name: open, port: 81, protocol: HTTP}", `{name: open, port: 443, protocol: HTTPS, hostname: "*.io", tls: {certificateRefs: [{name: b}]}}`,
		"hostnames: [x]", "hostnames: [a.io, b.io]",
	).Replace(preRoutingWorld) + "certificates: {asked: [{secret: a, names: [a.io]}], open: [{secret: b, names: [b.io]}]}"
	g, _, asked := startPreRouting(t, world, teamOf, func(in *render.Input, _ *model.PreRouting) {
		in.Paths.CertificateDir = t.TempDir()
		for _, name := range []string{"a", "b"} {
			writeSecret(t, in.Paths, name, ca.Issue(t, []string{name + ".io"}))
		}
	})
	for host, want := range map[string]struct{ status, questions int }{"a.io": {401, 1}, "b.io": {200, 0}} {
		for _, protocol := range []string{"h2", "http/1.1"} {
			client := httpsClient(t, g.ports[443], &tls.Config{ServerName: host, RootCAs: ca.Pool(), NextProtos: []string{protocol}})
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "h2"
			got, err := fetch(client, "https://"+host+"/app", host)
			if err != nil || got.Status != want.status || len(asked) != want.questions {
				t.Errorf("%s over %s: got %d after %d questions (%v), want %d after %d", host, protocol, got.Status, len(asked), err, want.status, want.questions)
			}
			for len(asked) > 0 {
				<-asked
			}
		}
	}
}

// TestPreRoutingCookies: the cookies of logins are for no question, and the cookies of its answer take the place of the
// client's.
func TestPreRoutingCookies(t *testing.T) {
	t.Parallel()
	world := strings.Replace(preRoutingWorld, "    - name: open\n", `    - name: login
      listeners: [open]
      rules: [{filters: [{type: OIDC, oidc: {issuer: "https://id.example.com", clientID: shop, secretRef: {name: login}}}], backendRefs: [{name: web, port: 80}]}]
    - name: open
`, 1)
	answers := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cookie", "checked=1") }
	g, web, asked := startPreRouting(t, world, answers, func(_ *render.Input, p *model.PreRouting) {
		p.RequestHeaders, p.ResponseHeaders = []string{"cookie"}, []string{"cookie"}
	})
	for _, cookies := range []string{"a=1", "a=1; __Host-gateway-session=secret"} {
		for _, headers := range []string{"", "X-Team: blue\r\n"} { // a rule without filters, and one with filters
			newClient(t, g.ports[80]).send("GET /app HTTP/1.1\r\nHost: x\r\n" + headers + "Cookie: " + cookies + "\r\n\r\n")
			if question := next(t, asked); !strings.Contains(question, "Cookie: a=1\r\n") {
				t.Errorf("%s: the Service is asked with %s", cookies, question)
			}
			if request := next(t, web); !strings.Contains(request, "Cookie: checked=1\r\n") || strings.Contains(request, "a=1") {
				t.Errorf("%s: the backend gets %s", cookies, request)
			}
		}
	}
}

// TestPreRoutingChanges: the first question takes a reload, and so does the last one that goes. All others are data. A
// change is rendered as if nothing had been rendered before.
func TestPreRoutingChanges(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, preRoutingWorld)
	in := w.Input(t)
	var compiler routing.Compiler
	compiler.Check = filters.Problem
	var renderer render.Renderer
	load := func(paths ...string) ir.Config {
		gateway := source.Translate(&appv1.Gateway{Spec: w.Spec})
		for i, path := range paths {
			if path != "" {
				asks := model.ExternalAuth{Backend: routing.Backend{Service: "first", Port: 80}, Path: path}
				gateway.Listeners[i].Filters = &model.Action{PreRouting: &model.PreRouting{ExternalAuth: asks}}
			}
		}
		in.Table, _ = compiler.Compile(gateway)
		got := renderer.Render(in)
		fresh := in
		fresh.Table, _ = routing.Compile(gateway, filters.Problem)
		if want := render.Render(fresh); !maps.EqualFunc(got.AllFiles(), want.AllFiles(), bytes.Equal) {
			t.Errorf("with the questions %q, what is rendered after others differs:\n%s\nwant\n%s", paths, got.AllFiles()[ir.HostsFile], want.AllFiles()[ir.HostsFile])
		}
		return got
	}
	running := load("", "")
	for _, test := range []struct {
		paths  []string
		reload bool
	}{
		{[]string{"/a", ""}, true}, {[]string{"/b", ""}, false}, {[]string{"/b", "/a"}, false}, {[]string{"", "/a"}, false}, {[]string{"", ""}, true},
	} {
		desired := load(test.paths...)
		if got := plan.Diff(desired, running).Reload; (got != "") != test.reload {
			t.Errorf("to the questions %q: got the reload %q, want one: %t", test.paths, got, test.reload)
		}
		running = desired
	}
}
