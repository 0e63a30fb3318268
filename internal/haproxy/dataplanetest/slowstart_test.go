package dataplanetest_test

import (
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
)

// TestSlowStart: an endpoint that is added gets a sixteenth of its share at first. HAProxy starts it slowly although no
// health check has ever failed, and with a weight of 1. When HAProxy itself starts, all get their share at once.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	const requests = 170 // of which 85 are its share, and 10 a sixteenth of the other's
	for _, algorithm := range []string{"RoundRobin", "Random"} {
		for name, test := range map[string]struct {
			slowStart       string
			present, isSlow bool
		}{
			"no slow start":  {"", false, false},
			"a slow start":   {", slowStart: 1h", false, true},
			"HAProxy starts": {", slowStart: 1h", true, false},
		} {
			old, added := serve(t, named("old"), nil), serve(t, named("added"), nil)
			before, after := []ir.Server{old}, []ir.Server{old, added}
			if test.present {
				before = after
			}
			g := startBackends(t, "", ", loadBalancing: {algorithm: "+algorithm+test.slowStart+"}", "", before...)
			in := g.in
			in.Backends = map[routing.Backend]render.BackendState{{Service: "b", Port: 80}: {Exists: true, Servers: after}}
			g.change(t, plan.Diff(render.Render(in), render.Render(g.in)), func() {})
			c, got := newClient(t, g.ports[80]), 0
			for range requests {
				if c.send(get("x", "/")).Header.Get("Backend") == "added" {
					got++
				}
			}
			if isSlow := got < requests/4; isSlow != test.isSlow || got == 0 {
				t.Errorf("%s, %s: the endpoint gets %d of %d requests", algorithm, name, got, requests)
			}
		}
	}
}
