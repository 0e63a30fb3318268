package dataplanetest_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
)

const requestIDWorld = `
generation: 1
spec:
  trustedProxies: [%s]
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: web, rules: [{backendRefs: [{name: web, port: 80}]}]}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`

// TestRequestIDs: the backend and the access log get the same ID for each request. It is a trusted proxy's ID if it
// has the right form, or else a new one.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	isNew := regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
	for trusted, given := range map[string]map[string]bool{
		"192.0.2.0/24": {"": false, "X-Request-Id: abc": false},
		"127.0.0.0/8":  {"": false, "X-Request-Id: a.B-1=": true, "X-Request-Id: a b": false, `X-Request-Id: "`: false, "X-Request-Id: " + strings.Repeat("a", 129): false},
	} {
		got := make(chan string, 1)
		g := startGatewayWith(t, rendertest.Parse(t, strings.Replace(requestIDWorld, "%s", trusted, 1)), func(in *render.Input) {
			in.Backends[routing.Backend{Service: "web", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{
				serve(t, func(_ http.ResponseWriter, r *http.Request) {
					got <- strings.Join(r.Header.Values("X-Request-Id"), ", ")
				}, nil),
			}}
		})
		count := 0
		for header, isKept := range given {
			newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\n" + strings.TrimPrefix(header+"\r\n", "\r\n") + "\r\n")
			count++
			id := <-got
			if isKept && "X-Request-Id: "+id != header || !isKept && !isNew.MatchString(id) {
				t.Errorf("trusting %s: the backend of a request with %q gets the ID %q", trusted, header, id)
			}
			if line := g.accessLog(t, count)[count-1]; !strings.Contains(line, `"requestId":"`+id+`"`) {
				t.Errorf("the backend gets the ID %q, and the log has %s", id, line)
			}
		}
	}
}
