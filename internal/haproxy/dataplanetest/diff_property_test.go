package dataplanetest_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// ruleParts are rules with something of every kind that lines of the skeleton are for, to be filled with a path.
var ruleParts = []string{
	`{matches: [{path: {value: %s}}], backendRefs: [{name: one, port: 80}]}`,
	`{matches: [{path: {value: %s}, headers: [{name: X-A, value: one}]}], backendRefs: [{name: two, port: 80}]}`,
	`{matches: [{path: {value: %s}, queryParams: [{name: q, type: RegularExpression, value: "o.*"}], method: GET}], backendRefs: [{name: two, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: set}], add: [{name: X-B, value: added}]}}], backendRefs: [{name: one, port: 80}]}`,
	`{matches: [{path: {value: %s}}], backendRefs: [{name: two, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-D, value: d}]}}]}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [X-A, X-B]}}], maxRequestBytes: 5, backendRefs: [{name: one, port: 80}, {name: one, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-C, value: c}]}}], timeouts: {request: 5s}, backendRefs: [{name: one, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 308, path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: RequestRedirect, requestRedirect: {hostname: example.org, port: 8080}}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: URLRewrite, urlRewrite: {hostname: inner, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], backendRefs: [{name: one, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /full}}}], backendRefs: [{name: two, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: DirectResponse, directResponse: {statusCode: 418, body: short}}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: DirectResponse, directResponse: {statusCode: 204}}, {type: CORS, cors: {allowOrigins: ["https://a.io"], allowCredentials: true, allowMethods: ["*"]}}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: CORS, cors: {allowOrigins: ["*"], exposeHeaders: [X-C]}}], backendRefs: [{name: one, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: CORS, cors: {allowOrigins: ["https://*.io"]}}], retry: {codes: [503]}, backendRefs: [{name: two, port: 80}]}`,
	`{matches: [{path: {type: RegularExpression, value: "%s.*"}}], retry: {attempts: 1}, backendRefs: [{name: two, port: 80}]}`,
	`{matches: [{path: {type: Exact, value: %s}, method: POST}, {path: {value: /a}, headers: [{name: X-B, value: b}]}], backendRefs: [{name: missing, port: 80}]}`,
	`{matches: [{path: {value: %s}}], sessionPersistence: {}, backendRefs: [{name: one, port: 80, weight: 0}, {name: two, port: 80}]}`,
	`{matches: [{path: {value: %s}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Cookie, value: x=y}]}}], sessionPersistence: {}, backendRefs: [{name: two, port: 80}]}`,
}

var (
	partPaths = []string{"/", "/a", "/a/b", "/c"}
	partHosts = []string{"", "a.io", "*.io", "*.b.io"}
)

// partsWorld returns a world of rules; each is a part, a path and a hostname.
func partsWorld(t testing.TB, rules [][3]int) rendertest.World {
	t.Helper()
	var routes strings.Builder
	for i, rule := range rules {
		fmt.Fprintf(&routes, "    - name: r%d\n", i)
		if host := partHosts[rule[2]]; host != "" {
			fmt.Fprintf(&routes, "      hostnames: [\"%s\"]\n", host)
		}
		fmt.Fprintf(&routes, "      rules: ["+ruleParts[rule[0]]+"]\n", partPaths[rule[1]])
	}
	return rendertest.Parse(t, "generation: 1\nspec:\n  listeners: [{name: http, port: 80, protocol: HTTP}]\n  routes:\n"+routes.String()+`
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
`)
}

// TestDiffProperty: a HAProxy that gets a configuration by runtime commands answers like one that is started on it,
// whatever the former has lines for beside.
func TestDiffProperty(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	// Every part with every path, each under a hostname of its own, or they would hide each other.
	var all [][3]int
	for part := range ruleParts {
		for path := range partPaths {
			all = append(all, [3]int{part, path, 0})
		}
	}
	universe := partsWorld(t, all)
	for i := range universe.Spec.Routes {
		universe.Spec.Routes[i].Hostnames = []appv1.Hostname{appv1.Hostname(fmt.Sprintf("u%d.io", i)), "*.io", "*.b.io"}
	}
	old := startGateway(t, universe)
	running := render.Render(old.in)
	for range 25 {
		var rules [][3]int
		for range 1 + g.IntN(8) {
			rules = append(rules, [3]int{g.IntN(len(ruleParts)), g.IntN(len(partPaths)), g.IntN(len(partHosts))})
		}
		w := partsWorld(t, rules)
		fresh := startGatewayWith(t, w, func(in *render.Input) { in.Backends = old.in.Backends })
		in := old.in
		w.Spec.Listeners = []appv1.Listener{{Name: "http", Port: old.ports[80], Protocol: appv1.ProtocolHTTP}}
		in.Table, _ = routingtest.Compile(&w.Spec)
		change := plan.Diff(render.Render(in), running)
		if change.Reload != "" {
			t.Fatalf("rules %v: a reload is wanted: %s", rules, change.Reload)
		}
		old.change(t, change, func() {})
		running = change.After
		for _, request := range partRequests() {
			got, want := whatHappens(t, old, request), whatHappens(t, fresh, request)
			if got != want {
				t.Fatalf("rules %v, request %q: by runtime commands\n%s\nfrom the start\n%s", rules, request, got, want)
			}
		}
		fresh.Stop()
	}
}

// partRequests are requests that the rules of parts tell apart.
func partRequests() []string {
	var requests []string
	cookie := (&routing.Affinity{Name: "gateway-session"}).Cookie(routing.Backend{Service: "one", Port: 80})
	for _, host := range []string{"a.io", "x.io", "x.b.io", "other"} {
		for _, path := range []string{"/", "/a", "/a/b/c?q=one", "/c?q=two"} {
			for _, rest := range []string{"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", "GET %s HTTP/1.1\r\nHost: %s\r\nX-A: one\r\nX-B: b\r\nOrigin: https://a.io\r\n\r\n",
				"OPTIONS %s HTTP/1.1\r\nHost: %s\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: PUT\r\n\r\n",
				"GET %s HTTP/1.1\r\nHost: %s\r\nX-B: b\r\nCookie: a=b; " + cookie + "=1\r\n\r\n",
				"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 6\r\n\r\nabcdef"} {
				requests = append(requests, fmt.Sprintf(rest, path, host))
			}
		}
	}
	return requests
}

var requestID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// whatHappens returns the answer to a request as one text, without the port and the ID.
func whatHappens(t testing.TB, g *gateway, request string) string {
	t.Helper()
	got := newClient(t, g.ports[80]).send(request)
	var b strings.Builder
	fmt.Fprintln(&b, got.Status)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range got.Header {
			if name != "Date" && !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintln(&b, name, got.Header[http.CanonicalHeaderKey(name)])
	}
	b.WriteString(got.Body)
	// An ID may have the digits of the port.
	text := requestID.ReplaceAllString(b.String(), "ID")
	return strings.ReplaceAll(text, strconv.Itoa(int(g.ports[80])), "PORT")
}
