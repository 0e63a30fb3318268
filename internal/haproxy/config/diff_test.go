package config_test

import (
	"reflect"
	"strings"
	"testing"

	"gateway/internal/haproxy/config"
)

// diffWorld is what runs before every change of TestDiff.
const diffWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: r
      hostnames: [a.io, "*.b.io"]
      rules: [{backendRefs: [{name: one, port: 80}, {name: two, port: 80}]}]
backends:
  - {service: one, port: 80, servers: ["10.0.0.1:80", "10.0.0.2:80"]}
  - {service: two, port: 80, servers: ["10.0.0.9:80"]}
`

func TestDiff(t *testing.T) {
	one := func(address string) config.ServerChange {
		return config.ServerChange{Backend: "one_80", Server: config.Server{Address: address, Port: 80}}
	}
	two := config.ServerChange{Backend: "two_80", Server: config.Server{Address: "10.0.0.9", Port: 80}}
	tests := map[string]struct {
		old, new    string // what to replace in diffWorld
		reload      string
		replaceMap  bool
		add, remove []config.ServerChange
	}{
		"nothing":                           {"", "", "", false, nil, nil},
		"a generation":                      {"generation: 1", "generation: 2", "", true, nil, nil},
		"a weight":                          {"two, port: 80}", "two, port: 80, weight: 2}", "", true, nil, nil},
		"a hostname":                        {"a.io", "c.io", "", true, nil, nil},
		"a wildcard of a depth that exists": {"*.b.io", "*.c.io", "", true, nil, nil},
		"the last wildcard of a depth":      {"*.b.io", "c.b.io", "", true, nil, nil},
		"a wildcard of another depth":       {"*.b.io", "*.a.b.io", config.ReloadKinds, false, nil, nil},
		"a listener's name":                 {"name: http", "name: web", "", true, nil, nil},
		"a listener on the same port":       {"HTTP}]", "HTTP}, {name: a, port: 80, protocol: HTTP, hostname: a.io}]", "", true, nil, nil},
		"a listener on another port":        {"HTTP}]", "HTTP}, {name: a, port: 81, protocol: HTTP}]", config.ReloadPorts, false, nil, nil},
		"a port":                            {"port: 80, protocol", "port: 81, protocol", config.ReloadPorts, false, nil, nil},
		"a new backend and a new depth":     {"*.b.io\"]\n      rules: [{backendRefs: [", "*.a.b.io\"]\n      rules: [{backendRefs: [{name: three, port: 80}, ", config.ReloadKinds, false, nil, nil},
		"one backend less":                  {", {name: two, port: 80}", "", "", true, nil, []config.ServerChange{two}},
		"a Service disappears":              {"  - {service: two, port: 80, servers: [\"10.0.0.9:80\"]}\n", "", "", true, nil, []config.ServerChange{two}},
		"another order of servers":          {`"10.0.0.1:80", "10.0.0.2:80"`, `"10.0.0.2:80", "10.0.0.1:80", "10.0.0.2:80"`, "", false, nil, nil},
		"a server is added":                 {`"10.0.0.2:80"`, `"10.0.0.2:80", "10.0.0.10:80"`, "", false, []config.ServerChange{one("10.0.0.10")}, nil},
		"a server is replaced":              {"10.0.0.2", "10.0.0.3", "", false, []config.ServerChange{one("10.0.0.3")}, []config.ServerChange{one("10.0.0.2")}},
		"all servers go":                    {`"10.0.0.1:80", "10.0.0.2:80"`, "", "", false, nil, []config.ServerChange{one("10.0.0.1"), one("10.0.0.2")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(diffWorld, strings.TrimPrefix(test.old, "- "), strings.TrimPrefix(test.new, "- "), 1)
			if changed == diffWorld && test.old != "" {
				t.Fatal("the test changes nothing")
			}
			running := config.Render(parseWorld(t, diffWorld).input(t))
			desired := config.Render(parseWorld(t, changed).input(t))
			plan := config.Diff(desired, running)
			if plan.Reload != test.reload || (len(plan.Maps) > 0) != test.replaceMap || !reflect.DeepEqual(plan.Add, test.add) || !reflect.DeepEqual(plan.Remove, test.remove) {
				t.Errorf("got %q, replace map %v, add %v, remove %v", plan.Reload, len(plan.Maps) > 0, plan.Add, plan.Remove)
			}
			if len(plan.Maps) > 0 {
				if change := plan.Maps[0]; len(plan.Maps) > 1 || change.File != config.MapFile ||
					len(change.Edits) == 0 && !reflect.DeepEqual(change.Entries, desired.Routes.Entries()) {
					t.Error("the new map is not the desired one")
				}
			}
			if again := config.Diff(desired, plan.After); !again.Empty() {
				t.Errorf("once the plan is carried out, there is more to do: %+v", again)
			}
			if back := config.Diff(running, plan.After); test.reload == "" && back.Reload != "" {
				t.Errorf("the way back needs a reload: %s", back.Reload)
			}
		})
	}
}

func TestDiffOfTheFirstLoad(t *testing.T) {
	desired := config.Render(parseWorld(t, diffWorld).input(t))
	plan := config.Diff(desired, config.Config{})
	if want := (config.Plan{Reload: config.ReloadFirst, After: desired}); !reflect.DeepEqual(plan, want) {
		t.Errorf("got %+v", plan)
	}
}

func TestDiffOfAnotherRendering(t *testing.T) {
	desired := config.Render(parseWorld(t, diffWorld).input(t))
	running := desired
	running.Skeleton = strings.Replace(desired.Skeleton, "timeout connect 2s", "timeout connect 5s", 1)
	if plan := config.Diff(desired, running); plan.Reload != config.ReloadSettings {
		t.Errorf("got %q", plan.Reload)
	}
}
