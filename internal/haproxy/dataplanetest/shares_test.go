package dataplanetest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// sharesWorld has the same rules for each of its namespaces. Services "slow" answer when the test ends.
const sharesWorld = `
spec:
  namespaceBudget: {concurrentQuestions: 5, concurrentWAFBodies: 5, concurrentBodies: 5, concurrentCopies: 5}
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: greedy
      hostnames: [greedy]
      rules: &rules
        - matches: [{path: {value: /question}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: slow, port: 80}, timeout: 1m}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /other-question}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: slow-too, port: 80}, timeout: 1m}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /login}}]
          filters: [{type: OIDC, oidc: {issuer: "https://id.example.com", clientID: shop, secretRef: {name: login}}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /page}}]
          filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [404], statusCode: 410, backendRef: {name: slow, port: 80}}]}}]
          backendRefs: [{name: missing, port: 80}]
        - matches: [{path: {value: /waf}}]
          filters: [{type: WAF, waf: {maxBodyBytes: 131072}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /body}}]
          maxRequestBytes: 1000
          backendRefs: [{name: slow, port: 80}]
        - matches: [{path: {value: /copy}}]
          filters: [{type: RequestMirror, requestMirror: {backendRefs: [{name: copies, port: 80}]}}]
          backendRefs: [{name: works, port: 80}]
    - name: neighbour
      hostnames: [neighbour]
      rules: *rules
    - name: owner
      hostnames: [owner]
      rules: *rules
backends: [{service: works, port: 80}, {service: slow, port: 80}, {service: slow-too, port: 80}, {service: missing, port: 80}, {service: copies, port: 80}]
`

// shares are a gateway for sharesWorld, whose route NAME is of the namespace NAME. What is slow answers once released.
type shares struct {
	*gateway
	release chan struct{}
	copies  chan string
}

func startShares(t *testing.T) *shares {
	t.Helper()
	s := &shares{release: make(chan struct{}), copies: make(chan string, 10_000)}
	slow := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { <-s.release; w.WriteHeader(status) }
	}
	listen := func(path string) (string, net.Listener) {
		listener := must.Get(net.Listen("unix", path))(t)
		t.Cleanup(func() { _ = listener.Close() })
		return path, listener
	}
	s.gateway = startGatewayWith(t, rendertest.Parse(t, sharesWorld), func(in *render.Input) {
		var login, waf net.Listener
		in.Paths.LoginSocket, login = listen(filepath.Join(in.Paths.RunDir, "login.sock"))
		in.Paths.WAFSocket, waf = listen(filepath.Join(in.Paths.RunDir, "waf.sock"))
		go func() { _ = http.Serve(login, slow(http.StatusUnauthorized)) }() //nolint:gosec // HAProxy asks
		firewall := &wafed{asked: make(chan string, 1000), reply: func(string) string { <-s.release; return allows }}
		go firewall.serve(t, waf)
		serveAll(t, in, handlers{
			"works": func(http.ResponseWriter, *http.Request) {}, "missing": http.NotFound, "slow": slow(http.StatusOK), "slow-too": slow(http.StatusOK),
			"copies": record(s.copies, slow(http.StatusOK)),
		})
		in.Table.Shares.Owner = "owner"
		in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) { rule.Route += "/" + rule.Route })
	})
	return s
}

// TestSharesOfNamespaces: requests of a namespace may take a part of the places that all share. Beyond it, they get
// 503, and other namespaces' requests go on. The Gateway's own namespace has no bound.
func TestSharesOfNamespaces(t *testing.T) {
	t.Parallel()
	large := ofLength(strings.Repeat("a", 50_000))
	for name, test := range map[string]struct {
		requests []string
		// rest is what a client sends in the end.
		rest string
		// refused is the status of a request beyond the bound, answered the status of other namespaces' requests in the end.
		refused, answered int
		table             string
	}{
		"questions":   {[]string{"GET /question HTTP/1.1\r\nHost: %s\r\n\r\n", "GET /other-question HTTP/1.1\r\nHost: %s\r\n\r\n"}, "", 503, 200, "auth"},
		"logins":      {[]string{"GET /login HTTP/1.1\r\nHost: %s\r\n\r\n"}, "", 503, 401, "auth"},
		"error pages": {[]string{"GET /page HTTP/1.1\r\nHost: %s\r\n\r\n"}, "", 404, 410, "overrides"},
		"WAF bodies":  {[]string{"POST /waf HTTP/1.1\r\nHost: %s\r\n" + large}, "", 503, 200, "large-bodies"},
		"bodies":      {[]string{"POST /body HTTP/1.1\r\nHost: %s\r\n" + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"}, "0\r\n\r\n", 503, 200, "bodies"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startShares(t)
			const most, more = 5, 3
			got := map[string]chan int{"greedy": make(chan int, 100), "neighbour": make(chan int, 100), "owner": make(chan int, 100)}
			send := func(host string, n int) {
				for i := range n {
					request := fmt.Sprintf(test.requests[i%len(test.requests)], host)
					c := newClientFrom(t, "127.0.0.1", s.ports[80])
					conn := c.conn
					_, _ = io.WriteString(conn, request)
					go func() {
						<-s.release
						_, _ = io.WriteString(conn, test.rest)
					}()
					go func() {
						answer, _ := c.try("")
						got[host] <- answer.Status
					}()
				}
			}
			send("greedy", most+more)
			for range more {
				if status := <-got["greedy"]; status != test.refused {
					t.Fatalf("got %d, want %d beyond %d", status, test.refused, most)
				}
			}
			send("neighbour", most)
			send("owner", most+more)
			close(s.release)
			for host, n := range map[string]int{"greedy": most, "neighbour": most, "owner": most + more} {
				for range n {
					if status := <-got[host]; status != test.answered {
						t.Errorf("%s got %d, want %d", host, status, test.answered)
					}
				}
			}
			eventually(t, "nothing is counted any more", func() bool {
				return strings.Contains(s.Worker("show table "+test.table), "used:0\n")
			})
		})
	}
}

// TestSharesOfCopies: a namespace whose mirrors hang leaves room for the copies of others.
func TestSharesOfCopies(t *testing.T) {
	t.Parallel()
	s := startShares(t)
	send := func(host string, n int) int {
		for range n {
			if got := newClient(t, s.ports[80]).send(get(host, "/copy")); got.Status != http.StatusOK {
				t.Fatalf("%s got %d", host, got.Status)
			}
		}
		return len(s.copies)
	}
	// Each thread has its part of the share, rounded up.
	most := 0
	_, _ = fmt.Sscanf(s.Worker("show info")[strings.Index(s.Worker("show info"), "Nbthread:"):], "Nbthread: %d", &most)
	most += 5
	send("greedy", 100)
	next(t, s.copies)
	if n := send("greedy", 100) + 1; n > most {
		t.Errorf("%d copies of one namespace are under way, want %d at most", n, most)
	}
	send("neighbour", 1)
	eventually(t, "the neighbour has a copy", func() bool { return strings.Contains(<-s.copies, "Host: neighbour") })
	close(s.release)
}
