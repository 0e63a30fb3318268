//go:build slow

package render_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// hosts returns a Gateway with as many HTTPS listeners, and a certificate and a route for each.
func hosts(n int) (*model.Gateway, map[string][]render.Certificate) {
	gateway, certificates, routes := &model.Gateway{}, map[string][]render.Certificate{}, []model.Route{}
	for i := range n {
		name, host := fmt.Sprintf("l%05d", i), fmt.Sprintf("h%05d.example.com", i)
		gateway.Listeners = append(gateway.Listeners, model.Listener{
			Name: name, Port: 443, Protocol: "HTTPS", Hostname: host, TLS: &model.ListenerTLS{Secrets: []string{name}, MinVersion: "TLSv1.2"},
		})
		certificates[name] = []render.Certificate{{Secret: name, Names: []string{host}, KeyType: "ECDSA"}}
		routes = append(routes, model.Route{
			Kind: "HTTPRoute", Name: name, Listeners: []string{name}, Hostnames: []string{host},
			Rules: []model.Rule{{Action: &model.Action{}, Matches: []model.Match{{PathType: model.Prefix, Path: "/"}}, Backends: []model.Target{{Backend: model.Backend{Service: "one", Port: 80}, Weight: 1}}}},
		})
	}
	gateway.Routes = model.Ordered(routes...)
	return gateway, certificates
}

// TestListenersCost: ten times as many listeners take about ten times as long, and one more takes less than all.
func TestListenersCost(t *testing.T) { //nolint:paralleltest // others would take time meanwhile
	var all [2]time.Duration
	for i, n := range []int{1000, 10000} {
		var compiler routing.Compiler
		var renderer render.Renderer
		running := ir.Config{}
		// Time of other processes does not count.
		measure := func(n int) time.Duration {
			gateway, certificates := hosts(n)
			before := processorTime(t)
			table, _ := compiler.Compile(gateway)
			config := renderer.Render(render.Input{Table: table, Certificates: certificates, Backends: map[routing.Backend]render.BackendState{{Service: "one", Port: 80}: {Exists: true}}})
			p := plan.Diff(config, running)
			running = p.After
			if running.Maps[ir.NamesFile].Len() != n {
				t.Fatalf("there are %d names, want %d", running.Maps[ir.NamesFile].Len(), n)
			}
			return processorTime(t) - before
		}
		all[i] = measure(n)
		t.Logf("%d listeners: %v, one more: %v", n, all[i], measure(n+1))
	}
	if all[1] > 30*all[0] {
		t.Errorf("ten times as many listeners take %v instead of %v", all[1], all[0])
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
