package command_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
)

var tables = flag.Int("tables", 20, "how many random Gateways TestExplainAgreesWithHAProxy tries")

const requestsPerTable = 40

// TestExplainAgreesWithHAProxy compares what explain says with what real HAProxy does, on the random Gateways and
// requests that the routing is tested with.
func TestExplainAgreesWithHAProxy(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	g.Namespace = "shop"
	ports := [2]int32{haproxytest.FreePort(t), haproxytest.FreePort(t)}
	backends := map[routing.Backend]render.BackendState{}
	for _, service := range routingtest.Services {
		backends[routing.Backend{Namespace: g.Namespace, Service: service, Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{startBackend(t, service)}}
	}
	codes := map[int]int{}
	enough := func() bool {
		for _, code := range []int{200, 400, 401, 403, 404, 500} {
			if *tables >= 20 && codes[code] < *tables {
				return false
			}
		}
		return true
	}
	for tried := 0; tried < *tables || !enough() && tried < 5**tables; tried++ {
		gateway := &appv1.Gateway{Spec: admissible(t, g.Spec(ports))}
		addClaims(g, &gateway.Spec)
		addRanges(g, &gateway.Spec)
		gateway.APIVersion, gateway.Kind, gateway.Name = "app.example.com/v1", "Gateway", "random"
		gateway.Namespace = g.Namespace
		content := must.Get(yaml.Marshal(gateway))(t)
		file := clitest.WriteFile(t, "gateway.yaml", string(content))
		table, _ := routing.Compile(source.Translate(gateway), filters.Problem)
		haproxyPaths := haproxytest.NewPaths(t)
		proxy := haproxytest.Start(t, haproxyPaths, haproxytest.ShowMatches(render.Render(render.Input{
			Table: table, Backends: backends, Paths: haproxyPaths,
			Bind: render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)},
		}).AllFiles()))
		for range requestsPerTable {
			r := g.Request(gateway.Spec, ports)
			claim(g, &r)
			answer := send(t, r) //nolint:bodyclose // send closed it
			if problem := compare(t, file, r, answer); problem != "" {
				t.Fatalf("%q to port %d: %s\n%s", r.Bytes, r.Port, problem, content)
			}
			codes[answer.StatusCode]++
		}
		proxy.Stop()
	}
	if t.Logf("answers: %v", codes); !enough() {
		t.Error("some of these statuses are too rare: the test does not try enough")
	}
}

// admissible returns a spec without what the generator has beside what the API server admits.
func admissible(t *testing.T, spec appv1.GatewaySpec) appv1.GatewaySpec {
	t.Helper()
	content := must.Get(json.Marshal(spec))(t)
	content = []byte(strings.NewReplacer("x_y", "xy", "two words", "two%20words").Replace(string(content)))
	var admitted appv1.GatewaySpec
	must.Do(t, json.Unmarshal(content, &admitted))
	return admitted
}

// claims are conditions on what proxies say of a client, which HAProxy does not take from the client itself, and what
// that may say.
var claims = []struct {
	name, value string
	kind        appv1.ValueMatchType
	said        string
}{
	{"X-Forwarded-Proto", "http", appv1.ValueMatchExact, "https"},
	{"X-Forwarded-Proto", "https", appv1.ValueMatchExact, "https"},
	{"X-Forwarded-Host", "a.test", appv1.ValueMatchExact, "a.test"},
	{"X-Forwarded-Host", "(?i).*test.*", appv1.ValueMatchRegularExpression, "x.test"},
	{"X-Forwarded-Port", "[0-9]*[02468]", appv1.ValueMatchRegularExpression, "80"},
	{"X-Forwarded-For", "192.0.2.1", appv1.ValueMatchExact, "192.0.2.1"},
	{"X-Forwarded-User", "a", appv1.ValueMatchExact, "a"},
	{"Forwarded", "for=192.0.2.1", appv1.ValueMatchExact, "for=192.0.2.1"},
	{"Client-Cert", "a", appv1.ValueMatchExact, "a"},
	{"Client-Cert-Chain", "a", appv1.ValueMatchExact, "a"},
	{"X-Real-IP", "a", appv1.ValueMatchExact, "a"},
	{"X-Original-URL", "/", appv1.ValueMatchExact, "/"},
	{"Proxy", "a", appv1.ValueMatchExact, "a"},
	{"X-SSL-Client-S-DN", "a", appv1.ValueMatchExact, "a"},
}

// addClaims adds conditions to some matches of a spec.
func addClaims(g *routingtest.Generator, spec *appv1.GatewaySpec) {
	for i := range spec.Routes {
		for j := range spec.Routes[i].Rules {
			for k := range spec.Routes[i].Rules[j].Matches {
				if match, c := &spec.Routes[i].Rules[j].Matches[k], claims[g.IntN(len(claims))]; g.IntN(4) == 0 {
					match.Headers = append(match.Headers, appv1.HeaderMatch{Type: c.kind, Name: appv1.HeaderName(c.name), Value: c.value})
				}
			}
		}
	}
}

// ranges are some with the address of the client, 127.0.0.1, and some without.
var ranges = []appv1.AddressRange{"127.0.0.0/8", "127.0.0.1/32", "::ffff:127.0.0.0/105", "10.0.0.0/8", "0.0.0.0/1", "::/0", "fd00::/8"}

// jwt is a filter that lets none of the requests through, which have no tokens.
var jwt = appv1.RuleFilter{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{Issuers: []appv1.JWTIssuer{{Issuer: "me", Audiences: []appv1.JWTAudience{"web"}, Keys: appv1.JWTKeys{Inline: `{"keys":[` +
	`{"kid":"1","kty":"EC","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}]}`}}}}}

// addRanges says of some rules which clients they are for, and of others that they need a token.
func addRanges(g *routingtest.Generator, spec *appv1.GatewaySpec) {
	some := func() (list []appv1.AddressRange) {
		for _, one := range ranges {
			if g.IntN(6) == 0 {
				list = append(list, one)
			}
		}
		return list
	}
	for i := range spec.Routes {
		for j := range spec.Routes[i].Rules {
			rule := &spec.Routes[i].Rules[j]
			clients := &appv1.ClientAddress{Allow: some(), Deny: some()}
			answers := slices.ContainsFunc(rule.Filters, func(f appv1.RuleFilter) bool { return f.RequestRedirect != nil || f.DirectResponse != nil })
			if g.IntN(2) == 0 && !answers && len(clients.Allow)+len(clients.Deny) > 0 {
				rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: clients})
			}
			if g.IntN(6) == 0 && !answers {
				rule.Filters = append(rule.Filters, jwt)
			}
		}
	}
}

// claim adds such headers to some requests.
func claim(g *routingtest.Generator, r *routingtest.Request) {
	for _, c := range claims {
		if g.IntN(8) == 0 {
			name := strings.ToLower(c.name)
			r.Header[name] = append(r.Header[name], c.said)
			r.Bytes = strings.TrimSuffix(r.Bytes, "\r\n") + c.name + ": " + c.said + "\r\n\r\n"
		}
	}
}

// compare returns how what explain says differs from what HAProxy answered.
func compare(t *testing.T, file string, r routingtest.Request, answer *http.Response) string {
	t.Helper()
	args := []string{"explain", "-f", file, "-o", "json", "--client-address", "127.0.0.1", "-X", r.Method, "-H", "Host: " + r.Host}
	for name, values := range r.Header {
		for _, value := range values {
			args = append(args, "-H", name+": "+value)
		}
	}
	result := clitest.Run(t, "", append(args, fmt.Sprintf("http://127.0.0.1:%d%s?%s", r.Port, r.Path, r.Query))...)
	var said struct {
		Listener      struct{ Name string }
		Route, Answer string
		Rule          int
		Refused       bool
		Backends      []struct{ Service string }
	}
	if err := json.Unmarshal([]byte(result.Out), &said); err != nil {
		return fmt.Sprintf("%v\n%s%s", err, result.Out, result.Err)
	}
	code, matched, backend := answer.StatusCode, answer.Header.Get("Matched"), answer.Header.Get("Backend")
	agrees := said.Refused == (code >= 400) && (result.Code == 3) == said.Refused
	if said.Route != "" {
		agrees = agrees && matched == fmt.Sprintf("%s %s %d", said.Listener.Name, said.Route, said.Rule)
	}
	if code == http.StatusOK {
		var names []string
		for _, backend := range said.Backends {
			names = append(names, backend.Service)
		}
		agrees = agrees && said.Route != "" && slices.Contains(names, backend)
	} else {
		agrees = agrees && strings.HasPrefix(said.Answer, fmt.Sprintf("%d:", code))
	}
	if agrees {
		return ""
	}
	return fmt.Sprintf("HAProxy answered %d by %q and backend %q, and explain (exit code %d) says:\n%s", code, matched, backend, result.Code, result.Out)
}

// send sends a request and returns the answer to it, without its body.
func send(t *testing.T, r routingtest.Request) *http.Response {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), 5*time.Second))(t)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	must.Get(io.WriteString(conn, r.Bytes))(t)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", r.Bytes, err)
	}
	_ = answer.Body.Close()
	return answer
}

// startBackend starts a server that says its name in the header Backend.
func startBackend(t *testing.T, name string) ir.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Backend", name) }))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().(*net.TCPAddr)
	return ir.Server{Address: address.IP.String(), Port: int32(address.Port)} //nolint:gosec // a port
}
