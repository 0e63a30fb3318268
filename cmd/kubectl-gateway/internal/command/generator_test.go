package command_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
)

// generator makes random Gateways and requests out of few names, so that they often meet.
type generator struct {
	*rand.Rand
	port int32
}

var (
	hosts  = []string{"a.test", "b.test", "*.test", "*.b.test", ""}
	paths  = []string{"/", "/a", "/a/b", "/A", "/a%20b"}
	values = []string{"a", "b", "ab"}
)

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) spec() appv1.GatewaySpec {
	spec := appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "all", Port: g.port, Protocol: "HTTP"}}}
	if g.IntN(2) == 0 {
		spec.Listeners = append(spec.Listeners, appv1.Listener{Name: "b", Port: g.port, Protocol: "HTTP", Hostname: "*.b.test"})
	}
	for i := range 6 {
		route := appv1.Route{Name: appv1.Name(fmt.Sprintf("r%d", i))}
		if host := pick(g, hosts...); host != "" {
			route.Hostnames = []appv1.Hostname{appv1.Hostname(host)}
		}
		for range 1 + g.IntN(2) {
			route.Rules = append(route.Rules, g.rule())
		}
		spec.Routes = append(spec.Routes, route)
	}
	return spec
}

func (g *generator) rule() appv1.RouteRule {
	match := appv1.RouteMatch{Path: appv1.PathMatch{Type: pick[appv1.PathMatchType](g, "Exact", "PathPrefix"), Value: pick(g, paths...)}}
	if g.IntN(4) == 0 {
		match.Path = appv1.PathMatch{Type: "RegularExpression", Value: pick(g, "/a.*", "/[^/]+", "(?i)/a")}
	}
	if g.IntN(4) == 0 {
		match.Method = pick[appv1.HTTPMethod](g, "GET", "POST")
	}
	kind := pick[appv1.ValueMatchType](g, "Exact", "RegularExpression")
	if g.IntN(3) == 0 {
		match.Headers = []appv1.HeaderMatch{{Name: "X-Test", Type: kind, Value: pick(g, values...)}}
	}
	if g.IntN(3) == 0 {
		match.QueryParams = []appv1.QueryParamMatch{{Name: "q", Type: kind, Value: pick(g, values...)}}
	}
	rule := appv1.RouteRule{Matches: []appv1.RouteMatch{match}}
	switch g.IntN(8) {
	case 0: // no backend
	case 1:
		status := int32(301)
		rule.Filters = []appv1.RouteFilter{{Type: "RequestRedirect", RequestRedirect: &appv1.RequestRedirect{Scheme: "https", StatusCode: &status}}}
	default:
		rule.BackendRefs = []appv1.BackendRef{{Name: pick(g, services...), Port: 80}}
		if other := pick(g, services...); other != rule.BackendRefs[0].Name {
			rule.BackendRefs = append(rule.BackendRefs, appv1.BackendRef{Name: other, Port: 80})
		}
	}
	return rule
}

// request is a request, as explain is told of it and as it is sent.
type request struct{ method, url, host, path, header string }

func (g *generator) request() request {
	host := pick(g, "a.test", "b.test", "x.b.test", "X.test", "other", "a_b.test.")
	path := pick(g, append([]string{"/a/b/c", "/a//b", "/a/../b", "/%61", "/a%zz", "/ab"}, paths...)...)
	if g.IntN(2) == 0 {
		path += "?q=" + pick(g, "a", "b", "%61b", "c", "")
	}
	r := request{method: pick(g, "GET", "GET", "POST"), host: host, path: path}
	r.url = fmt.Sprintf("http://%s:%d%s", host, g.port, path)
	if g.IntN(2) == 0 {
		r.header = "X-Test: " + pick(g, "a", "b", "ab", "B")
	}
	return r
}

func (r request) args() []string {
	args := []string{"-X", r.method, r.url}
	if r.header != "" {
		args = append(args, "-H", r.header)
	}
	return args
}

// send sends the request byte by byte as it is, and returns the answer's status and body.
func (r request) send(t *testing.T, port int32) (int, string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	header := r.header
	if header != "" {
		header += "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s:%d\r\nContent-Length: 0\r\nConnection: close\r\n%s\r\n", r.method, r.path, r.host, port, header); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	return answer.StatusCode, string(body)
}
