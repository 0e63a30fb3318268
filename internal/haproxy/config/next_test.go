package config_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/config"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// TestNext: after any edits, of routes, endpoints, Services and their protocols, policies and authorities, a configuration that shares what it can with the one
// before is what Render makes of the same.
func TestNext(t *testing.T) {
	g := routingtest.New(t)
	world := propertyWorld()
	in := world.input(t)
	in.Authorities = map[string][]byte{}
	all := in.Backends
	got := config.Render(in)
	shared := 0
	for i := range 400 {
		before := got
		in.SameBackends = g.IntN(2) == 0
		switch g.IntN(13) {
		case 0:
			in.Authorities = map[string][]byte{"ca": fmt.Append(nil, "content ", g.IntN(2))}
		case 1:
			in.Backends, in.SameBackends = someExist(g, all), false
		case 2:
			world.Spec.Backends = somePolicies(g)
		case 3:
			backend := routing.Backend{Service: routingtest.Services[g.IntN(len(routingtest.Services))], Port: 80}
			if state := in.Backends[backend]; state.Exists {
				state.Servers = someServers(g)
				in.Backends[backend] = state
				got = got.WithServers(backend, state.Servers)
			}
		case 4:
			world.Spec = g.Spec([2]int32{80, 81})
			someParts(g, &world.Spec)
		case 5:
			in.Generation++
		case 6:
			backend := routing.Backend{Service: routingtest.Services[g.IntN(len(routingtest.Services))], Port: 80}
			if state := in.Backends[backend]; state.Exists {
				state.AppProtocol = []string{"", "https", "kubernetes.io/h2c"}[g.IntN(3)]
				in.Backends[backend], in.SameBackends = state, false
			}
		default:
			world.Spec = g.Edit(world.Spec)
		}
		in.Table, _ = routingtest.Compile(&world.Spec)
		got = got.Next(in)
		if want := config.Render(in); !reflect.DeepEqual(content(got), content(want)) {
			t.Fatalf("seed %d, edit %d: got\n%+v\nwant\n%+v", g.Seed, i, content(got), content(want))
		}
		if expectSameFiles(t, before, got)[config.ConfigFile] && !reflect.DeepEqual(before.Routes, got.Routes) {
			shared++
		}
		if again := got.Next(in); again.Skeleton != got.Skeleton || !config.Diff(again, got).Empty() {
			t.Fatalf("seed %d, edit %d: without an edit, something differs", g.Seed, i)
		}
	}
	if shared == 0 {
		t.Errorf("seed %d: haproxy.cfg never stayed when a map changed", g.Seed)
	}
}

// TestNextOfSharedEntries: what the rule of one hostname has in common with that of another stays, when an edit takes it from one of them alone:
// a rule before it is for the same requests.
func TestNextOfSharedEntries(t *testing.T) {
	w := parseWorld(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - {name: other, hostnames: [other.io], rules: [{backendRefs: [{name: one, port: 80}]}]}
    - name: r
      hostnames: [a.io, b.io]
      rules:
        - filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: a}]}}]
          backendRefs: [{name: one, port: 80}, {name: two, port: 80}]
backends: [{service: one, port: 80}, {service: two, port: 80}]
`)
	for _, taken := range w.Spec.Routes[1].Hostnames {
		in := w.input(t)
		before := config.Render(in)
		spec := *w.Spec.DeepCopy()
		spec.Routes[0].Hostnames = append(spec.Routes[0].Hostnames, taken)
		in.Table, _ = routingtest.Compile(&spec)
		if got, want := before.Next(in), config.Render(in); !reflect.DeepEqual(content(got), content(want)) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", taken, content(got), content(want))
		}
	}
}

// expectSameFiles returns which files of two configurations are said to be the same, and fails the test if one is not.
func expectSameFiles(t *testing.T, a, b config.Config) map[string]bool {
	t.Helper()
	same, before, sources := map[string]bool{}, a.Files(), a.Sources()
	after := b.Files()
	for name, source := range b.Sources() {
		if was, ok := sources[name]; !ok || !source.Equal(was) {
			continue
		}
		same[name] = true
		if !bytes.Equal(after[name], before[name]) {
			t.Fatalf("%s is said to be the same; it was\n%s\nand is\n%s", name, before[name], after[name])
		}
	}
	return same
}

// TestPlain: what the skeleton has rules for is seen by itself, too, among rules and hostnames that it needs none for.
func TestPlain(t *testing.T) {
	for part := range ruleParts {
		for host := range partHosts {
			in := partsWorld(t, [][3]int{{part, 1, host}, {0, 0, 1}}).input(t)
			if got := config.Render(in).Skeleton; !strings.HasPrefix(got, config.SkeletonOf(in)) {
				t.Errorf("rule %d, host %q: the skeleton lacks something: %s", part, partHosts[host], got)
			}
		}
	}
}

// content is all that is in a configuration.
func content(c config.Config) []any {
	return []any{c.Skeleton, c.Static, c.Routes.Entries(), c.Maps, c.Servers.All(), c.Settings}
}

func someServers(g *routingtest.Generator) []config.Server {
	var servers []config.Server
	for range g.IntN(4) {
		servers = append(servers, config.Server{Address: fmt.Sprint("10.0.0.", g.IntN(5)), Port: 80})
	}
	return servers
}

func somePolicies(g *routingtest.Generator) []appv1.Backend {
	var policies []appv1.Backend
	for _, service := range routingtest.Services {
		policy := appv1.Backend{Name: service, Port: 80}
		switch g.IntN(4) {
		case 0:
			policy.TLS = &appv1.BackendTLS{Hostname: "inner", CACertificateRefs: []appv1.ObjectReference{{Name: "ca"}}}
		case 1:
			policy.HealthCheck = &appv1.HealthCheck{Path: "/healthz"}
		case 2:
			policy.ProxyProtocol = "V2"
		default:
			continue
		}
		policies = append(policies, policy)
	}
	return policies
}

// someParts gives some rules sections of their own, and programs.
func someParts(g *routingtest.Generator, spec *appv1.GatewaySpec) {
	for i := range spec.Routes {
		for j := range spec.Routes[i].Rules {
			if g.IntN(4) == 0 {
				attempts := int32(g.IntN(3))
				spec.Routes[i].Rules[j].Retry = &appv1.RouteRetry{Attempts: &attempts}
			}
			if g.IntN(4) == 0 {
				size, cors := g.Int64N(3), &appv1.CORS{AllowOrigins: []appv1.CORSOrigin{"https://a.test"}}
				spec.Routes[i].Rules[j].MaxRequestBytes = &size
				spec.Routes[i].Rules[j].Filters = []appv1.RouteFilter{{Type: appv1.RouteFilterCORS, CORS: cors}}
			}
		}
	}
}
