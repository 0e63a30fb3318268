package dataplanetest_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// errorPagesWorld has a way to each error of the proxy itself.
const errorPagesWorld = `
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: first, port: 443, protocol: HTTPS, hostname: first.example, tls: {certificateRefs: [{name: first}], hsts: {}}}
    - {name: second, port: 443, protocol: HTTPS, hostname: second.example, tls: {certificateRefs: [{name: second}]}}
  routes:
    - name: r
      hostnames: [x, first.example]
      rules:
        - {matches: [{path: {value: /web}}], backendRefs: [{name: web, port: 80}]}
        - {matches: [{path: {value: /broken}}], backendRefs: [{name: broken, port: 80}]}
        - {matches: [{path: {value: /empty}}], backendRefs: [{name: empty, port: 80}]}
        - {matches: [{path: {value: /missing}}], backendRefs: [{name: missing, port: 80}]}
        - {matches: [{path: {value: /late}}], backendRefs: [{name: late, port: 80}]}
        - {matches: [{path: {value: /waiting}}], timeouts: {request: 50ms}, backendRefs: [{name: web, port: 80}]}
        - {matches: [{path: {value: /small}}], maxRequestBytes: 10, backendRefs: [{name: web, port: 80}]}
        - {matches: [{path: {value: /slow}}], maxRequestBytes: 8000, backendRefs: [{name: slow, port: 80}]}
        - matches: [{path: {value: /denied}}]
          filters: [{type: ClientAddress, clientAddress: {allow: [192.0.2.0/24]}}, {type: CORS, cors: {allowOrigins: ["https://a.io"], exposeHeaders: [EXPOSED]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /limited}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /token}}]
          filters: [{type: JWT, jwt: {issuers: [{issuer: a, audiences: [b], keys: {inline: 'KEYS'}}], requiredScopes: [read]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /asked}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /unasked}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: empty, port: 80}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /closed}}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 503, body: closed}}]
  backends: [{name: slow, port: 80, connections: {maxPerEndpoint: 1}}]
certificates:
  first: [{secret: first, names: [first.example]}]
  second: [{secret: second, names: [second.example]}]
backends:
  - {service: empty, port: 80}
`

// pageStatuses are those that can have pages.
var pageStatuses = []int32{400, 401, 403, 404, 405, 408, 413, 421, 429, 500, 502, 503, 504}

// pagesWith returns a page for each status, with its number and a text.
func pagesWith(text string) map[int32]model.ErrorPage {
	pages := map[int32]model.ErrorPage{}
	for _, status := range pageStatuses {
		pages[status] = model.ErrorPage{ContentType: "text/html; charset=utf-8", Body: fmt.Sprint("<h1>", status, "</h1>", text)}
	}
	return pages
}

// startErrorPages runs HAProxy for errorPagesWorld, and returns the authority of its certificates.
func startErrorPages(t *testing.T, pages map[int32]model.ErrorPage) (*gateway, *certtest.Authority) {
	t.Helper()
	ca := certtest.NewAuthority(t)
	services := map[string]http.HandlerFunc{
		"web": func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/waiting":
				<-r.Context().Done()
			case r.URL.Query().Has("not-found"):
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, "of the backend")
			}
		},
		"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"slow":   readAll,
		"auth": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "of the Service")
		},
	}
	exposed := strings.Repeat("X-"+strings.Repeat("a", 70)+",", 42) // 3 KiB
	world := strings.NewReplacer("KEYS", keySet("ES256"), "EXPOSED", exposed).Replace(errorPagesWorld)
	g := startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
		in.Table.ErrorPages = pages
		in.Paths.CertificateDir = t.TempDir()
		for _, name := range []string{"first", "second"} {
			writeSecret(t, in.Paths, name, ca.Issue(t, []string{name + ".example"}))
		}
		serveAll(t, in, services)
	})
	return g, ca
}

// loadPages makes HAProxy load other pages, by the plan that the agent would follow.
func (g *gateway) loadPages(t *testing.T, pages map[int32]model.ErrorPage, edit func(config []byte) []byte) {
	t.Helper()
	running := render.Render(g.in)
	g.in.Table.ErrorPages = pages
	desired := render.Render(g.in)
	if p := plan.Diff(desired, running); edit == nil && p.Reload != ir.ReloadSettings {
		t.Errorf("other pages take %q", p.Reload)
	}
	files := desired.AllFiles()
	if edit != nil {
		files[ir.ConfigFile] = edit(files[ir.ConfigFile])
	}
	g.WriteFiles(files)
	g.reload(t)
}

// errorRequests lead to errors of the proxy itself, with the headers that their answers must have.
var errorRequests = map[string]struct {
	request string
	status  int
	headers map[string]string
}{
	"a malformed path":    {get("x", "/web/../a"), 400, nil},
	"a token":             {get("x", "/token"), 401, map[string]string{"WWW-Authenticate": "Bearer"}},
	"a bad token":         {with("/token", "Bearer a.b.c"), 401, map[string]string{"WWW-Authenticate": `Bearer error="invalid_token"`}},
	"a denied address":    {"GET /denied HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\n\r\n", 403, map[string]string{"Access-Control-Allow-Origin": "https://a.io"}},
	"no route":            {get("y", "/web"), 404, nil},
	"a method":            {"TRACE /web HTTP/1.1\r\nHost: x\r\n\r\n", 405, nil},
	"a long body":         {"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890", 413, nil},
	"a long chunked body": {"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nB\r\n01234567890\r\n0\r\n\r\n", 413, nil},
	"too many requests": {"GET /limited HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\n\r\n", 429, map[string]string{"Retry-After": "7200",
		"RateLimit-Policy": `"hour";q=1;w=3600`, "RateLimit": `"hour";r=0;t=3600`, "Access-Control-Allow-Origin": "https://a.io"}},
	"no Service":            {get("x", "/missing"), 500, nil},
	"a connection breaks":   {"POST /broken HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 502, nil},
	"no endpoint":           {get("x", "/empty"), 503, nil},
	"nobody decides":        {get("x", "/unasked"), 503, nil},
	"no answer in time":     {get("x", "/waiting"), 504, nil},
	"no endpoint, to HEAD":  {"HEAD /empty HTTP/1.1\r\nHost: x\r\n\r\n", 503, nil},
	"a denied address, too": {"HEAD /denied HTTP/1.1\r\nHost: x\r\n\r\n", 403, nil},
}

// TestErrorPages: every error of the proxy itself has the page of its status, and the headers that it has without.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	pages := pagesWith("")
	g, ca := startErrorPages(t, pages)
	if got := newClient(t, g.ports[80]).send(get("x", "/limited")); got.Status != 200 {
		t.Fatalf("got %d", got.Status)
	}
	seen := map[int32]bool{}
	check := func(name string, status int, header http.Header, body string, isHead bool) {
		t.Helper()
		page := pages[int32(status)]
		seen[int32(status)] = true
		if header.Get("Content-Type") != page.ContentType || header.Get("Cache-Control") != "no-store" ||
			header.Get("Content-Length") != fmt.Sprint(len(page.Body)) || (body != page.Body) != isHead {
			t.Errorf("%s: got %d, %v, %q", name, status, header, body)
		}
	}
	for name, test := range errorRequests {
		got := newClient(t, g.ports[80]).send(test.request)
		if got.Status != test.status {
			t.Errorf("%s: got %d, want %d", name, got.Status, test.status)
		}
		check(name, got.Status, got.Header, got.Body, strings.HasPrefix(test.request, "HEAD"))
		for header, want := range test.headers {
			if got.Header.Get(header) != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got.Header.Get(header), want)
			}
		}
	}
	client := httpsClient(t, g.ports[443], &tls.Config{ServerName: "first.example", RootCAs: ca.Pool()})
	for _, test := range []struct {
		path, host string
		status     int
		hsts       string
	}{{"/", "", 404, "max-age=31536000"}, {"/empty", "", 503, "max-age=31536000"}, {"/empty", "second.example", 421, ""}} {
		got, err := fetch(client, "https://first.example"+test.path, test.host)
		if err != nil || got.Status != test.status || got.Proto != "HTTP/2.0" || got.Header.Get("Strict-Transport-Security") != test.hsts {
			t.Fatalf("%s of %s: got %d by %s, %v (%v), want %d", test.path, test.host, got.Status, got.Proto, got.Header, err, test.status)
		}
		check(test.path+" by HTTP/2", got.Status, got.Header, got.Body, false)
	}
	// A body that does not come takes 10 s otherwise.
	g.loadPages(t, pages, func(config []byte) []byte {
		return bytes.ReplaceAll(config, []byte("wait-for-body time 10s"), []byte("wait-for-body time 50ms"))
	})
	got := newClient(t, g.ports[80]).send("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\na")
	check("a slow body", got.Status, got.Header, got.Body, false)
	for _, status := range pageStatuses {
		if !seen[status] {
			t.Errorf("there was no %d", status)
		}
	}
}

// TestErrorsOfOthersHaveNoPages.
func TestErrorsOfOthersHaveNoPages(t *testing.T) {
	t.Parallel()
	g, _ := startErrorPages(t, pagesWith(""))
	for name, test := range map[string]struct {
		request string
		status  int
		body    string
	}{
		"a backend":        {get("x", "/web?not-found"), 404, "of the backend"},
		"a Service":        {get("x", "/asked"), 403, "of the Service"},
		"a DirectResponse": {get("x", "/closed"), 503, "closed"},
		"HAProxy's parser": {"GET /a b c HTTP/1.1\r\nHost: x\r\n\r\n", 400, "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>\n"},
	} {
		if got := newClient(t, g.ports[80]).send(test.request); got.Status != test.status || got.Body != test.body {
			t.Errorf("%s: got %d %q", name, got.Status, got.Body)
		}
	}
}

// TestErrorPagesOfAnyBytes: what is in a page goes out as it is, up to the longest, also beside 3 KiB of headers.
func TestErrorPagesOfAnyBytes(t *testing.T) {
	t.Parallel()
	var hostile []byte
	for c := range 256 {
		hostile = append(hostile, byte(c))
	}
	hostile = append(hostile, "\r\n\r\nHTTP/1.1 200 OK\r\n\"'\\ ${HOME} %[env(HOME)] # {{ }} \nbackend evil\n    server a 127.0.0.1:1\n\x00"...)
	pages := map[int32]model.ErrorPage{
		403: {ContentType: `text/html;a="b' #${HOME}%[src]\`, Body: strings.Repeat("é", 6144)},
		404: {ContentType: "text/plain", Body: string(hostile)},
		429: {ContentType: "text/html", Body: strings.Repeat("\x00", 12288)},
		503: {ContentType: "image/svg+xml", Body: strings.Repeat("a", 12288)},
	}
	g, ca := startErrorPages(t, pages)
	for path, status := range map[string]int32{"/denied": 403, "/": 404, "/limited": 429, "/empty": 503, "/unasked": 503} {
		send := func() fetched {
			got := newClient(t, g.ports[80]).send("GET " + path + " HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\n\r\n")
			return fetched{Status: got.Status, Header: got.Header, Body: got.Body}
		}
		if path == "/limited" {
			send()
		}
		overTLS := must.Get(fetch(httpsClient(t, g.ports[443], &tls.Config{ServerName: "first.example", RootCAs: ca.Pool()}), "https://first.example"+path, ""))(t)
		for _, got := range []fetched{send(), overTLS} {
			if page := pages[status]; got.Status != int(status) || got.Body != page.Body || got.Header.Get("Content-Type") != page.ContentType {
				t.Errorf("%s: got %d, %v, %.300q", path, got.Status, got.Header, got.Body)
			}
		}
	}
}

// TestErrorPagesChange: no request is lost, and each gets the old page or the new one. Backends that are added while
// HAProxy runs have pages too.
func TestErrorPagesChange(t *testing.T) {
	t.Parallel()
	g, _ := startErrorPages(t, pagesWith("old"))
	running := render.Render(g.in)
	g.in.Backends = maps.Clone(g.in.Backends)
	g.in.Backends[routing.Backend{Service: "late", Port: 80}] = render.BackendState{Exists: true}
	g.change(t, plan.Diff(render.Render(g.in), running), func() {})
	if got := newClient(t, g.ports[80]).send(get("x", "/late")); got.Status != 503 || got.Body != "<h1>503</h1>old" {
		t.Errorf("a backend that was added: got %d %q", got.Status, got.Body)
	}
	pages := pagesWith("new")
	delete(pages, 404)
	var clients sync.WaitGroup
	for _, test := range []struct{ path, before, after string }{
		{"/empty", "<h1>503</h1>old", "<h1>503</h1>new"},
		{"/missing", "<h1>500</h1>old", "<h1>500</h1>new"},
		{"/denied", "<h1>403</h1>old", "<h1>403</h1>new"},
		{"/", "<h1>404</h1>old", "no route matches the request\n"},
	} {
		c := newClient(t, g.ports[80])
		clients.Go(func() {
			for sent := 0; ; sent++ {
				got, err := c.try(get("x", test.path))
				switch {
				case err != nil || got.Body != test.before && got.Body != test.after:
					t.Errorf("%s: request %d: got %d %q (%v)", test.path, sent, got.Status, got.Body, err)
					return
				case got.Body == test.after:
					return
				}
			}
		})
	}
	g.loadPages(t, pages, nil)
	clients.Wait()
	files := 0
	for name := range render.Render(g.in).Files {
		if strings.HasPrefix(name, "page-") {
			files++
		}
	}
	if files != len(pages) {
		t.Errorf("there are %d files for %d pages", files, len(pages))
	}
}
