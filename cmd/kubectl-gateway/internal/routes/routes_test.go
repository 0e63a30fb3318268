package routes_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
)

// objects are lists of the API server, by path.
var objects = map[string]string{
	"/apis/app.example.com/v1/namespaces/team/gateways": `
items:
- metadata: {name: own, namespace: team, generation: 2}
  spec: {routes: [{name: web, hostnames: [own.example.com]}, {name: bad}], tcpRoutes: [{name: db}]}
  status:
    conditions: [{type: Programmed, status: "True", observedGeneration: 2}]
    routes: [{kind: HTTPRoute, name: bad, conditions: [{type: ResolvedRefs, status: "False", message: there is no Service s}]}]
`,
	"/apis/gateway.networking.k8s.io/v1/namespaces/team/httproutes": `
items:
- metadata: {name: cart, namespace: team, generation: 3}
  spec: {hostnames: [a.example.com, b.example.com, c.example.com, d.example.com]}
  status: {parents: [{controllerName: app.example.com/gateway, parentRef: {name: edge, namespace: infra}, conditions: [{type: Programmed, status: "True", observedGeneration: 3}]}]}
- metadata: {name: edited, namespace: team, generation: 3}
  status: {parents: [{controllerName: app.example.com/gateway, parentRef: {name: edge, namespace: infra}, conditions: [{type: Programmed, status: "True", observedGeneration: 2}]}]}
- metadata: {name: hidden, namespace: team, generation: 1}
  status:
    parents:
    - controllerName: app.example.com/gateway
      parentRef: {kind: ListenerSet, name: set}
      conditions:
      - {type: Programmed, status: "True", observedGeneration: 1}
      - {type: UnreachableRules, status: "True", observedGeneration: 1, message: "rules[1] gets no requests: HTTPRoute team/cart rules[0] gets them"}
- metadata: {name: others, namespace: team}
  status: {parents: [{controllerName: example.net/other, parentRef: {name: edge}}]}
- metadata: {name: refused, namespace: team, generation: 1}
  status: {parents: [{controllerName: app.example.com/gateway, parentRef: {name: edge, namespace: infra}, conditions: [{type: Accepted, status: "False", observedGeneration: 1, message: no listener takes it}]}]}
- metadata: {name: h1, namespace: team, generation: 1, labels: {app.example.com/ingress-class: ours}, ownerReferences: [{kind: Ingress, name: old}]}
  spec: {hostnames: [old.example.com]}
  status: {parents: [{controllerName: app.example.com/gateway, parentRef: {name: edge, namespace: infra}, conditions: [{type: Programmed, status: "True", observedGeneration: 1}]}]}
`,
	"/apis/gateway.networking.k8s.io/v1/namespaces/team/grpcroutes": `
items:
- metadata: {name: cart, namespace: team}
`,
	"/apis/gateway.networking.k8s.io/v1/namespaces/team/listenersets/set": "{metadata: {name: set, namespace: team}, spec: {parentRef: {name: edge, namespace: infra}}}",
	"/apis/networking.k8s.io/v1/ingressclasses":                           "items: [{metadata: {name: ours}, spec: {controller: app.example.com/ingress}}, {metadata: {name: theirs}, spec: {controller: k8s.io/x}}]",
	"/apis/networking.k8s.io/v1/namespaces/team/ingresses": `
items:
- {metadata: {name: old, namespace: team}, spec: {ingressClassName: ours}}
- {metadata: {name: lost, namespace: team}, spec: {ingressClassName: ours, rules: [{host: lost.example.com}]}}
- {metadata: {name: else, namespace: team}, spec: {ingressClassName: theirs}}
`,
	"/api/v1/namespaces/infra/pods": "items: [{metadata: {name: p, namespace: infra, labels: {app.example.com/gateway: edge}}, status: {phase: Running}}, {metadata: {name: new, namespace: infra}, status: {phase: Pending}}]",
	"/api/v1/namespaces/team/pods":  "items: [{metadata: {name: q, namespace: team, labels: {app.example.com/gateway: own}}, status: {phase: Running}}]",
}

// accessLog has requests of a route in a minute.
func accessLog(requests, failed int, route string) string {
	var b strings.Builder
	for i := range requests {
		status := 200
		if i < failed {
			status = 503
		}
		fmt.Fprintf(&b, "2026-11-29T12:00:00Z "+`{"method":"GET","status":%d,"msTotal":%d,"route":"%s","termination":"--"}`+"\n", status, i+1, route)
	}
	return b.String()
}

// newCluster is an API server with routes. With a team's rights, the Gateway's namespace may not be read.
func newCluster(t *testing.T, isTeam bool) string {
	t.Helper()
	logs := map[string]string{
		"/api/v1/namespaces/infra/pods/p/log": accessLog(120, 12, "team/cart") + accessLog(6, 0, "GRPCRoute/team/cart") + accessLog(60, 0, "team/h1"),
		"/api/v1/namespaces/team/pods/q/log":  accessLog(6, 0, "web") + `2026-11-29T12:00:00Z {"msTotal":7,"route":"db","termination":"SC"}` + "\n",
	}
	allowed := maps.Clone(objects)
	maps.DeleteFunc(allowed, func(path, _ string) bool { return isTeam && isForeign(path) })
	return clitest.NewServer(t, allowed, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		log, isLog := logs[request.URL.Path]
		switch {
		case isTeam && isForeign(request.URL.Path):
			writer.Header().Set("Content-Type", "application/json")
			writer.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(writer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"pods is forbidden","code":403}`)
		case isLog:
			_, _ = fmt.Fprint(writer, log)
		default:
			http.NotFound(writer, request)
		}
	}))
}

// isForeign reports whether a team may not read a path.
func isForeign(path string) bool {
	return strings.Contains(path, "/infra/") || strings.Contains(path, "ingressclasses")
}

// lines are the rows of a table, with single blanks.
func lines(out string) (all []string) {
	for line := range strings.Lines(out) {
		all = append(all, strings.Join(strings.Fields(line), " "))
	}
	return all
}

func TestRoutes(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	run := func(isTeam bool, args ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"routes", "-n", "team", "--server", newCluster(t, isTeam)}, args...)...)
	}
	rows := func(result clitest.Result) []string { return lines(result.Out) }
	want := []string{
		"KIND NAME HOSTS GATEWAY PROGRAMMED REQUESTS/S ERRORS P95 REASON",
		"GRPCRoute cart * - Unknown - - - no operator has looked at it",
		"Gateway own/bad * own True 0.0 - - there is no Service s",
		"Gateway own/db * own True 0.0 100.0% 7ms",
		"Gateway own/web own.example.com own True 0.1 0.0% 6ms",
		"HTTPRoute cart a.example.com,b.example.com,c.example.com and 1 more infra/edge True 2.0 10.0% 114ms",
		"HTTPRoute edited * infra/edge Unknown 0.0 - - the operator has not looked at generation 3 yet",
		"HTTPRoute hidden * infra/edge True 0.0 - - rules[1] gets no requests: HTTPRoute team/cart rules[0] gets them",
		"HTTPRoute refused * infra/edge False 0.0 - - no listener takes it",
		"Ingress lost lost.example.com - False - - - it has no routes: see its events: kubectl -n team describe ingress lost",
		"Ingress old old.example.com infra/edge True 1.0 0.0% 57ms",
	}
	result := run(false)
	if result.Want(t, 0); strings.Join(rows(result), "\n") != strings.Join(want, "\n") || result.Err != "" {
		t.Errorf("got\n%s%s", strings.Join(rows(result), "\n"), result.Err)
	}
	page := must.Get(os.ReadFile(filepath.Join(clitest.Root, "docs/reference/kubectl-gateway.md")))(t)
	_, shown, _ := strings.Cut(string(page), "$ kubectl gateway routes -n team\n")
	shown, _, _ = strings.Cut(shown, "```")
	for _, row := range lines(shown) {
		if !slices.Contains(want, row) {
			t.Errorf("the reference shows %q", row)
		}
	}
	result = run(false, "--problems", "--no-headers")
	if result.Want(t, 0, "own/db", "cart", "refused"); len(rows(result)) != 8 || strings.Contains(result.Out, "own/web") {
		t.Errorf("with problems are\n%s", result.Out)
	}
	result = run(false, "-o", "json")
	result.Want(t, 0, `"requestsPerSecond": 2`, `"errors": 0.1`, `"p95Seconds": 0.114`, `"programmed": "Unknown"`, `"infra/edge"`)
	// A team sees its own routes, and their problems.
	result = run(true)
	result.Want(t, 0, "note: not all requests are known: failed to list Pods of Gateway infra/edge: pods is forbidden", "no listener takes it")
	if row := "HTTPRoute refused * infra/edge False - - - no listener takes it"; !strings.Contains(strings.Join(rows(result), "\n"), row) {
		t.Errorf("there is no %q:\n%s", row, result.Out)
	}
	run(true, "--since", "-1s").Want(t, 2, "--since cannot be negative")
	if result := run(true, "--since", "0"); strings.Contains(result.Err, "note") {
		t.Errorf("got %s", result.Err)
	}
}

// TestFewRights: who may read HTTPRoutes alone sees these, and who may read nothing gets an error.
func TestFewRights(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	isHTTPRoute := func(path string) bool { return strings.HasSuffix(path, "/namespaces/team/httproutes") }
	for allowed, want := range map[string]int{"httproutes": 0, "": 1} {
		server := clitest.NewServer(t, nil, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
			writer.Header().Set("Content-Type", "application/json")
			if allowed != "" && isHTTPRoute(request.URL.Path) {
				_, _ = fmt.Fprint(writer, `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRouteList","items":[{"metadata":{"name":"web","namespace":"team"}}]}`)
				return
			}
			writer.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(writer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
		}))
		clitest.Run(t, "", "routes", "-n", "team", "--server", server).Want(t, want, map[string]string{
			"httproutes": "note: you may not list gateways.app.example.com, grpcroutes.gateway.networking.k8s.io, tlsroutes.gateway.networking.k8s.io",
			"":           "you may list no routes: neither gateways.app.example.com nor httproutes",
		}[allowed])
	}
}
