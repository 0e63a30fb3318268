package dataplanetest_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
)

const filtersWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: headers
      rules:
        - matches: [{path: {value: /request}}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: 'a "b" 100% | #{c} \ ~?+$x'}], add: [{name: X-Add, value: two}], remove: [X-Remove, Cookie]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /response}}]
          filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: Backend, value: replaced}], add: [{name: X-Add, value: added}], remove: [Date]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /both}}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: rule}], add: [{name: X-B, value: rule}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-Add, value: rule}]}}]
          backendRefs: [{name: one, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: X-A, value: ref}, {name: X-B, value: ref}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-Add, value: ref}]}}]}]
        - matches: [{path: {value: /one}}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: one}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-Add, value: one}]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /split}}]
          backendRefs:
            - {name: one, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Ref, value: one}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Ref, value: one}]}}]}
            - {name: two, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Ref, value: two}]}}]}
    - name: redirects
      hostnames: [r.example.com]
      rules:
        - matches: [{path: {value: /scheme}}]
          filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]
        - matches: [{path: {value: /port}}]
          filters: [{type: RequestRedirect, requestRedirect: {port: 8080, statusCode: 301}}]
        - matches: [{path: {value: /schemeport}}]
          filters: [{type: RequestRedirect, requestRedirect: {scheme: https, port: 443, hostname: example.org, statusCode: 303}}]
        - matches: [{path: {value: /full}}]
          filters: [{type: RequestRedirect, requestRedirect: {scheme: http, statusCode: 307, path: {type: ReplaceFullPath, replaceFullPath: "/a%20b/%C3%A4"}}}]
        - matches: [{path: {value: /prefix/it/}}]
          filters: [{type: RequestRedirect, requestRedirect: {scheme: http, statusCode: 308, path: {type: ReplacePrefixMatch, replacePrefixMatch: /x/}}}]
    - name: rewrites
      hostnames: [w.example.com]
      rules:
        - matches: [{path: {value: /full}}]
          filters: [{type: URLRewrite, urlRewrite: {hostname: other.example.com, path: {type: ReplaceFullPath, replaceFullPath: "/a%20b"}}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /foo}}]
          filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /xyz}}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /drop/}}]
          filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /ref/one}}]
          filters: [{type: URLRewrite, urlRewrite: {hostname: rule.example.com, path: {type: ReplaceFullPath, replaceFullPath: /rule}}}]
          backendRefs: [{name: one, port: 80, filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /of}}}]}]
        - matches: [{path: {value: /ref/host}}]
          filters: [{type: URLRewrite, urlRewrite: {hostname: rule.example.com, path: {type: ReplacePrefixMatch, replacePrefixMatch: /rule}}}]
          backendRefs: [{name: one, port: 80, filters: [{type: URLRewrite, urlRewrite: {hostname: ref.example.com}}]}]
        - filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /under}}}]
          matches: [{path: {value: /}}]
          backendRefs: [{name: one, port: 80}]
    - name: responses
      hostnames: [d.example.com]
      rules:
        - matches: [{path: {value: /text}}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 418, body: "a \"b\" \\ #{c} %[src] ${HOME}\r\n\tä\n", contentType: "text/html; charset=utf-8"}}]
        - matches: [{path: {value: /empty}}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 204}}]
        - matches: [{path: {value: /status}}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 404}}]
        - matches: [{path: {value: /default}}]
          filters: [{type: DirectResponse, directResponse: {body: hello}}]
        - matches: [{path: {value: /headers}}]
          filters: [{type: DirectResponse, directResponse: {statusCode: 503, headers: [{name: Retry-After, value: "3600"}, {name: X.Odd_1, value: "a \"b\" 100% %[src] | #{c} \\ ~?+$x"}]}}]
    - name: splits
      hostnames: [s.example.com]
      rules:
        - filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Rule, value: rule}]}}]
          maxRequestBytes: 0
          backendRefs: [{name: one, port: 80}, {name: two, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Ref, value: two}]}}, {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /two}}}]}]
    - name: bodies
      hostnames: [b.example.com]
      rules:
        - {maxRequestBytes: 10, backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {value: /none}}], maxRequestBytes: 0, backendRefs: [{name: one, port: 80}]}
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
`

// TestHeaderFilters checks what arrives on both sides.
func TestHeaderFilters(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, strings.ReplaceAll(filtersWorld, "é", "")))
	c := newClient(t, g.ports[80])
	got := c.send("GET /request HTTP/1.1\r\nHost: x\r\nX-Set: old\r\nx-set: older\r\nX-Add: one\r\nX-Remove: a\r\nx-REMOVE: b\r\nCookie: c=d\r\n\r\n")
	for _, want := range []string{"X-Set: a \"b\" 100% | #{c} \\ ~?+$x\r\n", "X-Add: one\r\nX-Add: two\r\n"} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("the backend did not get %q:\n%s", want, got.Body)
		}
	}
	for _, gone := range []string{"old", "X-Remove", "Cookie"} {
		if strings.Contains(got.Body, gone) {
			t.Errorf("the backend got %q:\n%s", gone, got.Body)
		}
	}
	got = c.send(get("x", "/response"))
	if !slices.Equal(got.Header["Backend"], []string{"replaced"}) || got.Header.Get("X-Add") != "added" || got.Header.Get("Date") != "" {
		t.Errorf("the client got %v", got.Header)
	}
	got = c.send("GET /both HTTP/1.1\r\nHost: x\r\nX-A: client\r\nX-B: client\r\n\r\n")
	if want := "X-A: rule\r\nX-A: ref\r\nX-B: client\r\nX-B: rule\r\nX-B: ref\r\n"; !strings.Contains(got.Body, want) {
		t.Errorf("the backend got\n%s\nwant\n%s", got.Body, want)
	}
	if !slices.Equal(got.Header["X-Add"], []string{"rule", "ref"}) {
		t.Errorf("the client got %v", got.Header)
	}
	seen := map[string]bool{}
	for range 100 {
		got := c.send(get("x", "/split"))
		_, ref, _ := strings.Cut(got.Body, "X-Ref: ")
		ref, _, _ = strings.Cut(ref, "\r\n")
		seen[fmt.Sprint(got.Header.Get("Backend"), " ", ref, " ", got.Header.Get("X-Ref"))] = true
	}
	if len(seen) != 2 || !seen["one one one"] || !seen["two two "] {
		t.Errorf("the filters of backendRefs did %v", seen)
	}
}

// TestHeadersOfAllLengths: what is set arrives byte by byte, and takes the place of all that a client sends.
func TestHeadersOfAllLengths(t *testing.T) {
	t.Parallel()
	printable := ""
	for c := ' ' + 1; c < 0x7f; c++ {
		printable += string(c)
	}
	values := map[string]string{"x-none": "", "x-all": printable}
	for _, length := range []int{1, 239, 240, 255, 256, 1000, 2287, 2288} {
		values[fmt.Sprintf("x-%d", length)] = strings.Repeat("a", length)
	}
	var changes []routing.HeaderChange
	for name, value := range values {
		changes = append(changes, routing.HeaderChange{Name: name, Clear: true, Values: []string{"", value}})
	}
	g := startGatewayWith(t, rendertest.Parse(t, filtersWorld), func(in *render.Input) {
		in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
			action := *rule.Action // other rules have it, too
			if action.Headers = (routing.HeaderChanges{Request: changes}); rule.Index == 1 {
				action.Headers = routing.HeaderChanges{Response: changes}
			}
			rule.Action = &action
		})
	})
	c := newClient(t, g.ports[80])
	got := c.send("GET /one HTTP/1.1\r\nHost: x\r\nX-All: old\r\nx-ALL: older\r\nX-Other: kept\r\n\r\n")
	if got.Status != 200 || strings.Contains(got.Body, "old") || !strings.Contains(got.Body, "X-Other: kept\r\n") {
		t.Fatalf("got %d, and the backend got\n%s", got.Status, got.Body)
	}
	answer := c.send(get("x", "/response"))
	for name, value := range values {
		name = http.CanonicalHeaderKey(name)
		if want := name + ": \r\n" + name + ": " + value + "\r\n"; !strings.Contains(got.Body, want) {
			t.Errorf("%s: the backend got\n%s", name, got.Body)
		}
		if !slices.Equal(answer.Header[name], []string{"", value}) {
			t.Errorf("%s: the client got %q", name, answer.Header[name])
		}
	}
}

// TestFiltersOfASplit: what a rule does is done for every one of its backends.
func TestFiltersOfASplit(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, filtersWorld))
	c, seen := newClient(t, g.ports[80]), map[string]bool{}
	for range 100 {
		got := c.send(get("s.example.com", "/"))
		seen[fmt.Sprintf("%s %v %v", got.Header.Get("Backend"), strings.Contains(got.Body, "X-Rule: rule\r\n"), strings.Contains(got.Body, "X-Ref: two\r\n") && strings.HasPrefix(got.Body, "GET /two/\n"))] = true
		if got := c.send("POST / HTTP/1.1\r\nHost: s.example.com\r\nContent-Length: 1\r\n\r\na"); got.Status != 413 {
			t.Fatalf("a body that is too long: got %d", got.Status)
		}
	}
	if len(seen) != 2 || !seen["one true false"] || !seen["two true true"] {
		t.Errorf("the backends got %v", seen)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, filtersWorld))
	tests := map[string]struct {
		path, host string
		status     int
		location   string
	}{
		"a scheme, with its own port":            {"/scheme/a?b=c&d=%20", "R.example.com:1234", 302, "https://r.example.com/scheme/a?b=c&d=%20"},
		"a port, with the listener's scheme":     {"/port", "r.example.com", 301, "http://r.example.com:8080/port"},
		"a scheme and the port that is its own":  {"/schemeport", "r.example.com", 303, "https://example.org/schemeport"},
		"another path":                           {"/full/x?q", "r.example.com", 307, "http://r.example.com/a%20b/%C3%A4?q"},
		"another prefix":                         {"/prefix/it/a/b", "r.example.com", 308, "http://r.example.com/x/a/b"},
		"another prefix for the prefix alone":    {"/prefix/it", "r.example.com", 308, "http://r.example.com/x"},
		"what follows the prefix stays":          {"/prefix/it/a%2fb//%41", "r.example.com", 308, "http://r.example.com/x/a%2fb//%41"},
		"a path that is compared in another way": {"//prefix/%69t/a%2Fb//%20", "r.example.com", 308, "http://r.example.com/x/a/b/%20"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newClient(t, g.ports[80]).send(get(test.host, test.path))
			if got.Status != test.status || got.Header.Get("Location") != test.location {
				t.Errorf("got %d to %q, want %d to %q", got.Status, got.Header.Get("Location"), test.status, test.location)
			}
		})
	}
}

// TestRedirectsWithoutHost: there is nowhere to redirect to.
func TestRedirectsWithoutHost(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: moved, port: 81, protocol: HTTP, httpsRedirect: {}}]
  routes: [{name: moved, listeners: [http], rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]}]
`))
	for _, port := range []int32{80, 81} {
		for _, request := range []string{"GET / HTTP/1.0\r\n\r\n", get("", "/"), get(":80", "/")} {
			if got := newClient(t, g.ports[port]).send(request); got.Status != 400 || got.Body != "the request is malformed\n" {
				t.Errorf("%q to port %d: got %d %q to %q", request, port, got.Status, got.Body, got.Header.Get("Location"))
			}
		}
	}
}

// TestRedirectsBehindAProxy: what is not given is what the client asked for, if a trusted proxy says what that is, and
// nobody else.
func TestRedirectsBehindAProxy(t *testing.T) {
	t.Parallel()
	const asItCame = "http://r.example.com:PORT/b?q https://r.example.com/ http://r.example.com:8080/"
	tests := map[string]string{
		"":                             asItCame,
		"X-Forwarded-Proto: https\r\n": "https://r.example.com/b?q https://r.example.com/ https://r.example.com:8080/",
		"X-Forwarded-Proto: HTTPS\r\nX-Forwarded-Port: 8443\r\n":  "https://r.example.com:8443/b?q https://r.example.com/ https://r.example.com:8080/",
		"X-Forwarded-Proto: http\r\nX-Forwarded-Port: 80\r\n":     "http://r.example.com/b?q https://r.example.com/ http://r.example.com:8080/",
		"X-Forwarded-Proto: gopher\r\nX-Forwarded-Port: 70/x\r\n": asItCame,
	}
	for _, trusted := range []string{"127.0.0.0/8", "10.0.0.0/8"} {
		g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  trustedProxies: [`+trusted+`]
  routes:
    - name: redirects
      rules:
        - {matches: [{path: {value: /path}}], filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /b}}}]}
        - {matches: [{path: {value: /scheme}}], filters: [{type: RequestRedirect, requestRedirect: {scheme: https, path: {type: ReplaceFullPath, replaceFullPath: /}}}]}
        - {matches: [{path: {value: /port}}], filters: [{type: RequestRedirect, requestRedirect: {port: 8080, path: {type: ReplaceFullPath, replaceFullPath: /}}}]}
`))
		c := newClient(t, g.ports[80])
		for said, want := range tests {
			if trusted == "10.0.0.0/8" {
				want = asItCame
			}
			var locations []string
			for _, path := range []string{"/path?q", "/scheme", "/port"} {
				locations = append(locations, c.send("GET "+path+" HTTP/1.1\r\nHost: r.example.com\r\n"+said+"\r\n").Header.Get("Location"))
			}
			if got := strings.ReplaceAll(strings.Join(locations, " "), fmt.Sprint(g.ports[80]), "PORT"); got != want {
				t.Errorf("%q, with %s trusted: got %s, want %s", said, trusted, got, want)
			}
		}
	}
}

func TestDirectResponses(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, filtersWorld))
	c := newClient(t, g.ports[80])
	if got := c.send(get("d.example.com", "/text")); got.Status != 418 || got.Body != "a \"b\" \\ #{c} %[src] ${HOME}\r\n\tä\n" || got.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("got %d %q %q", got.Status, got.Header.Get("Content-Type"), got.Body)
	}
	if got := c.send(get("d.example.com", "/empty")); got.Status != 204 || got.Body != "" {
		t.Errorf("got %d %q", got.Status, got.Body)
	}
	if got := c.send(get("d.example.com", "/status")); got.Status != 404 || got.Body != "" || len(got.Header["Content-Type"]) != 0 {
		t.Errorf("got %d %q %q", got.Status, got.Header["Content-Type"], got.Body)
	}
	got := c.send(get("d.example.com", "/headers"))
	if odd := got.Header.Get("X.Odd_1"); got.Status != 503 || got.Header.Get("Retry-After") != "3600" || odd != `a "b" 100% %[src] | #{c} \ ~?+$x` {
		t.Errorf("got %d with %q", got.Status, got.Header)
	}
	if got := c.send(get("d.example.com", "/default")); got.Status != 200 || got.Body != "hello" || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %d %q %q", got.Status, got.Header.Get("Content-Type"), got.Body)
	}
}

func TestRequestSize(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, filtersWorld))
	for request, want := range map[string]int{
		"POST / HTTP/1.1\r\nHost: b.example.com\r\nContent-Length: 10\r\n\r\n0123456789":                                            200,
		"POST / HTTP/1.1\r\nHost: b.example.com\r\nContent-Length: 11\r\n\r\n0123456789a":                                           413,
		"POST / HTTP/1.1\r\nHost: b.example.com\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n":                           200,
		"POST / HTTP/1.1\r\nHost: b.example.com\r\nContent-Length: 0\r\n\r\n":                                                       200,
		"GET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n":                                                                             200,
		"POST /none HTTP/1.1\r\nHost: b.example.com\r\nContent-Length: 1\r\n\r\na":                                                  413,
		"GET /none HTTP/1.1\r\nHost: b.example.com\r\n\r\n":                                                                         200,
		"POST / HTTP/1.1\r\nHost: b.example.com\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n":                 413,
		"POST / HTTP/1.1\r\nHost: b.example.com\r\nConnection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
		"POST /request HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n":                      200,
	} {
		if got := newClient(t, g.ports[80]).send(request); got.Status != want {
			t.Errorf("%q: got %d, want %d", request, got.Status, want)
		}
	}
}

// TestRequestSizeOverHTTP2: a request may have a body of unknown length without a header that says so.
func TestRequestSizeOverHTTP2(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, filtersWorld))
	for length, want := range map[int64]int{-1: 413, 10: 200, 11: 413} {
		body := strings.Repeat("a", int(max(length, 1000)))
		if length > 0 {
			body = body[:length]
		}
		request := must.Get(http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), io.NopCloser(strings.NewReader(body))))(t)
		request.Host, request.ContentLength = "b.example.com", length
		response, err := http2Client(t).Do(request)
		must.Do(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a body of length %d: got %d, want %d", length, response.StatusCode, want)
		}
	}
}

// TestTextsThatLookLikeSteps: the value of one field of a program is not taken for another.
func TestTextsThatLookLikeSteps(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: r
      rules:
        - matches: [{path: {value: /rewrite}}]
          filters: [{type: URLRewrite, urlRewrite: {hostname: q-cookie}}, {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: "|#q-cookie|#q+cookie.0=evil|"}]}}]
          backendRefs: [{name: one, port: 80}]
        - filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Cookie, value: other}]}}]
          backendRefs: [{name: one, port: 80}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`))
	got := newClient(t, g.ports[80]).send("GET /rewrite HTTP/1.1\r\nHost: x\r\nCookie: mine\r\n\r\n")
	if want := "Cookie: mine\r\n"; !strings.Contains(got.Body, want) || strings.Count(got.Body, "Cookie") != 1 || !strings.Contains(got.Body, "X-A: |#q-cookie|#q+cookie.0=evil|\r\n") {
		t.Errorf("the backend got\n%s", got.Body)
	}
}

const corsWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: cors
      rules:
        - matches: [{path: {value: /listed}}]
          filters: [{type: CORS, cors: {allowOrigins: ["https://*.example.com", "http://localhost:3000"], allowCredentials: true, allowMethods: [PUT, DELETE], allowHeaders: [X-A, X-B], exposeHeaders: [X-C, X-D], maxAge: 60}}]
          backendRefs: [{name: one, port: 80}]
        - {matches: [{path: {value: /whoever}}], filters: [{type: CORS, cors: {allowOrigins: ["*"], allowCredentials: true}}], backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {value: /any}}], filters: [{type: CORS, cors: {allowOrigins: ["*"], allowMethods: ["*"]}}], backendRefs: [{name: one, port: 80}]}
        - matches: [{path: {value: /all}}]
          filters: [{type: CORS, cors: {allowOrigins: ["https://a.com"], allowCredentials: true, allowMethods: ["*"], allowHeaders: ["*"]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /several}}]
          filters: [{type: CORS, cors: {allowOrigins: ["https://a.com"], allowCredentials: true, allowMethods: [GET, "*"], allowHeaders: [X-A, "*"], exposeHeaders: ["*", X-B]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /ports}}]
          filters: [{type: CORS, cors: {allowOrigins: ["https://a.com:443", "http://b.com", "https://*.c.com:443", "http://d.com:443"], exposeHeaders: [X-A, "*"]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /limited}}]
          filters: [{type: CORS, cors: {allowOrigins: ["https://a.com"]}}]
          maxRequestBytes: 10
          backendRefs: [{name: one, port: 80}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`

func TestCORS(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, corsWorld))
	const preflight = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: X-Z\r\n"
	const none = "allow-origin= credentials= methods= headers= max-age= expose="
	tests := map[string]struct {
		method, path, headers string
		status                int
		want                  string
	}{
		"a preflight request of a listed origin": {"OPTIONS", "/listed", "Origin: http://localhost:3000\r\n" + preflight, 204,
			"allow-origin=http://localhost:3000 credentials=true methods=PUT, DELETE headers=X-A, X-B max-age=60 expose=X-C, X-D"},
		"a request of a listed origin": {"PUT", "/listed", "Origin: http://localhost:3000\r\n", 200,
			"allow-origin=http://localhost:3000 credentials=true methods= headers= max-age= expose=X-C, X-D"},
		"a name below a wildcard": {"GET", "/listed", "Origin: https://a.b.example.com\r\n", 200,
			"allow-origin=https://a.b.example.com credentials=true methods= headers= max-age= expose=X-C, X-D"},
		"the wildcard's suffix itself":          {"GET", "/listed", "Origin: https://example.com\r\n", 200, none},
		"a name that ends like it":              {"GET", "/listed", "Origin: https://evilexample.com\r\n", 200, none},
		"a name that goes on after it":          {"GET", "/listed", "Origin: https://a.example.com.evil.org\r\n", 200, none},
		"another scheme":                        {"GET", "/listed", "Origin: http://a.example.com\r\n", 200, none},
		"another port":                          {"GET", "/listed", "Origin: https://a.example.com:8443\r\n", 200, none},
		"two origins":                           {"GET", "/listed", "Origin: http://localhost:3000\r\nOrigin: https://evil.org\r\n", 200, none},
		"no origin":                             {"GET", "/listed", "", 200, none},
		"a preflight request of another origin": {"OPTIONS", "/listed", "Origin: https://evil.org\r\n" + preflight, 204, none},
		"OPTIONS that is no preflight request":  {"OPTIONS", "/listed", "Origin: http://localhost:3000\r\n", 200, "allow-origin=http://localhost:3000 credentials=true methods= headers= max-age= expose=X-C, X-D"},
		"any origin":                            {"OPTIONS", "/any", "Origin: null\r\n" + preflight, 204, "allow-origin=* credentials= methods=* headers= max-age=5 expose="},
		"any origin, and none is named":         {"GET", "/any", "", 200, "allow-origin=* credentials= methods= headers= max-age= expose="},
		"any origin, with cookies":              {"GET", "/whoever", "Origin: https://a.com\r\n", 200, "allow-origin=https://a.com credentials=true methods= headers= max-age= expose="},
		"no origin, with cookies":               {"GET", "/whoever", "", 200, none},
		"all methods and headers, with cookies": {"OPTIONS", "/all", "Origin: https://a.com\r\n" + preflight, 204, "allow-origin=https://a.com credentials=true methods=PUT headers=X-Z max-age=5 expose="},
		"all methods and headers, which are not asked for": {"OPTIONS", "/all", "Origin: https://a.com\r\nAccess-Control-Request-Method: PUT\r\n", 204,
			"allow-origin=https://a.com credentials=true methods=PUT headers= max-age=5 expose="},
		"all and others, with cookies": {"OPTIONS", "/several", "Origin: https://a.com\r\n" + preflight, 204,
			"allow-origin=https://a.com credentials=true methods=PUT headers=X-Z max-age=5 expose=X-B"},
		"the default port is left out":              {"GET", "/ports", "Origin: https://a.com\r\n", 200, "allow-origin=https://a.com credentials= methods= headers= max-age= expose=*"},
		"the default port is named":                 {"GET", "/ports", "Origin: https://a.com:443\r\n", 200, "allow-origin=https://a.com:443 credentials= methods= headers= max-age= expose=*"},
		"the default port is named by a client":     {"GET", "/ports", "Origin: http://b.com:80\r\n", 200, "allow-origin=http://b.com:80 credentials= methods= headers= max-age= expose=*"},
		"the default port of a wildcard":            {"GET", "/ports", "Origin: https://a.c.com\r\n", 200, "allow-origin=https://a.c.com credentials= methods= headers= max-age= expose=*"},
		"the default port of another scheme":        {"GET", "/ports", "Origin: http://b.com:443\r\n", 200, none},
		"the default port of another, not named":    {"GET", "/ports", "Origin: http://d.com\r\n", 200, none},
		"a port that is no default, as in the list": {"GET", "/ports", "Origin: http://d.com:443\r\n", 200, "allow-origin=http://d.com:443 credentials= methods= headers= max-age= expose=*"},
		"a port that begins like the default":       {"GET", "/ports", "Origin: https://a.com:4430\r\n", 200, none},
		"a body that is too long":                   {"PUT", "/limited", "Origin: https://a.com\r\nContent-Length: 11\r\n", 413, "allow-origin=https://a.com credentials= methods= headers= max-age= expose="},
		"a body of unknown length":                  {"PUT", "/limited", "Origin: https://a.com\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n", 413, "allow-origin=https://a.com credentials= methods= headers= max-age= expose="},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newClient(t, g.ports[80]).send(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n", test.method, test.path, test.headers))
			if said := corsHeaders(got.Header); got.Status != test.status || said != test.want {
				t.Errorf("got %d %q, want %d %q", got.Status, said, test.status, test.want)
			}
			if vary := got.Header.Get("Vary"); (vary == "Origin") != (test.path != "/any") {
				t.Errorf("Vary is %q", vary)
			}
		})
	}
}

func corsHeaders(header http.Header) string {
	value := func(name string) string { return header.Get("Access-Control-" + name) }
	return fmt.Sprintf("allow-origin=%s credentials=%s methods=%s headers=%s max-age=%s expose=%s", value("Allow-Origin"), value("Allow-Credentials"),
		value("Allow-Methods"), value("Allow-Headers"), value("Max-Age"), value("Expose-Headers"))
}

// TestMissingFilters: a request whose rule has filters is not let through without them.
func TestMissingFilters(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, strings.ReplaceAll(filtersWorld, "é", "")))
	c := newClient(t, g.ports[80])
	if got := c.send(get("x", "/response")); got.Status != 200 {
		t.Fatalf("got %d", got.Status)
	}
	g.Worker("clear map " + g.in.Paths.Map(ir.FiltersFile))
	if got := c.send(get("x", "/response")); got.Status != 500 {
		t.Errorf("got %d, want 500", got.Status)
	}
}
