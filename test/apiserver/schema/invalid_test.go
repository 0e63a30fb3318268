package schema

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the API server says of an object that meets no alternative of an anyOf, or not all of an allOf, and of a value
// that a not is about.
const (
	none      = "must validate at least one schema (anyOf)"
	notAll    = "must validate all the schemas (allOf)"
	forbidden = "must not validate the schema (not)"
)

// Fragments that more than one case needs.
const (
	http   = "spec: {listeners: [{name: http, port: 80, protocol: HTTP}]"
	route  = http + ", routes: [{name: shop, rules: [{}]"
	rule   = http + ", routes: [{name: shop, rules: "
	match  = rule + "[{matches: [{path: "
	filter = rule + "[{filters: [{type: "
	ref    = rule + "[{backendRefs: ["
	deploy = http + ", pods: {resources: "
)

// refusal is a Gateway the API server must refuse with an error that has all of want.
type refusal struct {
	why  string
	name string
	spec string
	want []string
}

// invalid are those about what every Gateway has. The simple constraints of single fields are TestConstraints'
// business; those that are here too are here for their messages.
var invalid = []refusal{
	{"no spec", "", "", []string{"spec: Required value"}},
	{"no listeners field", "", "spec: {}", []string{"spec.listeners: Required value"}},
	{"an empty list of listeners", "", "spec: {listeners: []}",
		[]string{"spec.listeners: Invalid value: 0: spec.listeners in body should have at least 1 items"}},
	{"65 listeners", "", "spec: {listeners: [" + repeat(65, "{name: l%d, port: %[1]d, protocol: HTTP}", 1) + "]}",
		[]string{"spec.listeners: Too many: 65: must have at most 64 items"}},
	{"a name that leaves no room for the children's", strings.Repeat("a", 56), http + "}",
		[]string{"metadata.name must have at most 55 characters"}},
	{"a name no Service could have", "1shop", http + "}", []string{"metadata.name must be a DNS label"}},
	{"the routes name listeners more often than is allowed", "",
		http + ", routes: [" + repeat(4096, "{name: r%d, listeners: [a, b, c], rules: [{}]}", 1) + "]}",
		[]string{"spec.routes: Invalid value: the routes name listeners more than 8192 times in all: leave out routes[].listeners"}},
	{"a name with a dot", "shop.example", http + "}", []string{"metadata.name must be a DNS label"}},

	{"a listener without a name", "", "spec: {listeners: [{port: 80, protocol: HTTP}]}",
		[]string{"spec.listeners[0].name: Required value"}},
	{"a listener with an empty name", "", "spec: {listeners: [{name: '', port: 80, protocol: HTTP}]}",
		[]string{"spec.listeners[0].name: Invalid value: \"\": spec.listeners[0].name in body should be at least 1 chars long"}},
	{"a listener's name in upper case", "", "spec: {listeners: [{name: HTTP, port: 80, protocol: HTTP}]}",
		[]string{`spec.listeners[0].name: Invalid value: "HTTP": spec.listeners[0].name in body should match '^[a-z0-9]`}},
	{"a listener's name that is too long", "",
		"spec: {listeners: [{name: " + strings.Repeat("a", 64) + ", port: 80, protocol: HTTP}]}",
		[]string{"spec.listeners[0].name: Too long: may not be more than 63 bytes"}},
	{"two listeners with one name", "",
		"spec: {listeners: [{name: a, port: 80, protocol: HTTP}, {name: a, port: 81, protocol: HTTP}]}",
		[]string{`spec.listeners[1]: Duplicate value: {"name":"a"}`}},
	{"two listeners with one port and no hostname", "",
		"spec: {listeners: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTP}]}",
		[]string{"spec.listeners: Invalid value: two listeners have the same port and hostname: change the port or the hostname"}},
	{"two listeners with one port and hostname", "",
		"spec: {listeners: [{name: a, port: 80, protocol: HTTP, hostname: x.y}, {name: b, port: 80, protocol: HTTP, hostname: x.y}]}",
		[]string{"spec.listeners: Invalid value: two listeners have the same port and hostname"}},
	{"a listener without a port", "", "spec: {listeners: [{name: http, protocol: HTTP}]}",
		[]string{"spec.listeners[0].port: Required value"}},
	{"port 0", "", "spec: {listeners: [{name: http, port: 0, protocol: HTTP}]}",
		[]string{"spec.listeners[0].port: Invalid value: 0: spec.listeners[0].port in body should be greater than or equal to 1"}},
	{"port 65536", "", "spec: {listeners: [{name: http, port: 65536, protocol: HTTP}]}",
		[]string{"spec.listeners[0].port: Invalid value: 65536: spec.listeners[0].port in body should be less than or equal to 65535"}},
	{"a port by name", "", "spec: {listeners: [{name: http, port: http, protocol: HTTP}]}",
		[]string{`spec.listeners[0].port: Invalid value: "string": spec.listeners[0].port in body must be of type integer`}},
	{"the port of HAProxy's metrics", "", "spec: {listeners: [{name: http, port: 8404, protocol: HTTP}]}",
		[]string{"spec.listeners[0].port: Invalid value: 8404: ports 8404 and 8405 are reserved", "choose another port"}},
	{"the port of the agent", "", "spec: {listeners: [{name: http, port: 8405, protocol: HTTP}]}",
		[]string{"spec.listeners[0].port: Invalid value: 8405: ports 8404 and 8405 are reserved"}},
	{"a listener without a protocol", "", "spec: {listeners: [{name: http, port: 80}]}",
		[]string{"spec.listeners[0].protocol: Required value"}},
	{"a protocol that is not supported", "", "spec: {listeners: [{name: http, port: 80, protocol: UDP}]}",
		[]string{`spec.listeners[0].protocol: Unsupported value: "UDP": supported values: "HTTP", "HTTPS", "TCP", "TLS"`}},
	{"a listener's hostname in upper case", "", "spec: {listeners: [{name: http, port: 80, protocol: HTTP, hostname: Shop.example.com}]}",
		[]string{`spec.listeners[0].hostname: Invalid value: "Shop.example.com"`, "should match"}},
	{"a hostname that is only a wildcard", "", "spec: {listeners: [{name: http, port: 80, protocol: HTTP, hostname: '*'}]}",
		[]string{`spec.listeners[0].hostname: Invalid value: "*"`}},
	{"a wildcard inside a hostname", "", "spec: {listeners: [{name: http, port: 80, protocol: HTTP, hostname: a.*.example.com}]}",
		[]string{`spec.listeners[0].hostname: Invalid value: "a.*.example.com"`}},
	{"a hostname that is too long", "",
		"spec: {listeners: [{name: http, port: 80, protocol: HTTP, hostname: " + strings.Repeat("a", 254) + "}]}",
		[]string{"spec.listeners[0].hostname: Too long: may not be more than 253 bytes"}},
	{"an unknown field of a listener", "", "spec: {listeners: [{name: http, port: 80, protocol: HTTP, address: a}]}",
		[]string{`unknown field "spec.listeners[0].address"`}},

	{"a negative number of replicas", "", http + ", replicas: -1}",
		[]string{"spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0"}},
	{"too many replicas", "", http + ", replicas: 101}",
		[]string{"spec.replicas: Invalid value: 101: spec.replicas in body should be less than or equal to 100"}},

	{"a route without a name", "", http + ", routes: [{rules: [{}]}]}", []string{"spec.routes[0].name: Required value"}},
	{"a route's name with a line break", "", http + ", routes: [{name: \"a\\nb\", rules: [{}]}]}",
		[]string{`spec.routes[0].name: Invalid value: "a\nb"`}},
	{"two routes with one name", "", http + ", routes: [{name: a, rules: [{}]}, {name: a, rules: [{}]}]}",
		[]string{`spec.routes[1]: Duplicate value: {"name":"a"}`}},
	{"4097 routes", "", http + ", routes: [" + repeat(4097, "{name: r%d, rules: [{}]}", 1) + "]}",
		[]string{"spec.routes: Too many: 4097: must have at most 4096 items"}},
	{"a listener that does not exist", "", route + ", listeners: [htpp]}]}",
		[]string{"spec.routes: Invalid value: every name in routes[].listeners must be the name of a listener in spec.listeners: correct the name or add"}},
	{"a listener named twice", "", route + ", listeners: [http, http]}]}",
		[]string{`spec.routes[0].listeners[1]: Duplicate value: "http"`}},
	{"17 listeners of a route", "", route + ", listeners: [" + repeat(17, "l%d", 1) + "]}]}",
		[]string{"spec.routes[0].listeners: Too many: 17: must have at most 16 items"}},
	{"a route's hostname with a port", "", route + ", hostnames: ['shop.example.com:80']}]}",
		[]string{`spec.routes[0].hostnames[0]: Invalid value: "shop.example.com:80"`}},
	{"a route's hostname that would end a quoted string", "", route + ", hostnames: ['a\" b']}]}",
		[]string{`spec.routes[0].hostnames[0]: Invalid value: "a\" b"`}},
	{"an empty hostname of a route", "", route + ", hostnames: ['']}]}",
		[]string{"spec.routes[0].hostnames[0]: Invalid value: \"\": spec.routes[0].hostnames[0] in body should be at least 1 chars long"}},
	{"a hostname twice", "", route + ", hostnames: [a.b, a.b]}]}",
		[]string{`spec.routes[0].hostnames[1]: Duplicate value: "a.b"`}},
	{"65 hostnames", "", route + ", hostnames: [" + repeat(65, "h%d", 1) + "]}]}",
		[]string{"spec.routes[0].hostnames: Too many: 65: must have at most 64 items"}},
	{"a route without rules", "", http + ", routes: [{name: a}]}", []string{"spec.routes[0].rules: Required value"}},
	{"an empty list of rules", "", rule + "[]}]}",
		[]string{"spec.routes[0].rules: Invalid value: 0: spec.routes[0].rules in body should have at least 1 items"}},
	{"17 rules", "", rule + "[" + repeat(17, "{}", 1) + "]}]}",
		[]string{"spec.routes[0].rules: Too many: 17: must have at most 16 items"}},

	{"65 matches", "", rule + "[{matches: [" + repeat(65, "{}", 1) + "]}]}]}",
		[]string{"spec.routes[0].rules[0].matches: Too many: 65: must have at most 64 items"}},

	{"a backend without a name", "", ref + "{port: 80}]}]}]}",
		[]string{"spec.routes[0].rules[0].backendRefs[0].name: Required value"}},
	{"a backend without a port", "", ref + "{name: a}]}]}]}",
		[]string{"spec.routes[0].rules[0].backendRefs[0].port: Required value"}},
	{"a backend no Service can be", "", ref + "{name: a.b, port: 80}]}]}]}",
		[]string{`spec.routes[0].rules[0].backendRefs[0].name: Invalid value: "a.b"`}},
	{"a backend's port above the highest", "", ref + "{name: a, port: 65536}]}]}]}",
		[]string{"spec.routes[0].rules[0].backendRefs[0].port: Invalid value: 65536"}},
	{"a negative weight", "", ref + "{name: a, port: 80, weight: -1}]}]}]}",
		[]string{"spec.routes[0].rules[0].backendRefs[0].weight: Invalid value: -1", "greater than or equal to 0"}},
	{"a weight that is too great", "", ref + "{name: a, port: 80, weight: 1000001}]}]}]}",
		[]string{"spec.routes[0].rules[0].backendRefs[0].weight: Invalid value: 1000001", "less than or equal to 1000000"}},
	{"a backend in another namespace", "", ref + "{name: a, port: 80, namespace: b}]}]}]}",
		[]string{`unknown field "spec.routes[0].rules[0].backendRefs[0].namespace"`}},
	{"17 backends", "", ref + repeat(17, "{name: b%d, port: 80}", 1) + "]}]}]}",
		[]string{"spec.routes[0].rules[0].backendRefs: Too many: 17: must have at most 16 items"}},

	{"a type of Service without ports", "", http + ", service: {type: ExternalName}}",
		[]string{`spec.service.type: Unsupported value: "ExternalName": supported values: "ClusterIP", "NodePort", "LoadBalancer"`}},
	{"a class without a load balancer", "", http + ", service: {type: ClusterIP, loadBalancerClass: internal}}",
		[]string{"spec.service.loadBalancerClass: Invalid value", "loadBalancerClass is only for type LoadBalancer"}},
	{"an address that is none", "", http + ", service: {address: shop.example.com}}",
		[]string{`spec.service.address: Invalid value: "shop.example.com": the address must be an IP address, like 203.0.113.7`}},
	{"source ranges without a load balancer", "", http + ", service: {type: NodePort, loadBalancerSourceRanges: [10.0.0.0/8]}}",
		[]string{"spec.service.loadBalancerSourceRanges: Invalid value", "loadBalancerSourceRanges is only for type LoadBalancer"}},
	{"an address as a source range", "", http + ", service: {loadBalancerSourceRanges: [10.0.0.1]}}",
		[]string{"spec.service.loadBalancerSourceRanges: Invalid value: every source range must be a CIDR range, like 10.0.0.0/8"}},
	{"traffic from outside inside the cluster", "", http + ", service: {type: ClusterIP, externalTrafficPolicy: Local}}",
		[]string{"spec.service.externalTrafficPolicy: Invalid value", "externalTrafficPolicy is only for types NodePort and LoadBalancer"}},
	{"a node port inside the cluster", "", http + ", service: {type: ClusterIP, ports: [{port: 80, nodePort: 30080}]}}",
		[]string{"spec.service.ports: Invalid value", "a node port is only for types NodePort and LoadBalancer"}},
	{"a node port of no listener", "", http + ", service: {ports: [{port: 81, nodePort: 30080}]}}",
		[]string{"spec.service.ports: Invalid value: every port in service.ports must be the port of a listener in spec.listeners"}},
	{"a node port twice", "", "spec: {listeners: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 81, protocol: HTTP}], " +
		"service: {ports: [{port: 80, nodePort: 30080}, {port: 81, nodePort: 30080}]}}",
		[]string{"spec.service.ports: Invalid value: two ports have the same nodePort: change one of them"}},
	{"a label that selects the pods of another Gateway", "", http + ", pods: {labels: {app.example.com/gateway: other}}}",
		[]string{"spec.pods.labels: Invalid value: labels with the prefix app.example.com/", "remove them"}},
	{"a label that says who manages the pods", "", http + ", pods: {labels: {app.kubernetes.io/managed-by: me}}}",
		[]string{"spec.pods.labels: Invalid value: labels with the prefix app.example.com/"}},
	{"ports of nodes for pods that may share one", "", http + ", pods: {hostPorts: true}}",
		[]string{"spec.pods.hostPorts: Invalid value", "hostPorts is only for kind DaemonSet: two pods on a node cannot have the same port"}},
	{"a toleration with a field that there is not", "", http + ", pods: {tolerations: [{key: a, operators: Exists}]}}",
		[]string{`unknown field "spec.pods.tolerations[0].operators"`}},
	{"an annotation that is not text", "", http + ", service: {annotations: {a: 1}}}",
		[]string{`spec.service.annotations.a: Invalid value: "integer": spec.service.annotations.a in body must be of type string`}},
	{"65 annotations", "", http + ", service: {annotations: {" + repeat(65, "a%d: ''", 1) + "}}}",
		[]string{"spec.service.annotations: Too many: 65: must have at most 64 items"}},
	{"an amount of a resource that is none", "", deploy + "{limits: {cpu: much}}}}",
		[]string{`spec.pods.resources.limits.cpu: Invalid value: "much"`}},
	{"a negative amount", "", deploy + "{limits: {memory: -1Gi}}}}",
		[]string{"spec.pods.resources.limits: Invalid value: an amount must not be negative"}},
	{"a resource that is not cpu or memory", "", deploy + "{requests: {disk: 1Gi}}}}",
		[]string{"spec.pods.resources.requests: Invalid value: only cpu and memory can be set here"}},
	{"a request above its limit", "", deploy + "{limits: {memory: 1Gi}, requests: {memory: 1025Mi}}}}",
		[]string{"spec.pods.resources.requests: Invalid value: a request is greater than its limit: lower the request or raise the limit"}},
	{"answers of no type to compress", "", http + ", compression: {contentTypes: []}}", []string{"spec.compression.contentTypes: Invalid value: 0"}},
	{"answers of any type to compress", "", http + ", compression: {contentTypes: ['text/*']}}", []string{"spec.compression.contentTypes[0]: Invalid value"}},
	{"a type of answers with a line break", "", http + ", compression: {contentTypes: [\"text/a\\nb\"]}}", []string{"spec.compression.contentTypes[0]: Invalid value"}},
	{"answers of less than nothing to compress", "", http + ", compression: {minBytes: -1}}", []string{"spec.compression.minBytes: Invalid value: -1"}},
	{"credentials in the access log", "", http + ", accessLog: {requestHeaders: [Referer, COOKIE]}}", []string{"spec.accessLog.requestHeaders: Invalid value: Authorization, Cookie and Proxy-Authorization have credentials, which do not belong in a log: remove them"}},
	{"a header twice in the access log", "", http + ", accessLog: {requestHeaders: [Referer, referer]}}", []string{"spec.accessLog.requestHeaders: Invalid value: two names differ only in case: remove one of them"}},
	{"requests that are measured by path", "", http + ", requestMetrics: ByPath}", []string{"spec.requestMetrics: Unsupported value: \"ByPath\""}},
	{"a collector without a port", "", http + ", tracing: {endpoint: collector}}", []string{"spec.tracing.endpoint: Invalid value"}},
	{"a collector with a path", "", http + ", tracing: {endpoint: 'http://collector:4318/'}}", []string{"spec.tracing.endpoint: Invalid value"}},
	{"a collector on no port", "", http + ", tracing: {endpoint: 'collector:70000'}}", []string{"spec.tracing.endpoint: Invalid value", "a port is at most 65535"}},
	{"no collector", "", http + ", tracing: {samplingRatePerMillion: 1}}", []string{"spec.tracing.endpoint: Required value"}},
	{"more samples than requests", "", http + ", tracing: {endpoint: 'collector:4318', samplingRatePerMillion: 1000001}}",
		[]string{"spec.tracing.samplingRatePerMillion: Invalid value: 1000001"}},
	{"HTTP/3 that is forgotten at once", "", http + ", http3: {maxAgeSeconds: 0}}", []string{"spec.http3.maxAgeSeconds: Invalid value: 0"}},
	{"pages for no status", "", http + ", errorPages: [{statuses: [], body: a}]}", []string{"spec.errorPages[0].statuses: Invalid value: 0"}},
	{"pages for a status of backends", "", http + ", errorPages: [{statuses: [418], body: a}]}", []string{"spec.errorPages[0].statuses[0]: Unsupported value: 418"}},
	{"two pages for a status", "", http + ", errorPages: [{statuses: [502, 503], body: a}, {statuses: [503], body: b}]}",
		[]string{"spec.errorPages: Invalid value: two pages are for the same status: remove it from one of them"}},
	{"a page without a body", "", http + ", errorPages: [{statuses: [503], body: ''}]}", []string{"spec.errorPages[0].body: Invalid value"}},
	{"a page of 12289 bytes", "", http + ", errorPages: [{statuses: [503], body: '" + strings.Repeat("é", 6144) + "a'}]}",
		[]string{"spec.errorPages[0].body: Invalid value", ": it is longer than 12288 bytes: link to what is large"}},
	{"a page that gRPC takes for an answer", "", http + ", errorPages: [{statuses: [503], contentType: application/GRPC-web, body: a}]}",
		[]string{`spec.errorPages[0].contentType: Invalid value: "application/GRPC-web": clients of gRPC would take the page for an answer of a backend: use another type`}},
	{"a page with a type that ends the header", "", http + ", errorPages: [{statuses: [503], contentType: \"a/b\\nc\", body: a}]}",
		[]string{"spec.errorPages[0].contentType: Invalid value"}},
	{"less to store than HAProxy can", "", http + ", cache: {sizeMiB: 3}}", []string{"spec.cache.sizeMiB: Invalid value: 3"}},
	{"more to store than a pod has", "", http + ", cache: {sizeMiB: 1025}}", []string{"spec.cache.sizeMiB: Invalid value: 1025"}},
	{"answers that fill half of what is stored", "", http + ", cache: {maxObjectBytes: 2097153}}", []string{"spec.cache.maxObjectBytes: Invalid value: 2097153"}},
	{"answers that are stored for no time", "", http + ", cache: {maxAgeSeconds: 0}}", []string{"spec.cache.maxAgeSeconds: Invalid value: 0"}},
	{"answers that are stored for ever", "", http + ", cache: {maxAgeSeconds: 86401}}", []string{"spec.cache.maxAgeSeconds: Invalid value: 86401"}},
	{"no headers", "", http + ", clientLimits: {maxHeaders: 0}}", []string{"spec.clientLimits.maxHeaders: Invalid value: 0"}},
	{"headers that are larger than buffers", "", http + ", clientLimits: {maxHeaderBytes: 1000000}}",
		[]string{"spec.clientLimits.maxHeaderBytes: Invalid value: 1000000"}},
	{"no connection for anybody", "", http + ", clientLimits: {maxConnections: 0}}",
		[]string{"spec.clientLimits.maxConnections: Invalid value: 0"}},
	{"an unknown field of the spec", "", http + ", snippet: abort}", []string{`unknown field "spec.snippet"`}},
}

func TestInvalid(t *testing.T) {
	said := &messages{}
	t.Run("objects", func(t *testing.T) {
		for _, c := range slices.Concat(invalid, invalidRoutes, invalidFilters(), invalidTLS, invalidBackends) {
			t.Run(c.why, func(t *testing.T) {
				t.Parallel()
				name := c.name
				if name == "" {
					name = "shop"
				}
				said.add(expectRefusal(t, name, c.spec, c.want...))
			})
		}
	})
	said.add(expectRefusedEdit(t, "kind", http+"}", http+", pods: {kind: DaemonSet}}",
		"spec.pods.kind: Invalid value: the kind of the pods cannot change: make another Gateway"))
	said.add(expectRefusedEdit(t, "class", http+", service: {loadBalancerClass: internal}}", http+", service: {loadBalancerClass: public}}",
		"spec.service.loadBalancerClass: Invalid value: a load balancer keeps its class: to change it, set another type first"))
	expectEveryRule(t, said.all)
}

// messages are what the API server said, from several tests at a time.
type messages struct {
	mu  sync.Mutex
	all []string
}

func (m *messages) add(message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, message)
}

var index = regexp.MustCompile(`\[\d+\]`)

// expectEveryRule checks that every CEL rule, anyOf, allOf and not of the published schema has refused something.
func expectEveryRule(t *testing.T, said []string) {
	t.Helper()
	all := index.ReplaceAllString(strings.Join(said, "\n"), "[]")
	b := breaker{t: t, object: everything(t), dear: map[string][]string{}}
	root := crdSchema(t.Context(), t, "gateways")
	b.visit("spec", root["properties"].(map[string]any)["spec"].(map[string]any), []place{{"spec"}})
	for _, rule := range root["x-kubernetes-validations"].([]any) {
		b.dear["metadata"] = append(b.dear["metadata"], rule.(map[string]any)["message"].(string))
	}
	rules := 0
	for name, kinds := range b.dear {
		for _, kind := range kinds {
			rules++
			want := kind
			switch kind {
			case "anyOf":
				want = `"` + name + `" ` + none
			case "allOf":
				want = `"` + name + `" ` + notAll
			case "not":
				want = `"` + name + `" ` + forbidden
			}
			if !strings.Contains(all, want) {
				t.Errorf("no case of TestInvalid is refused because of %s: %s", name, kind)
			}
		}
	}
	if rules < 45 {
		t.Errorf("only %d rules were found in the schema", rules)
	}
}

// expectRefusal checks that the API server refuses the Gateway with an error that has all of want, and returns the
// error.
func expectRefusal(t *testing.T, name, spec string, want ...string) string {
	t.Helper()
	_, err := create(t.Context(), object(t, name, spec), true)
	if err == nil {
		t.Fatalf("the API server admits it, and should not:\n%s", abridged(spec))
	}
	got := err.Error()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("the error is\n  %s\nand should contain\n  %s", abridged(got), w)
		}
	}
	return got
}

// expectRefusedEdit does it for an edit of a Gateway that the API server has.
func expectRefusedEdit(t *testing.T, name, before, after, want string) string {
	t.Helper()
	live, err := create(t.Context(), object(t, name, before), false)
	if err != nil {
		t.Fatal(err)
	}
	edited := object(t, name, after)
	edited.SetResourceVersion(live.GetResourceVersion())
	_, err = server.Dynamic.Resource(gateways).Namespace("default").Update(t.Context(), edited, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("the error is %v and should contain %s", err, want)
	}
	return err.Error()
}

func abridged(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}
