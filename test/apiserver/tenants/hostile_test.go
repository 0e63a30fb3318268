package tenants

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gateway/internal/testtier"
)

// object is one of YAML or JSON, as is list.
type (
	object = map[string]any
	list   = []any
)

func of(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

const gatewayAPI, own = "gateway.networking.k8s.io", "app.example.com"

var kinds = map[string]schema.GroupVersionResource{
	"HTTPRoute": of(gatewayAPI, "v1", "httproutes"), "GRPCRoute": of(gatewayAPI, "v1", "grpcroutes"), "ListenerSet": of(gatewayAPI, "v1", "listenersets"),
	"BackendTLSPolicy": of(gatewayAPI, "v1", "backendtlspolicies"), "ReferenceGrant": of(gatewayAPI, "v1", "referencegrants"),
	"RouteFilter": of(own, "v1", "routefilters"), "BackendPolicy": of(own, "v1", "backendpolicies"),
	"Secret": of("", "v1", "secrets"), "ConfigMap": of("", "v1", "configmaps"), "Service": of("", "v1", "services"),
}

// tenantPace is how often the tenant sends a request: it is to take what filters share, not all CPU.
const tenantPace = 5 * time.Millisecond

// names is how many objects of a kind the tenant has, at most.
const names = 60

// hostile is the tenant that attacks.
type hostile struct {
	t                    *testing.T
	site                 *site
	seed                 uint64
	edits, refused, sent atomic.Int64

	mu       sync.Mutex
	answered map[int]int
}

func newHostile(t *testing.T, s *site) *hostile {
	t.Helper()
	return &hostile{t: t, site: s, seed: testtier.Seed(t), answered: map[int]int{}}
}

func (h *hostile) statuses() map[int]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.answered)
}

// edit writes objects for a Gateway until ctx ends: it creates, replaces and deletes.
func (h *hostile) edit(ctx context.Context, worker int, gateway string) {
	r := random{rand.New(rand.NewPCG(h.seed, uint64(worker))), gateway} //nolint:gosec // there are few
	for ctx.Err() == nil {
		kind := pick(r, "HTTPRoute", "HTTPRoute", "HTTPRoute", "HTTPRoute", "GRPCRoute", "ListenerSet", "BackendTLSPolicy", "ReferenceGrant",
			"RouteFilter", "RouteFilter", "BackendPolicy", "Secret", "ConfigMap", "Service")
		client, name := server.Dynamic.Resource(kinds[kind]).Namespace(tenant), fmt.Sprintf("x%d", r.IntN(names))
		var err error
		if r.IntN(8) == 0 {
			err = client.Delete(ctx, name, metav1.DeleteOptions{})
		} else {
			one := &unstructured.Unstructured{Object: r.object(kind)}
			one.SetName(name)
			one.SetGroupVersionKind(kinds[kind].GroupVersion().WithKind(kind))
			_, err = client.Apply(ctx, name, one, metav1.ApplyOptions{FieldManager: "hostile", Force: true})
		}
		h.edits.Add(1)
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			h.refused.Add(1)
		}
	}
}

// send sends requests to hosts of the tenant, some of which hang, until ctx ends.
func (h *hostile) send(ctx context.Context) {
	r := random{rand.New(rand.NewPCG(h.seed, 100)), "shared"}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ticks := time.NewTicker(tenantPace)
	defer ticks.Stop()
	room := make(chan struct{}, 100)
	var sending sync.WaitGroup
	defer sending.Wait()
	for ctx.Err() == nil {
		<-ticks.C
		room <- struct{}{}
		request, err := http.NewRequestWithContext(ctx, r.method(), fmt.Sprintf("http://127.0.0.1:%d%s", h.site.port, r.path()), strings.NewReader(strings.Repeat("a", r.IntN(3)*20000)))
		if err != nil {
			<-room
			continue
		}
		request.Host = fmt.Sprintf("x%d.%s.example.com", r.IntN(names), tenant)
		sending.Go(func() {
			defer func() { <-room }()
			h.sent.Add(1)
			response, err := client.Do(request)
			if err != nil {
				return
			}
			_ = response.Body.Close()
			h.mu.Lock()
			defer h.mu.Unlock()
			h.answered[response.StatusCode]++
		})
	}
}

// random makes what the tenant writes, for a Gateway.
type random struct {
	*rand.Rand
	gateway string
}

func pick[T any](r random, all ...T) T { return all[r.IntN(len(all))] }

func (r random) text(most int) string {
	return strings.Repeat(pick(r, "a", "é", "%", " ", "\"", "x-", "/.."), 1+r.IntN(most))
}

func (r random) name() string { return fmt.Sprintf("x%d", r.IntN(names)) }

func (r random) method() string { return pick(r, "GET", "POST", "DELETE", "PATCH") }

func (r random) path() string {
	return "/" + pick(r, "", "a", "login", "x"+fmt.Sprint(r.IntN(100)), "a/b/c", strings.Repeat("a", 1000))
}

func (r random) hostname() string {
	if r.IntN(12) > 0 {
		return r.name() + ".hostile.example.com"
	}
	return pick(r, "shop.team-a.example.com", "*.team-b.example.com", "*.example.com", "*.com", "example.com", "own.example.com",
		"*.hostile.example.com")
}

func (r random) expression() string {
	return pick(r, "(a+)+$", "/(x|y)*z", "[a-z]{1,200}", strings.Repeat("(a|b)", 1+r.IntN(100)), "("+strings.Repeat("x", r.IntN(400))+")?", "(", "/.*/.*/.*")
}

// some returns up to so many of what f makes, one at least.
func (r random) some(most int, f func() object) list {
	all := make(list, 1+r.IntN(most))
	for i := range all {
		all[i] = f()
	}
	return all
}

func (r random) object(kind string) object {
	switch kind {
	case "HTTPRoute", "GRPCRoute":
		return object{"spec": r.route(kind)}
	case "ListenerSet":
		return object{"spec": object{"parentRef": object{"namespace": infra, "name": r.gateway}, "listeners": r.listeners()}}
	case "RouteFilter":
		return object{"spec": r.filter()}
	case "BackendPolicy":
		return object{"spec": r.policy()}
	case "BackendTLSPolicy":
		return object{"spec": object{
			"targetRefs": list{object{"group": "", "kind": "Service", "name": pick(r, "web", r.name())}},
			"validation": object{"hostname": r.hostname(), "caCertificateRefs": list{object{"group": "", "kind": "ConfigMap", "name": r.name()}}},
		}}
	case "ReferenceGrant":
		return object{"spec": object{"from": list{object{"group": gatewayAPI, "kind": "HTTPRoute", "namespace": pick(r, teams...)}}, "to": list{object{"group": "", "kind": "Service"}}}}
	case "Secret":
		return object{"type": "kubernetes.io/tls", "stringData": object{"tls.crt": r.text(1000), "tls.key": r.text(1000)}}
	case "ConfigMap":
		return object{"data": object{"ca.crt": r.text(10_000), "rules.conf": r.text(10_000)}}
	default:
		return object{"spec": object{"ports": list{object{"port": pick(r, 80, 443), "protocol": "TCP", "appProtocol": pick(r, "http", "kubernetes.io/h2c", "https")}}}}
	}
}

func (r random) route(kind string) object {
	many := pick(r, 1, 1, 1, 2, 16)
	spec := object{"parentRefs": list{object{"namespace": infra, "name": r.gateway}}, "rules": r.some(many, func() object { return r.rule(kind) })}
	if r.IntN(8) > 0 {
		hostnames := list{}
		for range 1 + r.IntN(pick(r, 1, 1, 1, 16)) {
			hostnames = append(hostnames, r.hostname())
		}
		spec["hostnames"] = hostnames
	}
	if r.IntN(8) == 0 {
		spec["parentRefs"] = list{object{"kind": "ListenerSet", "group": gatewayAPI, "name": r.name()}}
	}
	return spec
}

func (r random) rule(kind string) object {
	rule := object{"matches": r.some(pick(r, 1, 1, 8, 64), func() object { return r.match(kind) })}
	rule["backendRefs"] = r.some(pick(r, 1, 1, 16), func() object {
		ref := object{"name": pick(r, "web", "web", r.name()), "port": 80, "weight": pick(r, 1, 1000000, 0)}
		if r.IntN(12) == 0 {
			ref["namespace"] = pick(r, teams...)
		}
		return ref
	})
	filters := list{}
	for range r.IntN(3) {
		filters = append(filters, object{"type": "ExtensionRef", "extensionRef": object{"group": own, "kind": "RouteFilter", "name": r.name()}})
	}
	if r.IntN(3) == 0 {
		filters = append(filters, object{"type": "RequestMirror", "requestMirror": object{"backendRef": object{"name": pick(r, "web", r.name()), "port": 80}}})
	}
	if r.IntN(3) == 0 {
		filters = append(filters, object{"type": "RequestHeaderModifier", "requestHeaderModifier": object{
			"set": list{object{"name": pick(r, "X-Env", "X_Env", "Host", "Content-Length", r.header()), "value": r.text(100)}},
		}})
	}
	if kind == "HTTPRoute" && r.IntN(4) == 0 {
		filters = append(filters, object{"type": "URLRewrite", "urlRewrite": object{"hostname": "shop.team-a.example.com", "path": object{"type": "ReplaceFullPath", "replaceFullPath": "/" + r.text(20)}}})
	}
	rule["filters"] = filters
	if kind == "HTTPRoute" && r.IntN(4) == 0 {
		rule["timeouts"] = object{"request": pick(r, "1ms", "1s", "1h", "0s")}
	}
	return rule
}

// header returns one of many names.
func (r random) header() string { return fmt.Sprintf("x-%d", r.IntN(pick(r, 10, 10_000))) }

func (r random) match(kind string) object {
	match := object{}
	isRegex := r.IntN(8) == 0
	value, exact := "v", "Exact"
	if isRegex {
		value, exact = r.expression(), "RegularExpression"
	}
	if r.IntN(4) == 0 {
		match["headers"] = list{object{"type": exact, "name": r.header(), "value": value}}
	}
	if kind == "GRPCRoute" {
		match["method"] = object{"service": "a.B", "method": pick(r, "C", "D")}
		return match
	}
	if r.IntN(2) == 0 {
		return object{"path": object{"type": "PathPrefix", "value": "/"}}
	}
	match["path"] = object{"type": pick(r, "Exact", "PathPrefix"), "value": r.path()}
	if isRegex {
		match["path"] = object{"type": exact, "value": r.expression()}
	}
	if r.IntN(4) == 0 {
		match["queryParams"] = list{object{"type": exact, "name": r.header(), "value": value}}
	}
	if r.IntN(4) == 0 {
		match["method"] = r.method()
	}
	return match
}

// listeners returns some that leave most of the tenant's own hosts to the Gateway's listener.
func (r random) listeners() list {
	i := 0
	return r.some(pick(r, 1, 8, 64), func() object {
		i++
		listener := object{"name": fmt.Sprintf("l%d", i), "port": sharedPort.Load(), "protocol": "HTTP", "hostname": r.hostname()}
		if r.IntN(50) > 0 {
			listener["hostname"] = strings.Replace(r.hostname(), ".hostile", ".sets.hostile", 1)
		}
		return listener
	})
}

// sharedPort is the port of the Gateway.
var sharedPort atomic.Int32

func (r random) filter() object {
	dead := object{"name": pick(r, r.name(), "web"), "port": 80}
	one := pick(r,
		object{"type": "ExternalAuth", "externalAuth": object{"backendRef": dead, "path": "/" + r.text(5), "timeout": pick(r, "1s", "30s")}},
		object{"type": "RateLimit", "rateLimit": object{"limits": list{object{"requests": 1 + r.IntN(1000), "unit": pick(r, "Second", "Minute", "Hour")}}}},
		object{"type": "JWT", "jwt": object{"issuer": "https://" + r.name() + ".example.com", "audiences": list{"a"}, "jwksURL": "https://127.0.0.1:1/" + r.name()}},
		object{"type": "OIDC", "oidc": object{"issuer": "https://127.0.0.1:1", "clientID": r.name(), "secretRef": object{"name": r.name()}}},
		object{"type": "BasicAuth", "basicAuth": object{"secretRef": object{"name": r.name()}}},
		object{"type": "DirectResponse", "directResponse": object{"statusCode": 200 + r.IntN(300), "body": r.text(4000)}},
		object{"type": "WAF", "waf": object{"paranoiaLevel": 1 + r.IntN(4)}},
		object{"type": "Cache", "cache": object{}},
		object{"type": "ResponseOverride", "responseOverride": object{"responses": list{object{"statuses": list{404, 503}, "backendRef": dead}}}},
		object{"type": "PathRegexRewrite", "pathRegexRewrite": object{"pattern": r.expression(), "substitution": r.text(10)}},
		object{"type": "BandwidthLimit", "bandwidthLimit": object{"response": object{"bytesPerSecond": 1024}}},
		object{"type": "HeaderVariables", "headerVariables": object{"request": list{object{"name": r.header(), "value": r.text(10)}}}},
	)
	spec := object{"filters": list{one}}
	if r.IntN(4) == 0 {
		spec["maxRequestBytes"] = r.IntN(1000)
	}
	if r.IntN(4) == 0 {
		spec["shadow"] = list{one["type"]}
	}
	return spec
}

func (r random) policy() object {
	return object{
		"targetRefs":    list{object{"group": "", "kind": "Service", "name": pick(r, "web", r.name())}},
		"retry":         object{"attempts": 1 + r.IntN(5)},
		"connections":   object{"maxPerEndpoint": 1 + r.IntN(10)},
		"healthCheck":   object{"path": "/" + r.text(10), "interval": pick(r, "1s", "100ms")},
		"loadBalancing": object{"algorithm": pick(r, "RoundRobin", "LeastConnections", "Random")},
	}
}
