package config_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"gateway/internal/haproxy/config"
	"gateway/internal/routing"
)

// TestWithServers: the endpoints of one Service port after the other change, and every configuration and plan is as it would be if
// everything was rendered anew. More of them change than are kept apart from the rest.
func TestWithServers(t *testing.T) {
	in := bigInput(100)
	in.Backends[routing.Backend{Service: "service-1", Port: 80}] = config.BackendState{}
	backends := in.Table.Backends()
	r := rand.New(rand.NewPCG(1, 1))
	got := config.Render(in)
	for i := range 300 {
		backend := backends[r.IntN(len(backends))]
		state := in.Backends[backend]
		if !state.Exists {
			continue
		}
		state.Servers = nil
		for range r.IntN(4) {
			state.Servers = append(state.Servers, config.Server{Address: fmt.Sprint("10.0.0.", r.IntN(5)), Port: 80})
		}
		in.Backends[backend] = state
		want := config.Render(in)
		rendered := config.Diff(want, got)
		next := got.WithServers(backend, state.Servers)
		if !reflect.DeepEqual(next.Servers.All(), want.Servers.All()) {
			t.Fatalf("change %d: the servers are %v, want %v", i, next.Servers.All(), want.Servers.All())
		}
		changed := config.Diff(next, got)
		if changed.Reload != "" || len(changed.Maps) > 0 || !reflect.DeepEqual(changed.Add, rendered.Add) || !reflect.DeepEqual(changed.Remove, rendered.Remove) {
			t.Fatalf("change %d: the plan is %+v, want %+v", i, changed, rendered)
		}
		got = changed.After
	}
}
