package dataplanetest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
)

// TestBackupService: without health checks, all endpoints of the backup share the requests once the last endpoint of
// the Service is gone, and get none as soon as one is back. No request is lost, and nothing reloads.
func TestBackupService(t *testing.T) {
	t.Parallel()
	usual, one, two := serve(t, named("usual"), nil), serve(t, named("one"), nil), serve(t, named("two"), nil)
	one.Backup, two.Backup = true, true
	for name, algorithm := range map[string]string{"by chance": "", "by path": ", loadBalancing: {algorithm: URI}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startBackends(t, "", ", backup: {name: spare, port: 80}"+algorithm, "", usual, one, two)
			stop, lost := make(chan struct{}), make(chan int)
			go func() {
				failed, c := 0, newClient(t, g.ports[80])
				for {
					select {
					case <-stop:
						lost <- failed
						return
					default:
						if got, err := c.try(get("x", "/")); err != nil || got.Status != 200 {
							failed++
						}
					}
				}
			}()
			c := newClient(t, g.ports[80])
			expect := func(want ...string) {
				t.Helper()
				seen := map[string]bool{}
				for i := range 64 {
					seen[c.send(get("x", fmt.Sprint("/", i))).Header.Get("Backend")] = true
				}
				if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
					t.Errorf("requests are answered by %v, want %v", got, want)
				}
			}
			now := g.in
			have := func(servers ...ir.Server) {
				t.Helper()
				next := g.in
				next.Backends = map[routing.Backend]render.BackendState{{Service: "b", Port: 80}: {Exists: true, Servers: servers}}
				g.change(t, plan.Diff(render.Render(next), render.Render(now)), func() {})
				now = next
			}
			expect("usual")
			have(one, two)
			expect("one", "two")
			have(usual, one, two)
			expect("usual")
			close(stop)
			if failed := <-lost; failed > 0 {
				t.Errorf("%d requests were lost", failed)
			}
		})
	}
}
