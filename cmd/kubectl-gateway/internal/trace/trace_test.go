package trace_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/proxyconfig"
	"gateway/internal/routetrace"
)

var objects = map[string]string{
	"/apis/app.example.com/v1/namespaces/shop/gateways/shop": `
metadata: {name: shop, namespace: shop, uid: u, generation: 1}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
  - name: web
    hostnames: [shop.example.com]
    rules:
    - {matches: [{path: {value: /cart}, headers: [{name: X-Test, value: "1"}]}], backendRefs: [{name: canary, port: 80}]}
    - {matches: [{path: {value: /cart}}], backendRefs: [{name: cart, port: 80}]}
    - {matches: [{path: {value: /upload}}], backendRefs: [{name: files, port: 80}]}
    - {matches: [{path: {value: /admin}}], filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}], backendRefs: [{name: cart, port: 80}]}
  - {name: other, hostnames: [other.example.com], rules: [{backendRefs: [{name: cart, port: 80}]}]}
`,
	"/apis/app.example.com/v1/namespaces/shop/gatewayattachments": "items: []",
	"/api/v1/namespaces/shop/services":                            "items: []",
	"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices":    "items: []",
	"/api/v1/namespaces/shop/pods":                                "items: [{metadata: {name: shop-gateway-1, namespace: shop, labels: {app.example.com/gateway: shop}}, status: {phase: Running}}, {metadata: {name: shop-gateway-2, namespace: shop}, status: {phase: Pending}}]",
}

// newServer is an API server with a pod that has requests under way, and logs lines.
func newServer(t *testing.T, lines ...string) string {
	t.Helper()
	agent := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.URL.RequestURI() != "/requests?older=2" {
			http.NotFound(writer, request)
			return
		}
		ago := func(seconds int) time.Time { return time.Now().Add(-time.Duration(seconds) * time.Second) }
		_ = json.NewEncoder(writer).Encode(proxyconfig.UnderWay{Requests: []proxyconfig.Request{
			{Started: ago(9), Client: "192.0.2.1", Port: 80, Method: "GET", Path: "/cart/1", Backend: "shop_cart_80.hash", Server: "10.0.0.1_8080", WaitsFor: proxyconfig.ForEndpoint},
			{Started: ago(90), Client: "192.0.2.2", Port: 80, Method: "POST", Path: "/upload\x1b[31m", WaitsFor: proxyconfig.ForBody, IsOld: true},
			{Started: ago(8), Client: "192.0.2.3", Port: 80, Method: "GET", Host: "shop.example.com", Path: "/cart", WaitsFor: proxyconfig.ForQuestion},
		}, More: 7})
	})
	forward := clitest.PortForward(map[int]http.Handler{8405: agent})
	return clitest.NewServer(t, objects, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		switch path := request.URL.Path; {
		case strings.HasSuffix(path, "/shop-gateway-1/portforward"):
			forward.ServeHTTP(writer, request)
		case strings.HasSuffix(path, "/shop-gateway-1/log"):
			for _, line := range lines {
				_, _ = fmt.Fprintf(writer, "%s %s\n", time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano), line)
			}
			_ = http.NewResponseController(writer).Flush()
			<-request.Context().Done()
		case strings.HasSuffix(path, "/log"):
			<-request.Context().Done()
		default:
			http.NotFound(writer, request)
		}
	}))
}

// TestUnderWay: requests have their age, their rules and what they wait for, the oldest first.
func TestUnderWay(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	run := func(args ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"trace", "shop", "-n", "shop", "--older", "2s", "--server", newServer(t)}, args...)...)
	}
	result := run()
	result.Want(t, 3, "note: pod shop-gateway-1 has 7 more", "1 of 2 proxy pods could not be asked: shop-gateway-2: it is Pending")
	var rows []string
	for line := range strings.Lines(result.Out) {
		rows = append(rows, strings.Join(strings.Fields(line)[1:], " "))
	}
	want := []string{
		"POD CLIENT REQUEST RULE WAITS FOR",
		`1 192.0.2.2 POST :80/upload^[[31m other[0] body (old worker)`,
		"1 192.0.2.1 GET :80/cart/1 web[1] or other[0] endpoint of shop_cart_80.hash/10.0.0.1_8080",
		"1 192.0.2.3 GET shop.example.com/cart web[0] or web[1] question",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	for flag, want := range map[string]int{"--client=192.0.2.1": 1, "--route=other": 2, "--path=/cart": 2, "--host=other.example.com": 2, "--route=none": 0} {
		if got := strings.Count(run(flag, "-o", "json").Out, `"seconds"`); got != want {
			t.Errorf("%s: %d requests, want %d", flag, got, want)
		}
	}
	run("-o", "json").Want(t, 3, `"waitsFor": "question"`, `"rules": [`)
	run("--header", "a:b").Want(t, 2, "--header needs --next")
	run("--timeout", "1h").Want(t, 2, "--timeout is more than 0, and 10m0s at most")
}

// TestNext: the next requests have their decisions and times, and where explain expects something else.
func TestNext(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	line := func(path, rule, more string) string {
		return fmt.Sprintf(`{"client":"192.0.2.1","port":"80","method":"GET","host":"shop.example.com","path":"%s","status":200,"msRequest":0,"msQueue":1,"msConnect":2,"msResponse":3,"msTotal":4,`+
			`"route":"web","rule":"%s","backend":"cart_80","server":"10.0.0.1_8080","retries":"0","termination":"--"%s}`, path, rule, more)
	}
	server := newServer(t, line("/cart", "1", `,"requestHeaders":{"x-tenant":"a"}`), line("/other", "1", ""), line("/cart/2", "0", `,"shadow":{"JWT":401}`),
		line("/cart/3", "2", `,"waf":{"score":5}`), line("/admin", "3", `,"status":403,"filter":"ClientAddress"`), `{"msTotal":7,"route":"db","termination":"SC"}`, "[NOTICE] (1) : started")
	run := func(args ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"trace", "shop", "-n", "shop", "--server", server}, args...)...)
	}
	result := run("--next", "3", "--path", "/cart", "--timeout", "30s")
	result.Want(t, 0, "  200  GET shop.example.com/cart\n", "  client    192.0.2.1\n", "  rule      web[1]\n", "  endpoint  cart_80/10.0.0.1_8080, retries: 0\n",
		"  time      headers 0ms, queue 1ms, connect 2ms, response 3ms, all 4ms\n", "  shadow    JWT would have answered 401\n", `  waf       {"score":5}`,
		"  rule      web[0]\n", "  differs   without the headers and the query, which the log does not have, explain expects web[1]\n",
		"  differs   explain expects web[1]: see kubectl gateway proxy-config")
	if strings.Count(result.Out, "differs") != 2 || strings.Contains(result.Out, "/other") {
		t.Errorf("got %s", result.Out)
	}
	run("--next", "1", "--path", "/other", "-o", "json", "--timeout", "30s").Want(t, 0, `"differsFromExplain": "explain expects -`)
	run("--next", "1", "--path", "/admin", "--timeout", "30s").Want(t, 0, "  filter    ClientAddress stopped it\n", "  reason    403: ClientAddress: 192.0.2.1 is in no range that is allowed")
	run("--next", "1", "--header", "X-Tenant: a", "--timeout", "30s").Want(t, 0, "GET shop.example.com/cart\n")
	run("--next", "1", "--header", "X-Other: a", "--timeout", "200ms").Want(t, 3, "the access log does not have the header x-other", "0 of 1 requests ended within 200ms")
}

// TestOfRoute: a team asks by its route, and reads what the pods tell it in Events. It reads nothing else.
func TestOfRoute(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	asked := map[string]string{}
	server := clitest.NewServer(t, nil, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		route, isRoute := strings.CutPrefix(request.URL.Path, "/apis/gateway.networking.k8s.io/v1/namespaces/team/")
		switch {
		case isRoute && request.Method == http.MethodPatch:
			var patch metav1.PartialObjectMetadata
			if err := json.NewDecoder(request.Body).Decode(&patch); err != nil {
				t.Error(err)
			}
			asked[route] = patch.Annotations[routetrace.Annotation]
			_, _ = fmt.Fprint(writer, `{"metadata":{"name":"web","namespace":"team"}}`)
		case request.URL.Path == "/api/v1/namespaces/team/events":
			list := corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
			for pod, id := range map[string]string{"shop-gateway-1": "", "shop-gateway-2": "", "earlier": "other"} {
				question, err := routetrace.Parse(asked["httproutes/web"])
				if err != nil || !question.Counts(time.Now()) || question.OlderSeconds != 2 {
					t.Errorf("the question is %+v: %v", question, err)
				}
				answer, _ := json.Marshal(routetrace.Answer{ID: cmp.Or(id, question.ID), Pod: pod, More: len(id), Requests: []routetrace.Request{{Request: proxyconfig.Request{
					Started: time.Now().Add(-9 * time.Second), Client: "192.0.2.1", Port: 80, Method: "GET", Path: "/" + pod + "\x1b[31m", Backend: "team_cart_80",
					Server: "10.0.0.1_8080", WaitsFor: proxyconfig.ForEndpoint,
				}, Rules: []string{"team/web[0]"}}}})
				list.Items = append(list.Items, corev1.Event{Message: string(answer)}, corev1.Event{Message: "no answer"})
			}
			_ = json.NewEncoder(writer).Encode(list)
		default:
			t.Errorf("%s %s", request.Method, request.URL)
			http.Error(writer, "forbidden", http.StatusForbidden)
		}
	}))
	run := func(args ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"trace", "-n", "team", "--older", "2s", "--timeout", "500ms", "--server", server}, args...)...)
	}
	result := run("httproute/web")
	result.Want(t, 0, "pods that have answered: 2", `GET :80/shop-gateway-1^[[31m`, "team/web[0]", "endpoint of team_cart_80/10.0.0.1_8080")
	if strings.Contains(result.Out, "earlier") || asked["httproutes/web"] != "" {
		t.Errorf("the question stays: %q, or another one's answer counts: %s", asked, result.Out)
	}
	run("httproute/web", "--path", "/shop-gateway-2", "-o", "json").Want(t, 0, `"pod": "shop-gateway-2"`)
	run("tcproute/web").Want(t, 2, "httproute/NAME or grpcroute/NAME")
	run("httproute/web", "--route", "team/web").Want(t, 2, "--route needs the name of a Gateway")
}

// TestNextOfRoute: a team asks by its route for what ends from now on, and reads it in Events, each request once.
func TestNextOfRoute(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	var asked routetrace.Question
	polls := 0
	ended := func(second int, path string) json.RawMessage {
		quoted, _ := json.Marshal(path)
		return json.RawMessage(fmt.Sprintf(`{"time":"2026-01-01T00:00:0%d.000Z","client":"192.0.2.1","port":"80","method":"GET","host":"a.example.com","path":%s,"status":403,"msTotal":4,`+
			`"route":"team/web","rule":"1","backend":"-","filter":"JWT","server":"-","retries":"0","termination":"LR"}`, second, quoted))
	}
	server := clitest.NewServer(t, nil, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		if request.Method == http.MethodPatch {
			var patch metav1.PartialObjectMetadata
			_ = json.NewDecoder(request.Body).Decode(&patch)
			if value := patch.Annotations[routetrace.Annotation]; value != "" {
				var err error
				if asked, err = routetrace.Parse(value); err != nil {
					t.Error(err)
				}
			}
			_, _ = fmt.Fprint(writer, `{"metadata":{"name":"web","namespace":"team"}}`)
			return
		}
		list := corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
		add := func(pod string, looked int, lines ...json.RawMessage) {
			message, _ := json.Marshal(routetrace.Answer{ID: asked.ID, Pod: pod, Ended: lines, Looked: looked})
			list.Items = append(list.Items, corev1.Event{Message: string(message)})
		}
		add("pod-1", 0)
		add("pod-1", 0, ended(3, "/c"), ended(1, "/a\x1b[31m"))
		if polls++; polls > 1 {
			add("pod-2", routetrace.MaxLooked, ended(2, "/b"), ended(4, "/d"))
		}
		_ = json.NewEncoder(writer).Encode(list)
	}))
	run := func(args ...string) clitest.Result {
		asked, polls = routetrace.Question{}, 0
		return clitest.Run(t, "", append([]string{"trace", "httproute/web", "-n", "team", "--server", server}, args...)...)
	}
	result := run("--next", "3", "--host", "*.example.com", "--path", "/", "--client", "192.0.2.1", "--header", "X-Tenant: a")
	result.Want(t, 0, "00:00:01.000  403  GET a.example.com/a\\x1b[31m", "  pod       pod-1\n", "  rule      team/web[1]\n", "  filter    JWT stopped it\n",
		"/c", "/b", "note: pod pod-2 has looked at 1000 requests of the route, and looks at no more")
	if strings.Count(result.Out, "  rule ") != 3 || strings.Contains(result.Out, "/d") || strings.Index(result.Out, "/a") > strings.Index(result.Out, "/c") {
		t.Errorf("got %s", result.Out)
	}
	if fmt.Sprint(asked.Next, asked.Wanted) != "3 {[*.example.com] / 192.0.2.1 map[x-tenant:a]}" {
		t.Errorf("the question is %+v", asked)
	}
	run("--next", "9", "--timeout", "300ms", "-o", "json").Want(t, 3, `"path": "/c"`, "2 of 9 requests ended within 300ms in 1 pods")
	run("--next", "21").Want(t, 2, "--next is 20 at most with a route")
	run("--next", "1", "--timeout", "2m").Want(t, 2, "--timeout is 1m0s at most with a route")
	run("--next", "1", "--path", strings.Repeat("/long", 1000)).Want(t, 2, "what is asked for is too long")
}
