package dataplanetest_test

import (
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// TestBackups: endpoints of other zones share the requests while health checks of all others fail, and no longer. An
// endpoint becomes a backup, and a usual one again, without a reload.
func TestBackups(t *testing.T) {
	t.Parallel()
	var sick atomic.Bool
	moody := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Backend", "near")
		if r.RequestURI == "/health" && sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	near, far, farther := serve(t, moody, nil), serve(t, named("far"), nil), serve(t, named("farther"), nil)
	far.Backup, farther.Backup = true, true
	const policy = ", healthCheck: {path: /health, interval: 100ms, timeout: 1s, unhealthyThreshold: 1, healthyThreshold: 1}"
	g := startBackends(t, "", policy, "", near, far, farther)
	c := newClient(t, g.ports[80])
	answerers := func(want ...string) func() bool {
		return func() bool {
			seen := map[string]bool{}
			for range 20 {
				seen[c.send(get("x", "/")).Header.Get("Backend")] = true
			}
			return slices.Equal(slices.Sorted(maps.Keys(seen)), want)
		}
	}
	if !answerers("near")() {
		t.Error("backups got requests though they are not needed")
	}
	sick.Store(true)
	eventually(t, "all backups get requests", answerers("far", "farther"))
	sick.Store(false)
	eventually(t, "backups get no requests any more", answerers("near"))

	observed := must.Get(runtime.NewWorker(g.WorkerSocket).Observe(t.Context()))(t)
	for _, server := range observed.Servers {
		if want := server.Address != ir.ServerAddress(near); server.Backup != want {
			t.Errorf("HAProxy reports of %s: backup is %t, want %t", server.Address, server.Backup, want)
		}
	}

	near.Backup, far.Backup = true, false
	in := g.in
	in.Backends = map[routing.Backend]render.BackendState{
		{Service: "b", Port: 80}: {Exists: true, Servers: []ir.Server{near, far, farther}},
	}
	g.change(t, plan.Diff(render.Render(in), render.Render(g.in)), func() {})
	eventually(t, "the endpoint that is no backup any more gets all requests", answerers("far"))
}
