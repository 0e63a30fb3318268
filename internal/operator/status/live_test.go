package status

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	appv1 "gateway/api/app/v1"
)

// TestLive: an object is live when every proxy that receives traffic, or may do so at any moment, runs it.
func TestLive(t *testing.T) {
	routes := func(version string) []appv1.ProxiedResource {
		return []appv1.ProxiedResource{{Resource: "httproutes", Namespace: "team", ResourceVersion: version}}
	}
	for name, test := range map[string]struct {
		reports map[string][]appv1.ProxiedResource
		ready   []string
		alive   []string
		want    bool
	}{
		"all run it":                          {map[string][]appv1.ProxiedResource{"a": routes("100"), "b": routes("1000")}, []string{"a", "b"}, nil, true},
		"one runs an older one":               {map[string][]appv1.ProxiedResource{"a": routes("99"), "b": routes("1000")}, []string{"a", "b"}, nil, false},
		"the last runs an older one":          {map[string][]appv1.ProxiedResource{"a": routes("1000"), "b": routes("99")}, []string{"a", "b"}, nil, false},
		"one has seen no route":               {map[string][]appv1.ProxiedResource{"a": routes("100"), "b": nil}, []string{"a", "b"}, nil, false},
		"one has not reported":                {map[string][]appv1.ProxiedResource{"a": routes("100")}, []string{"a", "b"}, nil, false},
		"one that is not ready has older":     {map[string][]appv1.ProxiedResource{"a": routes("100"), "b": routes("9")}, []string{"a"}, []string{"b"}, false},
		"one that is not ready is silent":     {map[string][]appv1.ProxiedResource{"a": routes("100")}, []string{"a"}, []string{"b"}, true},
		"none is ready":                       {map[string][]appv1.ProxiedResource{"a": routes("100")}, nil, []string{"a"}, false},
		"versions that cannot be compared":    {map[string][]appv1.ProxiedResource{"a": routes("x")}, []string{"a"}, nil, false},
		"another pod's report does not count": {map[string][]appv1.ProxiedResource{"a": routes("100"), "c": routes("1")}, []string{"a"}, nil, true},
	} {
		var reports []*appv1.GatewayProxy
		for pod, resources := range test.reports {
			one := report(pod, 7)
			one.Status.Resources = resources
			reports = append(reports, one)
		}
		var endpoints []discoveryv1.Endpoint
		for _, pod := range test.ready {
			endpoints = append(endpoints, newEndpoint(pod, new(true), nil))
		}
		for _, pod := range test.alive {
			endpoints = append(endpoints, newEndpoint(pod, new(false), nil))
		}
		live := LiveOf(newGateway(), []*discoveryv1.EndpointSlice{newSlice(endpoints...)}, reports)
		if got := live.Has("httproutes", "team", "100"); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
		if live.Has("grpcroutes", "team", "1") || live.Has("httproutes", "other", "1") {
			t.Errorf("%s: what was not reported is live", name)
		}
	}
}

// TestLiveUpToABase: a report lists exceptions only. One of an older agent has no base, and lists everything.
func TestLiveUpToABase(t *testing.T) {
	later := appv1.ProxiedResource{Resource: "httproutes", Namespace: "team", ResourceVersion: "100"}
	behind := appv1.ProxiedResource{Resource: "httproutes", Namespace: "team", ResourceVersion: "0"}
	for name, test := range map[string]struct {
		base      string
		resources []appv1.ProxiedResource
		want      bool
	}{
		"the base is late enough":                 {"100", nil, true},
		"the base is older":                       {"99", nil, false},
		"the namespace is later than the base":    {"99", []appv1.ProxiedResource{later}, true},
		"the namespace is not listed yet":         {"100", []appv1.ProxiedResource{behind}, false},
		"another resource is later than the base": {"9", []appv1.ProxiedResource{{Resource: "tcproutes", Namespace: "team", ResourceVersion: "100"}}, false},
		"without a base, other namespaces do not": {"", []appv1.ProxiedResource{{Resource: "httproutes", Namespace: "a", ResourceVersion: "100"}}, false},
	} {
		one, old := report("a", 7), report("old", 7)
		one.Status.ResourceVersion, one.Status.Resources = test.base, test.resources
		old.Status.Resources = []appv1.ProxiedResource{{Resource: "httproutes", Namespace: "team", ResourceVersion: "1000"}}
		slice := newSlice(newEndpoint("a", new(true), nil), newEndpoint("old", new(true), nil))
		live := LiveOf(newGateway(), []*discoveryv1.EndpointSlice{slice}, []*appv1.GatewayProxy{one, old})
		if got := live.Has("httproutes", "team", "100"); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
