package render_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testtier"
)

// TestRenderIsDeterministic renders every golden input 100 times, with everything shuffled that has no order, and wants
// equal bytes.
func TestRenderIsDeterministic(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs found (%v)", err)
	}
	r := testtier.Rand(t)
	for _, path := range inputs {
		w := rendertest.Read(t, path)
		want := render.Render(w.Input(t)).AllFiles()
		for range 100 {
			shuffle(r, w.Spec.Listeners)
			shuffle(r, w.Backends)
			for _, route := range w.Spec.Routes {
				shuffle(r, route.Hostnames)
				shuffle(r, route.Listeners)
			}
			for _, backend := range w.Backends {
				shuffle(r, backend.Servers)
			}
			if got := render.Render(w.Input(t)).AllFiles(); !maps.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%s: rendered another time, it differs:\n%s", path, got[ir.ConfigFile])
			}
		}
	}
}

// TestServicePortsThatChange: a Service port that speaks another protocol, is gone or has other endpoints changes each
// golden input as if nothing had been rendered before.
func TestServicePortsThatChange(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs found (%v)", err)
	}
	for _, path := range inputs {
		in := rendertest.Read(t, path).Input(t)
		var renderer render.Renderer
		renderer.Render(in)
		for backend, before := range in.Backends {
			for what, state := range map[string]render.BackendState{
				"HTTP/2":       {Exists: true, AppProtocol: "kubernetes.io/h2c", Servers: before.Servers},
				"unknown":      {Exists: true, AppProtocol: "unknown", Servers: before.Servers},
				"gone":         {},
				"no endpoints": {Exists: true, AppProtocol: before.AppProtocol},
				"as it was":    before,
			} {
				in.Backends[backend] = state
				if got, want := renderer.Render(in, backend).AllFiles(), render.Render(in).AllFiles(); !maps.EqualFunc(got, want, bytes.Equal) {
					t.Fatalf("%s: after %s is %s, it differs:\n%s\nwant\n%s", path, backend, what, got[ir.ConfigFile], want[ir.ConfigFile])
				}
			}
			in.Backends[backend] = before
			renderer.Render(in, backend)
		}
	}
}

func shuffle[T any](r *rand.Rand, s []T) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// bigInput returns an Input with as many routes, each with a hostname and a Service of its own.
func bigInput(routes int) render.Input {
	spec := &appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80}}}
	in := render.Input{Paths: rendertest.PodPaths, Backends: map[routing.Backend]render.BackendState{}}
	weight := int32(9)
	for i := range routes {
		name := fmt.Sprintf("service-%d", i)
		spec.Routes = append(spec.Routes, appv1.Route{
			Name:      appv1.Name(fmt.Sprint("route-", i)),
			Hostnames: []appv1.Hostname{appv1.Hostname(fmt.Sprintf("host-%d.example.com", i))},
			Rules: []appv1.RouteRule{
				{BackendRefs: []appv1.BackendRef{{Name: name, Port: 80, Weight: &weight}, {Name: "canary", Port: 80}}},
				{Matches: []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchExact, Value: "/login"}}}, BackendRefs: []appv1.BackendRef{{Name: name, Port: 80}}},
			},
		})
		in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{
			Exists:  true,
			Servers: []ir.Server{{Address: fmt.Sprintf("10.1.%d.%d", i/250, i%250), Port: 80}, {Address: fmt.Sprintf("10.2.%d.%d", i/250, i%250), Port: 80}},
		}
	}
	in.Table, _ = routingtest.Compile(spec)
	return in
}

func BenchmarkRender(b *testing.B) {
	in := bigInput(3000)
	for b.Loop() {
		render.Render(in)
	}
}

func BenchmarkFiles(b *testing.B) {
	rendered := render.Render(bigInput(3000))
	for b.Loop() {
		rendered.AllFiles()
	}
}

func BenchmarkDiff(b *testing.B) {
	in := bigInput(3000)
	running := render.Render(in)
	desired := render.Render(in)
	for b.Loop() {
		plan.Diff(desired, running)
	}
}

// BenchmarkCheck measures how long HAProxy takes to read a configuration of 3,000 routes and as many backends.
func BenchmarkCheck(b *testing.B) {
	in := bigInput(3000)
	in.Paths = haproxytest.NewPaths(b)
	files := render.Render(in).AllFiles()
	for b.Loop() {
		must.Do(b, haproxytest.Check(b, in.Paths, files))
	}
}
