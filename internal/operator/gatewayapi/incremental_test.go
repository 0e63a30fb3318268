package gatewayapi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/operator/children"
	source "gateway/internal/source/gatewayapi"
	"gateway/internal/testtier"
)

// edits is how many random edits TestIncremental makes.
var edits = 300

// variants are what random edits make of objects: kind, namespace and name, and what an object can be.
var variants = []struct {
	header string
	bodies []string
}{
	{class, []string{
		"spec: {controllerName: app.example.com/gateway}",
		"spec: {controllerName: app.example.com/gateway, parametersRef: {group: app.example.com, kind: GatewayConfig, namespace: web, name: settings}}",
		"spec: {controllerName: example.com/other}",
	}},
	{"apiVersion: app.example.com/v1\nkind: GatewayConfig\nmetadata: {namespace: web, name: settings}", []string{
		"spec: {replicas: 2}",
		"spec: {filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: api, port: 80}}}]}",
		"spec: {filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}]}",
		"spec: {namespaceBudget: {routes: 1, rules: 2, headerNames: 1}}",
		"spec: {allowedHostnames: {rules: [{hostnames: ['a.io', '*.a.io'], namespaces: {selector: {matchLabels: {tier: gold}}}}, {hostnames: ['dear.io'], namespaces: {names: [team]}}]}}",
		"spec: {allowedHostnames: {rules: [{hostnames: ['*.a.io'], namespaces: {names: [web]}}, {hostnames: ['a.io'], namespaces: {selector: {matchLabels: {team: edge}}}}]}}",
		"spec: {allowedHostnames: {ownership: FirstComeFirstServed}}",
		"spec: {allowedHostnames: {ownership: FirstComeFirstServed, rules: [{hostnames: ['*.a.io', '{label:tier}.io']}, {hostnames: ['*'], namespaces: {selector: {matchExpressions: [{key: team, operator: Exists}]}}}]}}",
		"spec: {namespaceBudget: {routes: 2, expressions: 2, headerNames: 1, listeners: 1, certificates: 1}}",
	}},
	{"apiVersion: v1\nkind: Namespace\nmetadata:", []string{
		"  {name: team}", "  {name: team, labels: {team: edge}}", "  {name: team, labels: {team: edge, tier: gold}}", "  {name: team, labels: {team: other, tier: gold}}",
	}},
	{"apiVersion: v1\nkind: Namespace\nmetadata:", []string{"  {name: web}", "  {name: web, labels: {team: edge}}", "  {name: web, labels: {tier: gold}}"}},
	{grants + "{namespace: web, name: secrets}", []string{
		"spec: {from: [{group: gateway.networking.k8s.io, kind: ListenerSet, namespace: team}], to: [{group: '', kind: Secret}]}",
		"spec: {from: [{group: gateway.networking.k8s.io, kind: ListenerSet, namespace: team}], to: [{group: '', kind: Secret, name: other}]}",
		"spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team}], to: [{group: '', kind: Service, name: api}]}",
	}},
	{grants + "{namespace: web, name: more}", []string{
		"spec: {from: [{group: gateway.networking.k8s.io, kind: ListenerSet, namespace: team}, {group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team}], to: [{group: '', kind: Secret, name: tls}]}",
	}},
	{"apiVersion: v1\nkind: Service\nmetadata: {namespace: web, name: api}", []string{
		"spec: {ports: [{port: 80}]}", "spec: {ports: [{name: h2, port: 80, appProtocol: kubernetes.io/h2c}]}", "spec: {ports: [{port: 81}]}",
	}},
	{"apiVersion: v1\nkind: Service\nmetadata: {namespace: team, name: api}", []string{
		"spec: {ports: [{port: 80}]}", "spec: {ports: [{name: tls, port: 80, appProtocol: https}]}",
	}},
	{gateways + "{namespace: web, name: shop}\nspec:\n  gatewayClassName: app", []string{
		"  listeners: [{name: http, port: 80, protocol: HTTP}]",
		"  allowedListeners: {namespaces: {from: Same}}\n  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]",
		"  allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {team: edge}}}}\n" +
			"  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: edge}}}}}]",
		"  listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: tls}, {namespace: team, name: tls}]}}, " +
			"{name: tcp, port: 81, protocol: TCP}, {name: tls, port: 82, protocol: TLS, tls: {mode: Passthrough}}]",
	}},
	{gateways + "{namespace: team, name: edge}\nspec:\n  gatewayClassName: app", []string{
		"  listeners: [{name: http, port: 80, protocol: HTTP, hostname: '*.a.io', allowedRoutes: {namespaces: {from: All}}}]",
		"  listeners: [{name: http, port: 80, protocol: HTTP}, {name: other, port: 80, protocol: HTTP}]",
	}},
	{listenerSets + "{namespace: web, name: set}", []string{
		"spec: {parentRef: {name: shop}, listeners: [{name: more, port: 83, protocol: HTTP}]}",
		"spec: {parentRef: {name: edge, namespace: team}, listeners: [{name: more, port: 80, protocol: HTTP}]}",
	}},
	{listenerSets + "{namespace: team, name: third}", []string{
		"spec: {parentRef: {name: shop, namespace: web}, listeners: [{name: more, port: 86, protocol: HTTPS, hostname: '*.a.io', allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {tier: gold}}}}, tls: {certificateRefs: [{name: tls, namespace: web}]}}]}",
		"spec: {parentRef: {name: shop, namespace: web}, listeners: [{name: more, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: edge}}}}}, {name: less, port: 80, protocol: HTTP, hostname: a.io}]}",
		"spec: {parentRef: {name: shop, namespace: web}, listeners: [{name: more, port: 80, protocol: TCP}]}",
	}},
	{listenerSets + "{namespace: team, name: second}", []string{
		"spec: {parentRef: {name: shop, namespace: web}, listeners: [{name: more, port: 83, protocol: HTTP}]}",
		"spec: {parentRef: {name: shop, namespace: web}, listeners: [{name: more, port: 84, protocol: HTTPS, hostname: '*.a.io', tls: {certificateRefs: [{name: tls}, {namespace: web, name: tls}]}}]}",
		"spec: {parentRef: {name: edge}, listeners: [{name: more, port: 80, protocol: HTTP, hostname: '*.a.io', allowedRoutes: {namespaces: {from: All}}}, {name: less, port: 80, protocol: HTTP, hostname: b.a.io}]}",
	}},
	{listenerSets + "{namespace: team, name: set}", []string{
		"spec: {parentRef: {name: shop, namespace: web}, listeners: [{name: https, port: 84, protocol: HTTPS, tls: {certificateRefs: [{name: tls}]}}]}",
	}},
	{"apiVersion: app.example.com/v1\nkind: Gateway\nmetadata: {namespace: web, name: own}", []string{
		"spec: {listeners: [{name: http, port: 90, protocol: HTTP}]}",
		"spec: {listeners: [{name: http, port: 90, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}",
	}},
	{"apiVersion: app.example.com/v1\nkind: Gateway\nmetadata: {namespace: team, name: edge}", []string{
		"spec: {listeners: [{name: http, port: 90, protocol: HTTP}]}",
	}},
	{grants + "{namespace: team, name: backends}", []string{
		"spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: web}], to: [{group: '', kind: Service}]}",
		"spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: web}], to: [{group: '', kind: Secret}]}",
		"spec: {from: [{group: gateway.networking.x-k8s.io, kind: XTelemetryPolicy, namespace: web}], to: [{group: '', kind: Service}]}",
	}},
	{routes + "{namespace: web, name: a}", httpRoutes}, {routes + "{namespace: web, name: b}", httpRoutes},
	{routes + "{namespace: team, name: a}", httpRoutes}, {routes + "{namespace: team, name: b}", httpRoutes},
	{strings.Replace(routes, "HTTPRoute", "GRPCRoute", 1) + "{namespace: web, name: a}", []string{
		"spec: {parentRefs: [{name: shop}], hostnames: [a.io], rules: [{backendRefs: [{name: api, port: 80}]}]}",
		"spec: {parentRefs: [{name: shop}, {name: edge, namespace: team}], rules: [{backendRefs: [{name: api, port: 80}]}]}",
	}},
	{strings.Replace(routes, "HTTPRoute", "TLSRoute", 1) + "{namespace: web, name: a}", []string{
		"spec: {parentRefs: [{name: shop}], hostnames: [a.io], rules: [{backendRefs: [{name: api, port: 80}]}]}",
	}},
	{strings.Replace(routes, "HTTPRoute", "TCPRoute", 1) + "{namespace: web, name: a}", []string{
		"spec: {parentRefs: [{name: shop, sectionName: tcp}], rules: [{backendRefs: [{name: api, port: 80}]}]}",
	}},
	{strings.Replace(routes, "HTTPRoute", "UDPRoute", 1) + "{namespace: web, name: a}", []string{
		"spec: {parentRefs: [{name: shop}], rules: [{backendRefs: [{name: api, port: 80}]}]}",
	}},
	{"apiVersion: app.example.com/v1\nkind: RouteFilter\nmetadata: {namespace: web, name: office}", []string{
		"spec: {filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}]}",
		"spec: {filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}]}",
		"spec: {filters: [{type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {configMapRef: {name: keys}}}]}}]}",
	}},
	{"apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {namespace: web, name: tls}", []string{
		"spec: {targetRefs: [{group: '', kind: Service, name: api}], validation: {hostname: a.io, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}",
		"spec: {targetRefs: [{group: '', kind: Service, name: api, sectionName: h2}], validation: {hostname: a.io, wellKnownCACertificates: System}}",
	}},
	{telemetries + "{namespace: web, name: early, creationTimestamp: '2026-01-01T00:00:00Z'}", telemetry},
	{telemetries + "{namespace: web, name: late, creationTimestamp: '2026-01-02T00:00:00Z'}", telemetry},
	{"apiVersion: app.example.com/v1\nkind: BackendPolicy\nmetadata: {namespace: web, name: early, creationTimestamp: '2026-01-01T00:00:00Z'}", policies},
	{"apiVersion: app.example.com/v1\nkind: BackendPolicy\nmetadata: {namespace: web, name: late, creationTimestamp: '2026-01-02T00:00:00Z'}", policies},
	{"apiVersion: app.example.com/v1\nkind: BackendPolicy\nmetadata: {namespace: team, name: late, creationTimestamp: '2026-01-02T00:00:00Z'}", policies},
}

const (
	class        = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: app}"
	gateways     = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: "
	listenerSets = "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: "
	grants       = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: "
	telemetries  = "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XTelemetryPolicy\nmetadata: "
	routes       = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: "
)

var (
	httpRoutes = []string{
		"spec: {parentRefs: [{namespace: web, name: shop}], rules: [{backendRefs: [{name: api, port: 80}]}]}",
		"spec: {parentRefs: [{namespace: web, name: shop, sectionName: https}, {namespace: team, name: edge}], hostnames: [a.io, b.a.io], " +
			"rules: [{backendRefs: [{namespace: team, name: api, port: 80}]}]}",
		"spec: {parentRefs: [{kind: ListenerSet, name: set}], rules: [{backendRefs: [{name: gone, port: 80}]}]}",
		"spec: {parentRefs: [{group: app.example.com, kind: Gateway, namespace: web, name: own}, {namespace: web, name: shop}], hostnames: [a.io], " +
			"rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: office}}], backendRefs: [{name: api, port: 80}]}]}",
		"spec: {parentRefs: [{group: app.example.com, kind: Gateway, namespace: team, name: edge}]}",
		dear,
		"spec: {parentRefs: [{name: gone}]}",
		"spec: {parentRefs: [{kind: ListenerSet, name: third, namespace: team}, {namespace: web, name: shop, port: 80}], hostnames: [a.io], rules: [{backendRefs: [{namespace: web, name: api, port: 80}, {namespace: team, name: api, port: 80}]}]}",
		"spec: {parentRefs: [{namespace: web, name: shop}], hostnames: [a.io, '*.a.io'], rules: [{matches: [{queryParams: [{name: two, value: a}]}], backendRefs: [{name: api, port: 80}]}]}",
		"spec: {parentRefs: [{namespace: web, name: shop}, {namespace: team, name: edge}], rules: [{matches: [{headers: [{name: x-two, value: a}]}], backendRefs: [{name: api, port: 80}]}, {backendRefs: [{namespace: team, name: api, port: 80}]}]}",
		"spec: {parentRefs: [{kind: ListenerSet, name: second, namespace: team}, {kind: ListenerSet, name: second, namespace: team, sectionName: less}], hostnames: [b.a.io], rules: [{backendRefs: [{name: api, port: 80}]}]}",
	}
	// dear is a route whose expressions take so many steps that a host has no more than one of it.
	dear = "spec: {parentRefs: [{namespace: web, name: shop}], hostnames: [dear.io], rules: [" + strings.Join(dearRules(10), ", ") + "]}"

	telemetry = []string{
		"spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: shop}], tracing: {mode: Disabled}}",
		"spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: shop}], " +
			"tracing: {mode: Enabled, provider: {backendRef: {name: api, port: 80}}}}",
		"spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}, {group: gateway.networking.k8s.io, kind: Gateway, name: shop}], " +
			"tracing: {mode: Enabled, provider: {backendRef: {namespace: team, name: api, port: 80}}}}",
	}

	policies = []string{
		"spec: {targetRefs: [{group: '', kind: Service, name: api}], connections: {maxPerEndpoint: 10}}",
		"spec: {targetRefs: [{group: '', kind: Service, name: api, sectionName: h2}, {group: '', kind: Service, name: gone}], connections: {maxPerEndpoint: 20}}",
	}
)

func dearRules(n int) []string {
	var rules []string
	for i := range n {
		rules = append(rules, fmt.Sprintf("{matches: [{path: {type: RegularExpression, value: '/[a-z]*[a-z]*%d'}}]}", i))
	}
	return rules
}

// TestIncremental makes random edits of all kinds, and lets the Controller look at what they change until there is
// nothing to write. Then a look at everything, from nothing, must find nothing to write, either.
func TestIncremental(t *testing.T) {
	f := newFixture(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}")
	random := testtier.Rand(t)
	for n := 0; n < edits; {
		var done []string
		for range 1 + random.IntN(3) {
			done = append(done, f.editAtRandom(random))
			n++
		}
		what := fmt.Sprintf("edit %d, %s", n, strings.Join(done, ", "))
		f.settleAll(what)
		f.controller.index, f.controller.compilers, f.controller.isIncomplete = nil, nil, true
		f.controller.seen = nil
		if writes, err := f.sync(); err != nil || len(writes) > 0 {
			t.Fatalf("after %s, a look at everything writes %q, %v", what, writes, err)
		}
	}
}

// settleAll syncs until there is nothing to write.
func (f *fixture) settleAll(what string) {
	f.t.Helper()
	for range 10 {
		f.catchUp()
		writes, err := f.sync()
		if err != nil && !children.OnlyOutdated(err) {
			f.t.Fatalf("after %s: %v", what, err)
		}
		if len(writes) == 0 && err == nil {
			return
		}
	}
	f.t.Fatalf("after %s, ten syncs in a row had something to write", what)
}

// editAtRandom makes an edit, and returns what it is.
func (f *fixture) editAtRandom(random *rand.Rand) string {
	f.t.Helper()
	switch random.IntN(9) {
	case 0, 1:
		return f.reportAtRandom(random)
	case 2:
		return f.spoilAtRandom(random)
	}
	variant := variants[random.IntN(len(variants))]
	object, kind, err := decoder.Decode([]byte(variant.header+"\n"+variant.bodies[0]), nil, nil)
	must.Do(f.t, err)
	accessor := object.(metav1.Object)
	what := fmt.Sprintf("%s %s/%s", kind.Kind, accessor.GetNamespace(), accessor.GetName())
	resource, _ := f.resourceOf(*kind)
	if _, exists := f.stamps[keyOf(resource, accessor.GetNamespace(), accessor.GetName())]; exists && random.IntN(3) == 0 {
		f.remove(*kind, accessor.GetNamespace(), accessor.GetName())
		if kind.Kind == "Gateway" && kind.Group == gatewayv1.GroupName { // the garbage collector does
			if own := f.ownGateway(accessor.GetNamespace(), accessor.GetName()); own != nil && metav1.GetControllerOf(own) != nil {
				f.remove(ownKind("Gateway"), own.Namespace, own.Name)
			}
		}
		return "removed " + what
	}
	i := random.IntN(len(variant.bodies))
	header := variant.header
	if born := f.born(*kind, accessor, random); born != "" && strings.HasSuffix(header, "}") && !strings.Contains(header, "creationTimestamp") {
		header = strings.TrimSuffix(header, "}") + ", creationTimestamp: '" + born + "'}"
		what += " of " + born
	}
	f.put(header + "\n" + variant.bodies[i])
	return fmt.Sprintf("%s is variant %d", what, i)
}

// born returns when an object was made, or will be; "": it has no such time.
func (f *fixture) born(kind schema.GroupVersionKind, object metav1.Object, random *rand.Rand) string {
	for _, other := range f.list(kind) {
		if other.GetNamespace() != object.GetNamespace() || other.GetName() != object.GetName() {
			continue
		}
		if made := other.GetCreationTimestamp(); !made.IsZero() {
			return made.UTC().Format(time.RFC3339)
		}
		return ""
	}
	return fmt.Sprintf("2026-01-%02dT00:00:00Z", 1+random.IntN(28))
}

// reportAtRandom has a Gateway of our own be Programmed, or not, and its proxy run everything, with a problem or none.
func (f *fixture) reportAtRandom(random *rand.Rand) string {
	f.t.Helper()
	own := f.list(ownKind("Gateway"))
	if len(own) == 0 {
		return "nothing"
	}
	chosen := own[random.IntN(len(own))].(*appv1.Gateway)
	if random.IntN(3) == 0 {
		f.program(chosen.Namespace, chosen.Name)
		chosen = f.ownGateway(chosen.Namespace, chosen.Name)
	}
	if len(chosen.Status.Conditions) > 0 && random.IntN(6) == 0 {
		chosen.Status.Conditions[0].Status = metav1.ConditionFalse
		chosen.Status.Conditions[0].Message = fmt.Sprint("proxy ", random.IntN(2), " does not run it")
		f.putObject(ownKind("Gateway"), chosen)
	}
	what := fmt.Sprintf("Gateway %s/%s reports", chosen.Namespace, chosen.Name)
	for _, object := range f.list(ownKind("GatewayProxy")) {
		report := object.(*appv1.GatewayProxy)
		if report.Namespace != chosen.Namespace || report.Status.Gateway.Name != chosen.Name {
			continue
		}
		problem := problems[random.IntN(len(problems))]
		problem.Message = fmt.Sprint("it is wrong ", random.IntN(2))
		report.Status.Problems = []appv1.ProxyProblem{problem}
		report.Status.OmittedProblems = int32(random.IntN(8) / 7)
		f.putObject(ownKind("GatewayProxy"), report)
		what += " " + problem.Origin.Name
	}
	return what
}

var problems = []appv1.ProxyProblem{
	{Origin: appv1.ProblemOrigin{Kind: "Secret", Name: "users"}, Reason: appv1.ProblemInvalidUsersRef},
	{Origin: appv1.ProblemOrigin{Kind: "ConfigMap", Name: "keys"}, Reason: appv1.ProblemInvalidKeysRef},
	{Origin: appv1.ProblemOrigin{Kind: "ConfigMap", Name: "ca"}, Reason: appv1.ProblemInvalidCACertificateRef},
	{Origin: appv1.ProblemOrigin{Kind: "Secret", Name: "tls"}, Listener: "https", Reason: appv1.ProblemInvalidCertificateRef},
}

// spoilAtRandom has somebody else remove the status of a route, or an object that the Controller or proxies made.
func (f *fixture) spoilAtRandom(random *rand.Rand) string {
	f.t.Helper()
	kind := []schema.GroupVersionKind{routeKind("HTTPRoute"), routeKind("HTTPRoute"), roleBindings, endpointSlices, ownKind("GatewayProxy")}[random.IntN(5)]
	all := f.list(kind)
	if len(all) == 0 {
		return "nothing"
	}
	object := all[random.IntN(len(all))]
	what := fmt.Sprintf("%s %s/%s", kind.Kind, object.GetNamespace(), object.GetName())
	if route, ok := object.(*gatewayv1.HTTPRoute); ok {
		route.Status.Parents = nil
		f.putObject(kind, object.(runtime.Object))
		return what + " has no status"
	}
	f.remove(kind, object.GetNamespace(), object.GetName())
	return "removed " + what
}

// TestEditsAreIncremental: an edit of an object costs what it changes, of all kinds but those that data planes are made
// of. Of those, nothing is translated anew that is as it was.
func TestEditsAreIncremental(t *testing.T) {
	const filter = "apiVersion: app.example.com/v1\nkind: RouteFilter\nmetadata: {namespace: web, name: office}\nspec: {filters: [{type: ClientAddress, clientAddress: {allow: [%s]}}]}"
	const makesPlanes = "GatewayClass"
	f := newFixture(t, allKinds+"\n---"+policy+"---\n"+fmt.Sprintf(filter, "10.0.0.0/8")+"\n---\n"+teamService)
	f.settleAll("all kinds are there")
	f.program("web", "shop")
	f.settleAll("the proxies run")
	for kind := range kinds {
		all := f.list(kind)
		if len(all) == 0 || nameOfKind(kind) == kindConfig {
			continue
		}
		object := all[0]
		if namespace, ok := object.(*corev1.Namespace); ok {
			namespace.Labels = map[string]string{"team": "other"}
		}
		f.putObject(kind, object.(runtime.Object))
		resource, _ := f.resourceOf(kind)
		key := keyOf(resource, object.GetNamespace(), object.GetName())
		now := f.stamps[key]
		now.generation++ // whatever it is that changed
		f.stamps[key] = now
		before := f.translated()
		f.catchUp()
		tasks := f.tasks()
		result := f.controller.evaluateChanged(t.Context(), tasks)
		if isWhole := nameOfKind(kind) == makesPlanes; isWhole != (result == nil) || len(tasks) == 0 {
			t.Errorf("%s: %d changes are evaluated alone: %t, want %t", kind.Kind, len(tasks), result != nil, !isWhole)
		}
		f.controller.queue.Add(rebuild)
		f.settleAll("an edit of " + kind.Kind)
		after := f.translated()
		for id, was := range before {
			if is := after[id]; is != was && id.Kind != kind.Kind && kind.Kind == makesPlanes {
				t.Errorf("%s: %s %s is translated anew", kind.Kind, id.Kind, id.Name)
			}
		}
	}
}

// TestEditsOfAllKindsCostWhatTheyChange counts the routes whose status is looked at because of an edit: those that it
// changes, of few or of many.
func TestEditsOfAllKindsCostWhatTheyChange(t *testing.T) {
	const (
		gateway = gateways + "{namespace: web, name: shop}\nspec:\n  gatewayClassName: app\n"
		http    = "{name: http, port: 80, protocol: HTTP}"
		other   = "{name: other, port: 81, protocol: HTTP, hostname: %s}"
		config  = "apiVersion: app.example.com/v1\nkind: GatewayConfig\nmetadata: {namespace: web, name: settings}\nspec: {%s}"
		grpc    = "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {namespace: web, name: grpc}\n" +
			"spec: {parentRefs: [{name: shop, sectionName: http}], hostnames: [r1.example.com], rules: [{backendRefs: [{name: api, port: 80}]}]}"
	)
	listeners := func(hostname string) string {
		return "  listeners: [" + http + ", " + fmt.Sprintf(other, hostname) + "]"
	}
	for _, n := range []int{20, 200} {
		f := newSectioned(t, n, fmt.Sprintf(config, "replicas: 1"), gateway+listeners("'*.example.com'"))
		for _, test := range []struct {
			what string
			edit func()
			want int
		}{
			{"annotations", func() { f.put(gateway + "  infrastructure: {annotations: {a: b}}\n" + listeners("'*.example.com'")) }, 0},
			{"its data plane", func() { f.program("web", "shop") }, 0},
			{"addresses", func() { f.put(gateway + "  addresses: [{value: 192.0.2.1}]\n" + listeners("'*.example.com'")) }, 0},
			{"its data plane again", func() { f.program("web", "shop") }, 0},
			{"a listener", func() { f.put(gateway + listeners("r2.example.com")) }, 1},
			{"a listener more", func() {
				f.put(gateway + "  listeners: [" + http + ", " + fmt.Sprintf(other, "r2.example.com") + ", {name: more, port: 82, protocol: HTTP}]")
			}, 0},
			{"a GRPCRoute", func() { f.put(grpc) }, 2},
			{"no GRPCRoute", func() { f.remove(routeKind("GRPCRoute"), "web", "grpc") }, 2},
			{"replicas", func() { f.put(fmt.Sprintf(config, "replicas: 2")) }, 0},
			{"filters", func() {
				f.put(fmt.Sprintf(config, "replicas: 2, filters: [{type: ClientAddress, clientAddress: {deny: [10.0.0.0/8]}}]"))
			}, 0},
		} {
			test.edit()
			f.catchUp()
			result := f.controller.evaluateChanged(t.Context(), f.tasks())
			if result == nil {
				t.Errorf("%s: everything is evaluated", test.what)
			} else if got := routesIn(result.objects); got != test.want {
				t.Errorf("%s: the status of %d of %d routes is looked at, want %d", test.what, got, n, test.want)
			}
			f.controller.queue.Add(rebuild)
			f.settleAll(test.what)
			f.program("web", "shop")
			f.settleAll("the proxies run")
		}
	}
}

// newSectioned returns a Gateway with a GatewayConfig and HTTPRoutes, all of its listener http, but for r2 of other.
func newSectioned(t *testing.T, n int, config, gateway string) *fixture {
	t.Helper()
	f := newFixture(t, shop)
	f.remove(routeKind("HTTPRoute"), "web", "api")
	f.put(class + "\nspec: {controllerName: app.example.com/gateway, parametersRef: {group: app.example.com, kind: GatewayConfig, namespace: web, name: settings}}")
	f.put(config)
	f.put(gateway)
	for i := range n {
		name := "http"
		if i == 2 {
			name = "other"
		}
		f.put(fmt.Sprintf(routes+"{namespace: web, name: r%d}\nspec: {parentRefs: [{name: shop, sectionName: %s}], hostnames: [r%[1]d.example.com], "+
			"rules: [{backendRefs: [{name: api, port: 80}]}]}", i, name))
	}
	f.settleAll("routes are there")
	f.program("web", "shop")
	f.settleAll("the proxies run")
	return f
}

// routesIn is how many of some objects are routes that exist.
func routesIn(objects map[source.Object]bool) (n int) {
	for id := range objects {
		if source.IsRoute(id.Kind) {
			n++
		}
	}
	return n
}

// translated are the rules of the routes that data planes have.
func (f *fixture) translated() map[model.Origin]*model.Rule {
	all := map[model.Origin]*model.Rule{}
	for _, plane := range f.controller.index.Result().Planes {
		for _, route := range plane.Routes.All() {
			if len(route.Rules) > 0 {
				all[route.Origin] = &route.Rules[0]
			}
		}
	}
	return all
}

// tasks takes what there is to look at.
func (f *fixture) tasks() (tasks []task) {
	for f.controller.queue.Len() > 0 {
		next, _ := f.controller.queue.Get()
		f.controller.queue.Done(next)
		tasks = append(tasks, next)
	}
	return tasks
}
