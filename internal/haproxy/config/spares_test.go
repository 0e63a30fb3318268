package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/routing"
)

// servicesInput is the input of a Gateway with a route to each of the Services, by their path.
func servicesInput(t *testing.T, appProtocol string, services ...string) config.Input {
	t.Helper()
	w := world{Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}}}
	for _, service := range services {
		w.Spec.Routes = append(w.Spec.Routes, appv1.Route{Name: appv1.Name(service), Rules: []appv1.RouteRule{{
			Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: "/" + service}}},
			BackendRefs: []appv1.BackendRef{{Name: service, Port: 80}},
		}}})
		w.Backends = append(w.Backends, worldBackend{Service: service, Port: 80, AppProtocol: appProtocol, Servers: []string{"10.0.0.1:80"}})
	}
	return w.input(t)
}

func manyServices(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("service-", i)
	}
	return names
}

// TestSpares: what a process that runs one table needs to run another with Services that the former has not.
func TestSpares(t *testing.T) {
	first := config.Render(servicesInput(t, "", "one"))
	with := func(appProtocol string, services ...string) config.Config {
		return config.Render(servicesInput(t, appProtocol, append(services, "one")...))
	}
	plan := config.Diff(with("", "two", "three"), first)
	if want := []config.MapEntry{{Key: "three_80", Value: "spare-0"}, {Key: "two_80", Value: "spare-1"}}; plan.Reload != "" || !slices.Equal(plan.Maps[0].Entries, want) {
		t.Fatalf("got %q, %v", plan.Reload, plan.Maps[0])
	}
	if added := plan.Add; len(added) != 2 || added[0].Backend != "spare-0" || added[1].Backend != "spare-1" {
		t.Errorf("these servers are added: %v", added)
	}
	t.Run("go on while others come", func(t *testing.T) {
		next := config.Diff(with("", "two", "four"), plan.After)
		if next.Reload != "" || len(next.Add) != 1 || next.Add[0].Backend != "spare-2" || len(next.Remove) != 1 || next.Remove[0].Backend != "spare-0" {
			t.Errorf("got %+v", next)
		}
		again := config.Diff(with("", "three"), next.After)
		if again.Reload != "" || len(again.Add) != 1 || again.Add[0].Backend != "spare-0" {
			t.Errorf("a Service that comes again gets %+v", again)
		}
	})
	t.Run("have an end", func(t *testing.T) {
		for n, want := range map[int]string{32: "", 33: config.ReloadBackends} {
			if got := config.Diff(with("", manyServices(n)...), first).Reload; got != want {
				t.Errorf("%d more Services: got %q, want %q", n, got, want)
			}
		}
	})
	t.Run("are free again after a reload", func(t *testing.T) {
		if plan := config.Diff(with("", manyServices(33)...), first); len(plan.After.Maps[config.SparesFile]) != 0 {
			t.Errorf("got %v", plan.After.Maps[config.SparesFile])
		}
	})
	t.Run("keep their options", func(t *testing.T) {
		const h2c = "kubernetes.io/h2c"
		first := config.Render(servicesInput(t, h2c, "one"))
		plan := config.Diff(with(h2c, "two"), first)
		if plan.Reload != "" || plan.Add[0].Settings.Options != "proto h2" {
			t.Fatalf("got %+v", plan)
		}
		line := fmt.Sprintf("    server 10.0.0.1_80 10.0.0.1:80 id %d proto h2\n", config.ServerID(plan.Add[0].Server))
		if cfg := string(plan.After.Files()[config.ConfigFile]); strings.Count(cfg, line) != 1 {
			t.Errorf("the server's line has not its options:\n%s", cfg)
		}
		gone := config.Diff(with(h2c), plan.After)
		changed := servicesInput(t, h2c, "two", "one")
		two := changed.Table.Backends()[slices.IndexFunc(changed.Table.Backends(), func(b routing.Backend) bool { return b.Service == "two" })]
		state := changed.Backends[two]
		state.AppProtocol = ""
		changed.Backends[two] = state
		for name, running := range map[string]config.Config{"there": plan.After, "gone": gone.After} {
			if got := config.Diff(config.Render(changed), running).Reload; got == "" {
				t.Errorf("a Service of another protocol that was %s: no reload", name)
			}
		}
	})
}

// TestSparesHaveNoLimit: a section with a limit of requests gets other rules than a spare, and its servers do not go to
// one when it has none any more.
func TestSparesHaveNoLimit(t *testing.T) {
	limited := func(services ...string) config.Config {
		in := servicesInput(t, "", services...)
		in.Table.Policies = map[routing.Backend]routing.BackendPolicy{{Service: "two", Port: 80}: {MaxConnections: 1}}
		return config.Render(in)
	}
	free := func(services ...string) config.Config { return config.Render(servicesInput(t, "", services...)) }
	withSpare, gone := config.Diff(free("one", "two"), free("one")).After, config.Diff(free("one"), limited("one", "two")).After
	for name, test := range map[string]struct {
		desired, running config.Config
		want             string
	}{
		"a new Service":                    {limited("one", "two"), free("one"), config.ReloadBackends},
		"a Service that has a spare":       {limited("one", "two"), withSpare, config.ReloadBackends},
		"a Service with a section":         {limited("one", "two"), free("one", "two"), config.ReloadPolicies},
		"a Service without a limit":        {free("one", "two"), limited("one", "two"), config.ReloadPolicies},
		"a Service that was there before":  {free("one", "two"), gone, config.ReloadPolicies},
		"a Service that comes again":       {limited("one", "two"), gone, ""},
		"another Service":                  {limited("one", "two", "three"), limited("one", "two"), ""},
		"another Service without a limit":  {free("one", "three"), gone, ""},
		"no Service with a limit any more": {free("one"), limited("one", "two"), ""},
	} {
		if got := config.Diff(test.desired, test.running).Reload; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestSparesOfHAProxy: a spare serves in place of a section, at run time and when HAProxy starts with it.
func TestSparesOfHAProxy(t *testing.T) {
	t.Parallel()
	const spec = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - {name: one, rules: [{backendRefs: [{name: one, port: 80}]}]}
    - {name: two, rules: [{matches: [{path: {value: /two}}], backendRefs: [{name: two, port: 80}]}]}
    - {name: both, rules: [{matches: [{path: {value: /both}}], backendRefs: [{name: two, port: 80, weight: 0}, {name: three, port: 80, weight: 1}]}]}
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
  - {service: three, port: 80, servers: ["127.0.0.1:1"]}
`
	all := parseWorld(t, spec)
	one := all
	one.Spec.Routes = one.Spec.Routes[:1]
	g := startGateway(t, one)
	in := g.in
	in.Table = all.input(t).Table
	for i := range in.Table.Listeners {
		in.Table.Listeners[i].Port = g.ports[80]
	}
	plan := config.Diff(config.Render(in), config.Render(g.in))
	if plan.Reload != "" {
		t.Fatalf("a reload is wanted: %s", plan.Reload)
	}
	worker := runtime.NewWorker(g.WorkerSocket)
	for _, change := range plan.Add {
		if err := worker.AddServer(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	g.replaceMaps(t, plan.Maps)
	check := func() {
		t.Helper()
		for path, want := range map[string]string{"/": "one", "/two": "two", "/both": "three"} {
			if got := newClient(t, g.ports[80]).send(get("x", path)); got.Header.Get("Backend") != want {
				t.Errorf("%s: got %d from %q, want it from %q", path, got.Status, got.Header.Get("Backend"), want)
			}
		}
	}
	check()
	for _, line := range g.accessLog(t, 3) {
		if !strings.Contains(line, `"backend":"one_80"`) && !strings.Contains(line, `"backend":"two_80"`) && !strings.Contains(line, `"backend":"three_80"`) {
			t.Errorf("the access log does not name the Service: %s", line)
		}
	}
	g.Stop()
	files := plan.After.Files()
	if names := slices.Collect(maps.Keys(files)); !slices.Contains(names, config.SparesFile) {
		t.Errorf("the files are %v", names)
	}
	g.Instance = haproxytest.Start(t, g.in.Paths, files)
	check()
}
