package dataplanetest_test

import (
	"reflect"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
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
	one := func(address string) plan.Server {
		return plan.Server{Backend: "one_80", Server: ir.Server{Address: address, Port: 80}}
	}
	tests := map[string]struct {
		old, new    string // what to replace in diffWorld
		reload      string
		edits       int // how many entries of maps change
		backends    int // how many backends are added
		add, remove []plan.Server
	}{
		"nothing":                     {"", "", "", 0, 0, nil, nil},
		"a generation":                {"generation: 1", "generation: 2", "", 0, 0, nil, nil},
		"a weight":                    {"two, port: 80}", "two, port: 80, weight: 2}", "", 2, 0, nil, nil},
		"a hostname":                  {"a.io", "c.io", "", 2, 0, nil, nil},
		"a wildcard":                  {"*.b.io", "*.c.io", "", 2, 0, nil, nil},
		"the last wildcard":           {"*.b.io", "c.b.io", "", 2, 0, nil, nil},
		"a wildcard of another depth": {"*.b.io", "*.a.b.io", "", 2, 0, nil, nil},
		"a listener's name":           {"name: http", "name: web", "", 3, 0, nil, nil},
		"a listener on the same port": {"HTTP}]", "HTTP}, {name: a, port: 80, protocol: HTTP, hostname: a.io}]", "", 1, 0, nil, nil},
		"a listener on another port":  {"HTTP}]", "HTTP}, {name: a, port: 81, protocol: HTTP}]", ir.ReloadPorts, 0, 0, nil, nil},
		"a port":                      {"port: 80, protocol", "port: 81, protocol", ir.ReloadPorts, 0, 0, nil, nil},
		"a new backend":               {"backendRefs: [", "backendRefs: [{name: three, port: 80}, ", "", 2, 1, nil, nil},
		"one backend less":            {", {name: two, port: 80}", "", "", 2, 0, nil, nil},
		"a Service disappears":        {"  - {service: two, port: 80, servers: [\"10.0.0.9:80\"]}\n", "", "", 2, 0, nil, nil},
		"another order of servers":    {`"10.0.0.1:80", "10.0.0.2:80"`, `"10.0.0.2:80", "10.0.0.1:80", "10.0.0.2:80"`, "", 0, 0, nil, nil},
		"a server is added":           {`"10.0.0.2:80"`, `"10.0.0.2:80", "10.0.0.10:80"`, "", 0, 0, []plan.Server{one("10.0.0.10")}, nil},
		"a server is replaced":        {"10.0.0.2", "10.0.0.3", "", 0, 0, []plan.Server{one("10.0.0.3")}, []plan.Server{one("10.0.0.2")}},
		"all servers go":              {`"10.0.0.1:80", "10.0.0.2:80"`, "", "", 0, 0, nil, []plan.Server{one("10.0.0.1"), one("10.0.0.2")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(diffWorld, test.old, test.new, 1)
			if changed == diffWorld && test.old != "" {
				t.Fatal("the test changes nothing")
			}
			if name == "a new backend" {
				changed += `  - {service: three, port: 80, servers: ["10.0.0.20:80"]}`
			}
			running := render.Render(rendertest.Parse(t, diffWorld).Input(t))
			desired := render.Render(rendertest.Parse(t, changed).Input(t))
			got, edits := plan.Diff(desired, running), 0
			for _, file := range got.Edits {
				edits += len(file.Edits)
			}
			if got.Reload != test.reload || edits != test.edits || len(got.Backends) != test.backends ||
				!reflect.DeepEqual(got.AddServers, test.add) || !reflect.DeepEqual(got.RemoveServers, test.remove) {
				t.Errorf("got %q, %d edits, %d backends, add %v, remove %v", got.Reload, edits, len(got.Backends), got.AddServers, got.RemoveServers)
			}
			if again := plan.Diff(desired, got.After); !again.Empty() {
				t.Errorf("once the plan is carried out, there is more to do: %+v", again)
			}
			if back := plan.Diff(running, got.After); test.reload == "" && (back.Reload != "" || len(back.Backends)+len(back.Entries) > 0) {
				t.Errorf("the way back needs more than edits: %+v", back)
			}
			collected := plan.Collect(plan.FindUnused(desired, got.After), got.After)
			collected.After.Backends = desired.Backends
			if !reflect.DeepEqual(collected.After, desired) {
				t.Errorf("once what is unused is gone, %+v is there", collected.After)
			}
		})
	}
}

func TestDiffOfTheFirstLoad(t *testing.T) {
	desired := render.Render(rendertest.Parse(t, diffWorld).Input(t))
	if got := plan.Diff(desired, ir.Config{}); !reflect.DeepEqual(got, plan.Plan{Reload: ir.ReloadFirst, After: desired}) {
		t.Errorf("got %+v", got)
	}
}

func TestDiffOfAnotherRendering(t *testing.T) {
	desired, running := render.Render(rendertest.Parse(t, diffWorld).Input(t)), render.Render(rendertest.Parse(t, diffWorld).Input(t))
	running.Sections[0].Lines = append(running.Sections[0].Lines, ir.Line{Text: "nbthread 1"})
	if got := plan.Diff(desired, running); got.Reload != ir.ReloadSettings {
		t.Errorf("got %q", got.Reload)
	}
}

// TestDiffOfLongChains: HAProxy has rules to look a request up in three contents of hosts, or as many as were needed
// when it started.
func TestDiffOfLongChains(t *testing.T) {
	with := func(hostnames string) ir.Config {
		return render.Render(rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - {name: all, rules: [{backendRefs: [{name: one, port: 80}]}]}
    - {name: r, hostnames: `+hostnames+`, rules: [{backendRefs: [{name: one, port: 80}]}]}
backends: [{service: one, port: 80, servers: ["10.0.0.1:80"]}]
`).Input(t))
	}
	one, three, four := with("[a.io]"), with(`["*.b.io", c.b.io]`), with(`["*.b.io", "*.a.b.io", c.a.b.io]`)
	for _, test := range []struct {
		name             string
		desired, running ir.Config
		reload           string
	}{
		{"a wildcard and all hosts", three, one, ""},
		{"two wildcards and all hosts", four, three, ir.ReloadNames},
		{"one wildcard less", three, four, ""},
	} {
		if got := plan.Diff(test.desired, test.running); got.Reload != test.reload {
			t.Errorf("%s: got %q, want %q", test.name, got.Reload, test.reload)
		}
	}
}
