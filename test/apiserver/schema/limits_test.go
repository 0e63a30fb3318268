package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gateway/internal/must"
)

// repeat formats the numbers from first on and joins the results as a YAML flow list does.
func repeat(n int, format string, first int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = format
		if strings.Contains(format, "%") {
			items[i] = fmt.Sprintf(format, first+i)
		}
	}
	return strings.Join(items, ", ")
}

// Listener names of 63 characters.
var longest = strings.Repeat("l", 60)

// Values at their limits: headers to change, filters that may be together, and text.
var (
	headers = "{set: [" + repeat(16, "{name: s%d, value: a}", 1) + "], add: [" + repeat(16, "{name: a%d, value: a}", 1) +
		"], remove: [" + repeat(16, "r%d", 1) + "]}"
	token       = "{type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {inline: a}}]}}"
	everyFilter = "{type: RequestHeaderModifier, requestHeaderModifier: " + headers + "}, {type: ResponseHeaderModifier, responseHeaderModifier: " +
		headers + "}, {type: URLRewrite, urlRewrite: {hostname: a.b}}, {type: CORS, cors: {allowOrigins: ['*']}}, " +
		"{type: ClientAddress, clientAddress: {deny: [10.0.0.0/8]}}, {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}, {requests: 1000000, unit: Minute, key: {type: Rule}}, {requests: 1, unit: Second, key: {type: Claim, name: " + strings.Repeat("c", 128) + "}}], concurrent: {requests: 1000000, key: {type: Header, name: " + strings.Repeat("c", 128) + "}}}}, " + token + ", {type: ExternalAuth, externalAuth: {backendRef: {name: a, port: 80}, requestHeaders: [" + repeat(16, "h%d", 1) + "], responseHeaders: [" + repeat(16, "h%d", 1) + "]}}, " +
		"{type: RequestMirror, requestMirror: {backendRefs: [{name: a, port: 80}]}}"
	long           = strings.Repeat("v", 1024)
	everyCharacter = ` !\"#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[\\]^_` + "`" + `abcxyz{|}~`
)

// admitted is a Gateway that the API server must admit.
type admitted struct{ why, name, spec string }

// valid are Gateways at the limits, which the API server must admit and etcd store: nothing the schema allows may fail
// for what its rules cost, and the largest useful objects fit. The build tag slow adds the largest.
var valid = []admitted{
	{"the least there can be", "a", http + "}"},
	{"a name of 55 characters", strings.Repeat("a", 55), http + "}"},
	{"no replicas", "", http + ", replicas: 0}"},
	{"limits of bodies at all listeners", "", "spec: {listeners: [{name: a, port: 1, protocol: HTTP, maxRequestBytes: 0}, {name: b, port: 2, protocol: HTTPS, tls: {certificateRefs: [{name: a}]}, maxRequestBytes: 1099511627776}]}"},
	{"100 replicas", "", http + ", replicas: 100}"},
	{"64 listeners on different ports", "", "spec: {listeners: [" + repeat(64, "{name: l%d, port: %[1]d, protocol: HTTP}", 1) + "]}"},
	{"64 listeners on one port with long hostnames", "",
		"spec: {listeners: [" + repeat(64, "{name: "+longest+"%03d, port: 80, protocol: HTTP, hostname: l%[1]d"+
			strings.Repeat(".label-of-a-hostname", 12)+"}", 1) + "]}"},
	{"the same hostname on two ports, and a port with and without", "",
		"spec: {listeners: [{name: a, port: 80, protocol: HTTP, hostname: a.b}, {name: b, port: 81, protocol: HTTP, hostname: a.b}," +
			"{name: c, port: 80, protocol: HTTP}]}"},
	{"4096 routes with a hostname, two paths and two backends", "",
		http + ", routes: [" + repeat(4096, "{name: route-%d, hostnames: [shop-%[1]d.example.com], rules: ["+
			"{matches: [{path: {value: /api}}], backendRefs: [{name: api, port: 80}]}, {backendRefs: [{name: shop, port: 80}]}]}", 1) + "]}"},
	{"64 hostnames, 16 rules, 64 matches, 16 backends", "",
		route + ", hostnames: [" + repeat(64, "'*.h%d.example.com'", 1) + "], rules: [" +
			repeat(16, "{matches: ["+repeat(64, "{path: {type: Exact, value: /%d}}", 1)+"], backendRefs: ["+
				repeat(16, "{name: b%d, port: 80}", 1)+"]}", 1) + "]}]}"},
	{"everything of a rule", "", rule + "[{matches: [" + repeat(64, "{headers: ["+repeat(16, "{name: h%d, value: a}", 1)+
		"], queryParams: ["+repeat(16, "{name: q%d, value: a}", 1)+"], method: GET}", 1) + "], filters: [" + everyFilter + "], backendRefs: [" +
		repeat(16, "{name: b%d, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: "+headers+
			"}, {type: ResponseHeaderModifier, responseHeaderModifier: "+headers+"}]}", 1) + "]}]}]}"},
	{"values of 1024 characters", "", rule + "[{matches: [{headers: [{name: " + strings.Repeat("h", 128) + ", value: " + long +
		"}], queryParams: [{name: " + strings.Repeat("q", 128) + ", value: " + long + "}]}], filters: [{type: RequestHeaderModifier, " +
		"requestHeaderModifier: {set: [{name: a, value: " + long + "}], remove: [" + strings.Repeat("r", 128) + "]}}]}]}]}"},
	{"a regular expression of 1024 characters", "", match + "{type: RegularExpression, value: /" + strings.Repeat("a", 1023) + "}}]}]}]}"},
	{"a regular expression of every character", "", match + "{type: RegularExpression, value: \"" + everyCharacter + "\"}}]}]}]}"},
	{"a direct response of 1024 characters", "",
		filter + "DirectResponse, directResponse: {statusCode: 599, body: \"" + strings.Repeat("a", 1000) + strings.Repeat("\\n", 24) + "\"}}]}]}]}"},
	{"a direct response in any language", "", filter + "DirectResponse, directResponse: {body: \"äöü ☃ \\t \\r\\n \\u0001 \\\" '\"}}]}]}]}"},
	{"answers without a body", "", rule + "[{filters: [{type: DirectResponse, directResponse: {statusCode: 204}}]}, " +
		"{filters: [{type: DirectResponse, directResponse: {statusCode: 304, body: ''}}]}]}]}"},
	{"times at their limits", "", rule + "[{timeouts: {request: 99999h99999h99999h99999h, backendRequest: 0s}}," +
		"{timeouts: {request: 0s, backendRequest: 1ms}}, {timeouts: {request: 1s, backendRequest: 1000ms}, retry: {attempts: 10}}, {timeouts: {request: 1s}, retry: {}}," +
		"{sessionPersistence: {absoluteTimeout: 99999h}}, {maxRequestBytes: 0}, {maxRequestBytes: 1099511627776}]}]}"},
	{"64 HTTPS listeners with 16 certificates and 8 authorities each", "", "spec: {listeners: [" + repeat(64,
		"{name: l%d, port: 443, protocol: HTTPS, hostname: h%[1]d.example.com, tls: {certificateRefs: ["+
			repeat(16, "{name: "+strings.Repeat("s", 251)+"%02d}", 10)+"], clientValidation: {caCertificateRefs: ["+
			repeat(8, "{name: c%d}", 1)+"]}}}", 1) + "]}"},
	{"256 backends", "", http + ", backends: [" + repeat(256, "{name: b%d, port: 80, tls: {caCertificateRefs: ["+repeat(8, "{name: c%d}", 1)+
		"], hostname: a.b}, healthCheck: {path: /, hostname: a.b, interval: 100ms, timeout: 10ms, unhealthyThreshold: 100, healthyThreshold: 1}, "+
		"outlierDetection: {consecutiveErrors: 1000}, connections: {maxPerEndpoint: 1000000, maxQueue: 0, queueTimeout: 24h}, waitForEndpoint: {timeout: 5m, maxRequests: 1000000}, backup: {name: "+strings.Repeat("s", 63)+", port: 65535}, "+
		"loadBalancing: {algorithm: Header, header: a, hashBalanceFactor: 10000}}", 1) + "]}"},
	{"64 trusted proxies", "", http + ", trustedProxies: [0.0.0.0/0, '::/0', '2001:db8::/32', " + repeat(61, "10.%d.0.0/16", 1) + "]}"},
	{"CORS at its limits", "", cors + "[" + repeat(64, "'https://*.h%d.example.com:65535'", 1) + "], allowCredentials: true, allowMethods: " +
		"[GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH, '*'], allowHeaders: [" + repeat(64, "h%d", 1) + "], exposeHeaders: [" +
		repeat(64, "h%d", 1) + "], maxAge: 2147483647}}]}]}]}"},
	{"ranges of clients at their limits", "", addresses + "allow: [" + repeat(4096, "'2001:db8:ffff:ffff:ffff:ffff:ffff:%d/128'", 1) + "], deny: [" + repeat(4096, "'fd00::%d/128'", 1) + "]}}]}]}]}"},
	{"a JWT at its limits", "", jwt + "issuers: [" + repeat(7, "{issuer: a%d, audiences: [a], keys: {inline: a}}", 1) + ", {issuer: '" + strings.Repeat("i", 512) + "', audiences: [" + repeat(8, strings.Repeat("a", 255)+"%d", 1) + "], keys: {inline: '" + strings.Repeat("k", 65536) +
		"'}}], claimsToHeaders: [" + repeat(16, "{claim: "+strings.Repeat("c", 128)+", header: X-"+strings.Repeat("h", 60)+"%02d}", 10) + "], requiredScopes: [" + repeat(8, strings.Repeat("s", 127)+"%d", 1) + "], clockSkew: 5m}}]}]}]}"},
	{"mirrors at their limits", "", mirror + repeat(8, "{name: "+strings.Repeat("m", 62)+"%d, port: 65535, percent: 100}", 1) + "]}}]}]}]}"},
	{"CORS for every origin, without credentials", "", cors + "['*'], allowCredentials: false}}]}]}]}"},
	{"a path of 1024 characters", "", match + "{value: /" + strings.Repeat("a", 1023) + "}}]}]}]}"},
	{"weights at their limits", "", ref + "{name: a, port: 65535, weight: 0}, {name: b, port: 1, weight: 1000000}]}]}]}"},
	{"names of 63 characters", "", "spec: {listeners: [{name: " + longest + "lll, port: 65535, protocol: HTTP}], routes: [{name: " +
		longest + "rrr, listeners: [" + longest + "lll], rules: [{backendRefs: [{name: " + longest + "bbb, port: 80}]}]}]}"},
	{"resources", "", deploy + "{limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}}}"},
	{"every kind of path character", "", match + "{value: \"/a-._~!$&'()*+,;=:@%20%C3%A4/...\"}}]}]}]}"},
	{"a prefix with a slash at the end", "", match + "{value: /a/}}]}]}]}"},
}

func TestValid(t *testing.T) {
	for i, c := range valid {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			if c.name == "" {
				c.name = fmt.Sprintf("valid-%d", i)
			}
			o := object(t, c.name, c.spec)
			for _, labels := range []map[string]string{nil, {"applied": "again"}} {
				o.SetLabels(labels)
				// As kubectl apply --server-side does; the owner of every field is stored, too.
				options := metav1.ApplyOptions{FieldManager: "kubectl", Force: true}
				applied, err := patiently(func() (*unstructured.Unstructured, error) {
					return server.Dynamic.Resource(gateways).Namespace("default").Apply(t.Context(), c.name, o, options)
				})
				if err != nil {
					t.Fatalf("the API server refuses it: %s", abridged(err.Error()))
				}
				t.Logf("%d bytes", size(t, applied))
			}
		})
	}
}

// TestTooLarge shows what a user meets whose object is within every limit but too large for etcd, which stores 1.5 MiB.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	spec := http + ", routes: [" + repeat(2048, "{name: r%d, rules: [{matches: [{path: {value: /"+strings.Repeat("a", 1000)+"}}]}]}", 1) + "]}"
	tooLarge := object(t, "too-large", spec)
	_, err := patiently(func() (*unstructured.Unstructured, error) { return create(t.Context(), tooLarge, false) })
	if err == nil || !strings.Contains(err.Error(), "larg") {
		t.Errorf("a Gateway of 2 MB: got error %v, want one that says it is too large", err)
	}
}

// patiently asks up to three times while the API server runs out of time: on a busy machine, the largest objects may
// take as long as a request may.
func patiently(ask func() (*unstructured.Unstructured, error)) (object *unstructured.Unstructured, err error) {
	for range 3 {
		if object, err = ask(); !apierrors.IsTimeout(err) {
			break
		}
	}
	return object, err
}

func size(t *testing.T, object *unstructured.Unstructured) int {
	t.Helper()
	b := must.Get(json.Marshal(object))(t)
	return len(b)
}
