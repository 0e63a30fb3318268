package convert

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// apiRequests are made to the Gateways made of the golden files.
var apiRequests = []struct {
	file, gateway string
	request       routing.Request
	// want are route, number of the rule and Services, or what is answered.
	want string
}{
	{"shop", "shop", request(80, "GET", "any.example.org", "/x"), "to-https 0 redirect 301 https"},
	{"shop", "shop", request(443, "GET", "shop.example.com", "/"), "older-by-a-month 0 first"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/"), "shop 4 web"},
	{"shop", "shop", request(443, "GET", "shop.example.org", "/"), ""},
	{"shop", "shop", request(8443, "GET", "shop.example.com", "/"), "shop 4 web"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/api/v1"), "shop 0 api api-canary"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/apis"), "shop 4 web"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/cart"), "shop 1 cart"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/cart/1"), "shop 4 web"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/cart/1?a=b&currency=%E2%82%AC+uro", "X-Version: 2"), "shop 1 cart"},
	{"shop", "shop", request(443, "POST", "www.shop.example.com", "/order"), "shop 2 orders"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/order"), "shop 4 web"},
	{"shop", "shop", request(443, "GET", "www.shop.example.com", "/old"), "shop 3 redirect 302 new.example.com /new"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/shop.Carts/Add"), "orders 0 orders"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/shop.Orders/Place"), "orders 3 plain secure"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/shop.Orders/Place", "X-Stage: test", "X-User: 17"), "orders 0 orders"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/any.Thing/Check"), "orders 1 health"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/grpc.health.v1.Health/Watch"), "orders 1 health"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/any.Thing/Other", "X-Health: 1"), "orders 1 health"},
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/any.Thing/Other"), "orders 3 plain secure"},
	// Not what the Gateway API says, which is noted.
	{"protocols", "mixed", request(80, "POST", "grpc.example.com", "/shop.Carts/Check"), "orders 1 health"},
	{"protocols", "mixed", request(443, "", "one.db.example.com", "/"), "databases 0 one two"},
	{"protocols", "mixed", request(443, "", "a.two.db.example.com", "/"), "databases 0 one two"},
	{"protocols", "mixed", request(443, "", "three.db.example.com", "/"), ""},
	{"protocols", "mixed", request(5432, "", "", "/"), "postgres 0 postgres"},
	{"protocols", "mixed", request(6379, "", "", "/"), ""},
	{"attachment", "edge", request(80, "GET", "app.example.com", "/"), "own 0 own"},
	{"attachment", "edge", request(81, "GET", "app.example.com", "/"), "app 1 own"},
	{"attachment", "edge", request(81, "GET", "app.example.com", "/old"), "app 0 redirect 302 /new"},
	{"attachment", "edge", request(81, "GET", "app.example.com", "/team/x"), "app 2 500"},
	{"attachment", "edge", request(81, "GET", "app.example.com", "/granted"), "app 3 own"},
	{"attachment", "edge", request(81, "GET", "app.example.com", "/not-granted"), "app 4 500"},
	// Nothing says whether these namespaces have the label.
	{"attachment", "edge", request(82, "GET", "app.example.com", "/"), "app-2 1 answer 503"},
	{"attachment", "edge", request(82, "GET", "other.example.com", "/"), "own-2 0 answer 503"},
	{"attachment", "edge", request(86, "GET", "known.example.com", "/"), "known 0 web"},
	{"attachment", "edge", request(86, "GET", "app.example.com", "/"), "app-2 1 answer 503"},
	{"attachment", "edge", request(87, "GET", "app.example.com", "/granted"), "app 3 own"},
	{"attachment", "edge", request(87, "GET", "known.example.com", "/"), ""},
	{"attachment", "edge", request(5433, "", "", "/"), ""},
	{"attachment", "edge", request(83, "GET", "app.example.com", "/"), ""},
	{"attachment", "edge", request(84, "GET", "app.example.com", "/"), ""},
	{"attachment", "edge", request(85, "GET", "one.example.com", "/"), "named 0 named"},
	{"attachment", "edge", request(85, "GET", "two.example.com", "/"), "own 0 own"},
	{"attachment", "gateway-second-edge", request(80, "GET", "app.example.com", "/"), "own 0 own"},
	{"closed", "edge", request(80, "GET", "open.example.com", "/"), "open 0 web"},
	{"closed", "edge", request(80, "GET", "jwt.example.com", "/"), "jwt 0 answer 503"},
	{"closed", "edge", request(80, "GET", "no-rules.example.com", "/"), "no-rules 0 answer 503"},
	{"closed", "edge", request(80, "GET", "labelled.example.com", "/"), "labelled 0 answer 503"},
	{"closed", "edge", request(80, "GET", "kuadrant.example.com", "/"), "kuadrant 0 answer 503"},
	{"closed", "edge", request(80, "GET", "annotated.example.com", "/"), "annotated 0 answer 503"},
	{"closed", "edge", request(80, "GET", "guarded-service.example.com", "/"), "guarded-service 0 answer 503"},
	{"closed", "edge", request(80, "GET", "annotated-service.example.com", "/"), "annotated-service 0 answer 503"},
	{"closed", "edge", request(80, "GET", "names.example.com", "/"), "names 0 answer 503"},
	{"closed", "edge", request(80, "GET", "names-ok.example.com", "/"), "names-ok 0 names-ok over TLS"},
	{"closed", "edge", request(80, "GET", "core.example.com", "/"), "core 0 core over TLS"},
	{"closed", "edge", request(5432, "", "", "/"), ""},
	{"closed", "whole", request(80, "GET", "on-whole.example.com", "/"), "on-whole 0 answer 503"},
	{"closed", "of-class", request(80, "GET", "on-class.example.com", "/"), "on-class 0 answer 503"},
	{"closed", "mesh", request(80, "GET", "any.example.com", "/"), "istio 0 answer 503"},
	{"listed", "edge", request(80, "GET", "matches.example.com", "/a1"), "matches 0 web"},
	{"listed", "edge", request(80, "GET", "matches.example.com", "/a"), "matches 0 500"},
	{"listed", "edge", request(80, "CONNECT", "matches.example.com", "/"), "matches 0 500"},
	{"listed", "edge", request(80, "GET", "filters.example.com", "/extension"), "filters 1 500"},
	{"listed", "edge", request(80, "GET", "filters.example.com", "/auth"), "filters 2 500"},
	{"listed", "edge", request(80, "GET", "filters.example.com", "/rewrite"), "filters 5 500"},
	{"listed", "edge", request(80, "GET", "backends.example.com", "/left-out"), "backends 0 web web"},
	{"listed", "edge", request(80, "GET", "backends.example.com", "/none-left"), "backends 1 500"},
}

// TestGatewayAPIRequests asks the Gateways made of the golden files what becomes of requests, which is what the Gateway
// API says.
func TestGatewayAPIRequests(t *testing.T) {
	for _, test := range apiRequests {
		for _, gateway := range convertFile(t, "testdata/gatewayapi-"+test.file+".in.yaml").Gateways {
			if gateway.Name != test.gateway {
				continue
			}
			table, _ := routingtest.Compile(&gateway.Spec)
			if got := outcome(table, test.request); got != test.want {
				t.Errorf("%s: %+v: %q, want %q", test.file, test.request, got, test.want)
			}
		}
	}
}

func request(port int32, method, host, target string, headers ...string) routing.Request {
	path, query, _ := strings.Cut(target, "?")
	r := routing.Request{Port: port, Method: method, Host: host, Path: path, Query: query, Header: map[string][]string{}}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header[strings.ToLower(name)] = []string{value}
	}
	return r
}

// outcome says in words what a request meets.
func outcome(table routing.Table, r routing.Request) string {
	match, ok := table.Match(r)
	if !ok {
		return ""
	}
	words := []any{match.Rule.Route, match.Rule.Index}
	if redirect := match.Rule.Redirect; redirect != nil {
		words = append(words, "redirect", redirect.Status, redirect.Scheme, redirect.Hostname)
		if redirect.Path != nil {
			words = append(words, redirect.Path.Full)
		}
	}
	for _, target := range match.Rule.Targets {
		words = append(words, target.Backend.Service)
		if policy, ok := table.Policies[target.Backend]; ok && policy.TLS != nil && strings.HasPrefix(r.Host, target.Backend.Service+".example") {
			words = append(words, "over TLS")
		}
	}
	if answer := match.Rule.Response; answer != nil {
		words = append(words, "answer", answer.Status)
	} else if match.Rule.Redirect == nil && len(match.Rule.Targets) == 0 {
		words = append(words, 500)
	}
	return strings.Join(strings.Fields(fmt.Sprintln(words...)), " ")
}

// TestUnknownNamespaceIsOpened: the user says that a route may belong to a listener, though nothing in the input does.
func TestUnknownNamespaceIsOpened(t *testing.T) {
	documents, err := cli.Files{Paths: []string{"testdata/gatewayapi-attachment.in.yaml"}}.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Convert(Input{Documents: documents, Open: []string{"HTTPRoute/team/app", "TCPRoute/infra/connections"}})
	if err != nil {
		t.Fatal(err)
	}
	table, _ := routingtest.Compile(&result.Gateways[0].Spec)
	for want, r := range map[string]routing.Request{
		"app 3 own": request(82, "GET", "app.example.com", "/granted"), "connections 0 own": request(5433, "", "", "/"),
		"own-2 0 answer 503": request(82, "GET", "other.example.com", "/"),
	} {
		if got := outcome(table, r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

// TestGatewayAPIRules: rules have the shape of HTTPRoute's. Random ones, and those of the examples, come back as they
// were from a HTTPRoute that they were pasted into.
func TestGatewayAPIRules(t *testing.T) {
	g := routingtest.New(t)
	var specs []appv1.GatewaySpec
	for range 100 {
		specs = append(specs, g.Spec([2]int32{80, 8080}))
	}
	examples, err := filepath.Glob("../../../../artifacts/examples/*.yaml")
	if err != nil || len(examples) < 30 {
		t.Fatalf("%d examples: %v", len(examples), err)
	}
	for _, example := range examples {
		documents, err := cli.Files{Paths: []string{example}}.Read(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			if document.Object.GetKind() == "Gateway" {
				specs = append(specs, recode[appv1.Gateway](t, document.Object.Object).Spec)
			}
		}
	}
	for _, spec := range specs {
		spec = common(spec)
		result, err := Convert(Input{Documents: asGatewayAPI(t, &spec), Namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := routingtest.Compile(&spec)
		got, _ := routingtest.Compile(&result.Gateways[0].Spec)
		if !reflect.DeepEqual(got, want) {
			before, _ := yaml.Marshal(spec)
			after, _ := yaml.Marshal(result.Gateways[0].Spec)
			t.Fatalf("%s\nbecame\n%s", before, after)
		}
	}
}

// common returns what the Gateway API has too of a spec.
func common(spec appv1.GatewaySpec) appv1.GatewaySpec {
	spec = appv1.GatewaySpec{Listeners: spec.Listeners, Routes: spec.Routes, TLSRoutes: spec.TLSRoutes, TCPRoutes: spec.TCPRoutes}
	for i, listener := range spec.Listeners {
		spec.Listeners[i] = appv1.Listener{Name: listener.Name, Port: listener.Port, Protocol: listener.Protocol, Hostname: listener.Hostname}
		if listener.TLS != nil {
			spec.Listeners[i].TLS = &appv1.ListenerTLS{Mode: listener.TLS.Mode, CertificateRefs: listener.TLS.CertificateRefs}
		}
	}
	for _, route := range spec.Routes {
		for i := range route.Rules {
			rule := &route.Rules[i]
			rule.MaxRequestBytes = nil
			if len(rule.Filters) > 0 && rule.Filters[0].DirectResponse != nil {
				rule.Filters = nil
			}
			// Ours is one filter for several Services. The Gateway API has no such filters.
			rule.Filters = slices.DeleteFunc(rule.Filters, func(f appv1.RuleFilter) bool {
				return f.RequestMirror != nil || f.ClientAddress != nil || f.RateLimit != nil || f.BasicAuth != nil || f.JWT != nil || f.ExternalAuth != nil || f.Cache != nil
			})
			for _, match := range rule.Matches {
				for i, param := range match.QueryParams {
					if param.Type != appv1.ValueMatchRegularExpression {
						match.QueryParams[i].Value = strings.ReplaceAll(strings.ReplaceAll(param.Value, "%", "%25"), " ", "%20")
					}
				}
			}
		}
	}
	return spec
}

// asGatewayAPI writes a spec as objects of the Gateway API.
func asGatewayAPI(t *testing.T, spec *appv1.GatewaySpec) []cli.Document {
	t.Helper()
	gateway := &gatewayv1.Gateway{}
	gateway.SetName("random")
	for _, listener := range spec.Listeners {
		ours := recode[gatewayv1.Listener](t, listener)
		if listener.TLS != nil && listener.TLS.Mode == appv1.TLSModePassthrough {
			ours.TLS = &gatewayv1.ListenerTLSConfig{Mode: ptr(gatewayv1.TLSModePassthrough)}
		}
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, ours)
	}
	objects := []cli.Document{document(t, "Gateway", 0, gateway)}
	parents := func(listeners []appv1.Name) (refs []gatewayv1.ParentReference) {
		if len(listeners) == 0 {
			return []gatewayv1.ParentReference{{Name: "random"}}
		}
		for _, listener := range listeners {
			refs = append(refs, gatewayv1.ParentReference{Name: "random", SectionName: ptr(gatewayv1.SectionName(listener))})
		}
		return refs
	}
	for _, from := range spec.Routes {
		route := &gatewayv1.HTTPRoute{Spec: recode[gatewayv1.HTTPRouteSpec](t, from)}
		for i, rule := range route.Spec.Rules {
			for _, match := range rule.Matches {
				for j, param := range match.QueryParams {
					if or(param.Type, "") != gatewayv1.QueryParamMatchRegularExpression {
						match.QueryParams[j].Value = strings.ReplaceAll(strings.ReplaceAll(param.Value, "%20", " "), "%25", "%")
					}
				}
			}
			route.Spec.Rules[i] = rule
		}
		route.SetName(string(from.Name))
		route.Spec.ParentRefs = parents(from.Listeners)
		objects = append(objects, document(t, "HTTPRoute", len(objects), route))
	}
	for _, from := range spec.TLSRoutes {
		route := &gatewayv1.TLSRoute{Spec: recode[gatewayv1.TLSRouteSpec](t, from)}
		route.SetName(string(from.Name))
		route.Spec.ParentRefs = parents(from.Listeners)
		objects = append(objects, document(t, "TLSRoute", len(objects), route))
	}
	for _, from := range spec.TCPRoutes {
		route := &gatewayv1.TCPRoute{Spec: recode[gatewayv1.TCPRouteSpec](t, from)}
		route.SetName(string(from.Name))
		route.Spec.ParentRefs = parents(from.Listeners)
		objects = append(objects, document(t, "TCPRoute", len(objects), route))
	}
	return objects
}

// document returns an object that was made some seconds after the others.
func document(t *testing.T, kind string, second int, object any) cli.Document {
	t.Helper()
	u := &unstructured.Unstructured{Object: recode[map[string]any](t, object)}
	u.SetAPIVersion(gatewayv1.GroupVersion.String())
	u.SetKind(kind)
	made := time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC)
	if err := unstructured.SetNestedField(u.Object, made.Format(time.RFC3339), "metadata", "creationTimestamp"); err != nil {
		t.Fatal(err)
	}
	return cli.Document{Source: "test", Object: u}
}

// recode makes something of the JSON of something else.
func recode[T any](t *testing.T, from any) T {
	t.Helper()
	var to T
	content, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(content, &to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}
