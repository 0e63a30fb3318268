package render_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
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
		w := readWorld(t, path)
		want := render.Render(w.input(t)).AllFiles()
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
			if got := render.Render(w.input(t)).AllFiles(); !maps.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%s: rendered another time, it differs:\n%s", path, got[ir.ConfigFile])
			}
		}
	}
}

func shuffle[T any](r *rand.Rand, s []T) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// TestHostileStringsAreInert renders strings that no API server admits and has HAProxy check that they change nothing:
// as many lines and sections as with harmless ones. Those of certificates are whatever their authors wrote.
func TestHostileStringsAreInert(t *testing.T) {
	ca := certtest.NewAuthority(t)
	inPath := strings.NewReplacer("%", "%25", `\`, "") // no path has a backslash
	lines := func(s string) [3]int {
		in := render.Input{Paths: haproxytest.NewPaths(t), Bind: render.Bind{Addresses: []string{"127.0.0.1"}}}
		in.Certificates = map[string][]render.Certificate{"https": {{Secret: "cert", Names: []string{s, "*." + s}}}}
		in.Paths.CertificateDir = t.TempDir()
		writeSecret(t, in.Paths, "cert", ca.Issue(t, []string{"a"}))
		in.Table, _ = routingtest.Compile(&appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: appv1.Name(s), Port: 80, Hostname: appv1.Hostname(s)}, {Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS, TLS: &appv1.ListenerTLS{}}},
			Routes: []appv1.Route{{
				Name: appv1.Name(s), Hostnames: []appv1.Hostname{appv1.Hostname(s)},
				Rules: []appv1.RouteRule{{
					Matches: []appv1.RouteMatch{{
						Path:        appv1.PathMatch{Value: "/" + inPath.Replace(s)},
						Headers:     []appv1.HeaderMatch{{Name: appv1.HeaderName(s), Value: s}},
						QueryParams: []appv1.QueryParamMatch{{Name: s, Value: s}},
					}},
					Filters: []appv1.RuleFilter{
						{RequestHeaderModifier: &appv1.HeaderFilter{Set: []appv1.Header{{Name: appv1.ModifiedHeaderName(s), Value: s}}}},
						{URLRewrite: &appv1.URLRewrite{Hostname: appv1.PreciseHostname(s), Path: &appv1.PathModifier{Type: appv1.PathModifierReplaceFullPath, ReplaceFullPath: appv1.URLPath(s)}}},
					},
					SessionPersistence: &appv1.SessionPersistence{SessionName: s},
					BackendRefs:        []appv1.BackendRef{{Name: "a", Port: 80}, {Name: "a", Port: 81}},
				}},
			}},
		})
		in.Backends = map[routing.Backend]render.BackendState{{Service: "a", Port: 80}: {Exists: true}}
		files := render.Render(in).AllFiles()
		files[ir.LoadFile] = ir.LoadContent(s, s, s)
		if err := haproxytest.Check(t, in.Paths, files); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		cfg := slices.Concat(files[ir.ConfigFile], files[ir.LoadFile])
		list := files["certificates-443.list"]
		return [3]int{bytes.Count(cfg, []byte("\n")), bytes.Count(data(files), []byte("\n")), len(bytes.FieldsFunc(list, unicode.IsSpace))}
	}
	want := lines("harmless")
	for _, s := range []string{"a\nbackend b", "a b", `a"b`, "a'b", `a\`, "a#b", "$HOME", "${HOME}", "%[src]", "a\x00b", "a\r\nb", "é\xff", "[a", "!a", strings.Repeat("a", 1000)} {
		if got := lines(s); got != want {
			t.Errorf("%q makes %d lines of configuration and of map, and words of the list of certificates, want %d", s, got, want)
		}
	}
}

// bigInput returns an Input with as many routes, each with a hostname and a Service of its own.
func bigInput(routes int) render.Input {
	spec := &appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80}}}
	in := render.Input{Paths: podPaths, Backends: map[routing.Backend]render.BackendState{}}
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
		if err := haproxytest.Check(b, in.Paths, files); err != nil {
			b.Fatal(err)
		}
	}
}
