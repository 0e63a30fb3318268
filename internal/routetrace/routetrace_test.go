package routetrace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/proxyconfig"
	"gateway/internal/routetrace"
	"gateway/internal/routing"
)

// newTable is of a Gateway in the namespace infra that two teams share.
func newTable(t *testing.T) routing.Table {
	t.Helper()
	to := func(namespace, service string) []model.Target {
		return []model.Target{{Backend: model.Backend{Namespace: namespace, Service: service, Port: 80}, Weight: 1}}
	}
	route := func(name, host string, rules ...model.Rule) model.Route {
		return model.Route{Kind: "HTTPRoute", Name: name, Listeners: []string{"http"}, Hostnames: []string{host}, Rules: rules}
	}
	rule := func(path string, backends []model.Target) model.Rule {
		return model.Rule{Action: &model.Action{}, Matches: []model.Match{{PathType: model.Prefix, Path: path}}, Backends: backends}
	}
	grpc := route("team-a/web", "grpc.example.com", rule("/", to("team-a", "grpc")))
	grpc.Kind = "GRPCRoute"
	table, problems := routing.Compile(&model.Gateway{
		Listeners: []model.Listener{{Name: "http", Port: 80, Protocol: "HTTP"}},
		Routes: model.Ordered(
			route("team-a/web", "a.example.com", rule("/", to("team-a", "web")), rule("/shared", to("team-b", "shared"))),
			route("team-a/other", "other.example.com", rule("/", to("team-a", "web"))),
			route("team-b/web", "b.example.com", rule("/", to("team-b", "web")), rule("/granted", to("team-a", "granted"))),
			route("team-a/granted", "granted.example.com", rule("/", to("team-a", "granted"))),
			route("infra/own", "own.example.com", rule("/", to("", "web"))),
			route("team-a/imports", "imports.example.com", rule("/", to("team-a", model.ServiceImport("web"))), rule("/b", to("team-b", model.ServiceImport("web"))),
				rule("/own", to("", model.ServiceImport("web")))),
			grpc,
		),
	}, filters.Problem)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return table
}

// TestOf: a team sees requests that are its own without doubt, and no other.
func TestOf(t *testing.T) {
	table := newTable(t)
	for name, test := range map[string]struct {
		host, path, backend string
		want                []string
	}{
		"its Service, with settings of its own": {"", "/cart", "team-a_web_80.hash", []string{"team-a/other", "team-a/web"}},
		"its Service, and a host":               {"a.example.com", "/cart", "team-a_web_80", []string{"team-a/web"}},
		"its Service, by a GRPCRoute":           {"", "/cart", "team-a_grpc_80", []string{"GRPCRoute/team-a/web"}},
		"another team's":                        {"", "/cart", "team-b_web_80", []string{"team-b/web"}},
		"another team's, on its host":           {"a.example.com", "/shared/x", "team-b_shared_80", nil},
		"its Service, maybe by another's route": {"", "/granted/x", "team-a_granted_80", nil},
		"its Service, by its route alone":       {"granted.example.com", "/granted/x", "team-a_granted_80", []string{"team-a/granted"}},
		"the Gateway's namespace":               {"", "/", "web_80", []string{"infra/own"}},
		"no backend yet":                        {"a.example.com", "/cart", "", nil},
		"a backend that no rule has any more":   {"a.example.com", "/cart", "team-a_gone_80", nil},
		"a name that begins alike":              {"a.example.com", "/cart", "team-a_web_8080", nil},
	} {
		request := proxyconfig.Request{Port: 80, Method: "GET", Host: test.host, Path: test.path, Backend: test.backend}
		var got []string
		for _, route := range []string{"GRPCRoute/team-a/web", "infra/own", "team-a/granted", "team-a/other", "team-a/web", "team-b/web"} {
			if len(routetrace.Of(table, routing.NamespaceOf(route, "infra"), "infra", route, []proxyconfig.Request{request})) > 0 {
				got = append(got, route)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q are told, want %q", name, got, test.want)
		}
	}
	if !routetrace.Has(table, "team-b/web") || routetrace.Has(table, "team-b/none") {
		t.Error("it is wrong about which routes there are")
	}
}

// TestParse: what is no question, or is of another time, gets no answer.
func TestParse(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	for seconds, want := range map[int]bool{-1: false, 0: false, 1: true, 70: true, 71: false} {
		q, err := routetrace.Parse(fmt.Sprintf(`{"id":"a","until":%q}`, now.Add(time.Duration(seconds)*time.Second).Format(time.RFC3339)))
		if err != nil || q.Counts(now) != want {
			t.Errorf("%d s: %t, %v", seconds, !want, err)
		}
	}
	for _, value := range []string{"", "x", "{}", `{"id":"a"}`, `{"until":"2026-01-01T00:00:00Z"}`, `{"id":"a","until":"2026-01-01T00:00:00Z","olderSeconds":-1}`, `{"id":"a","until":"2026-01-01T00:00:00Z","next":21}`, `{"id":"a","until":"2026-01-01T00:00:00Z","path":"` + strings.Repeat("/", 5000) + `"}`, `{"id":"a","until":"2026-01-01T00:00:00Z","more":1}`} {
		if q, err := routetrace.Parse(value); err == nil {
			t.Errorf("%s is taken for %+v", value, q)
		}
	}
}

// TestTakes: what is asked for chooses among the requests that end.
func TestTakes(t *testing.T) {
	line := routetrace.Line{Client: "192.0.2.1", Host: "a.example.com", Path: "/cart/1", Headers: map[string]string{"x-tenant": "a"}}
	for wanted, want := range map[*routetrace.Wanted]bool{
		{}:                                 true,
		{Hosts: []string{"*.example.com"}}: true,
		{Hosts: []string{"b.example.com", "A.example.com"}}: true,
		{Hosts: []string{"*.a.example.com"}}:                false,
		{Path: "/cart"}:                                     true,
		{Path: "/other"}:                                    false,
		{Client: "192.0.2.1", Headers: map[string]string{"x-tenant": "a"}}: true,
		{Client: "192.0.2.2"}:                         false,
		{Headers: map[string]string{"x-tenant": "b"}}: false,
		{Headers: map[string]string{"x-unknown": ""}}: false,
	} {
		if wanted.Takes(line) != want {
			t.Errorf("%+v: want %t", *wanted, want)
		}
	}
}

// TestEnded: a team is not told endpoints of others, nor of a backend that is not known.
func TestEnded(t *testing.T) {
	table := newTable(t)
	for backend, want := range map[string]string{
		"team-a_web_80": "10.0.0.1_8080", "team-a_web_80.hash": "10.0.0.1_8080", "team-b_web_80": "-", "web_80": "-", "team-b_web_80.hash_1": "-",
		"team-a_ServiceImport.web_80.hash": "10.0.0.1_8080", "team-b_ServiceImport.web_80": "-", "ServiceImport.web_80": "-",
		"team-a_gone_80": "-", "team-a_web_8080": "-", "-": "-",
	} {
		text := fmt.Sprintf(`{"userAgent":"\"server\":\"10.0.0.1_8080\"","backend":%q,"server":"10.0.0.1_8080"}`, backend)
		var line, got routetrace.Line
		must.Do(t, json.Unmarshal([]byte(text), &line))
		ended, err := routetrace.Ended(table, []byte(text), line, "team-a", "infra")
		if err := errors.Join(err, json.Unmarshal(ended, &got)); err != nil || got.Server != want {
			t.Errorf("%s: %q is told, want %q: %v", backend, got.Server, want, err)
		}
	}
	line := routetrace.Line{Backend: "team-b_ServiceImport.web_80"}
	if ended, err := routetrace.Ended(table, []byte(`{"server":"10.0.0.1_8080"}`), line, "infra", "infra"); err != nil || string(ended) != `{"server":"-"}` {
		t.Errorf("the namespace of the Gateway is told %s of another's ServiceImport: %v", ended, err)
	}
}

// TestLongTexts: clients do not decide how large the Events of a team are.
func TestLongTexts(t *testing.T) {
	text := `{"path":"` + strings.Repeat(`/\u00e9`, 5000) + `","msTotal":4,"requestHeaders":{"x-a":"1"}}`
	ended, err := routetrace.Ended(routing.Table{}, []byte(text), routetrace.Line{}, "team-a", "infra")
	if err != nil || len(ended) > 400 || !strings.Contains(string(ended), `"msTotal":4,"path":"/é/é`) || !strings.Contains(string(ended), `{"x-a":"1"}`) {
		t.Errorf("got %d bytes: %s: %v", len(ended), ended, err)
	}
}
