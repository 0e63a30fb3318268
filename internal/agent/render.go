package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/golang/glog"

	"gateway/internal/endpoints"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// gather renders what the caches and the files say into a.want, again if they may have changed. It returns false if
// there is no Gateway yet. Once there was one, its last state counts, even if it was deleted: the pod's end is not ours
// to bring.
func (a *Agent) gather(changed bool, now time.Time) bool {
	if !a.watch.synced() {
		return false
	}
	a.await()
	touched := a.watch.takeTouched()
	if changed || a.compiled.table == nil {
		a.compile()
	}
	if a.compiled.table == nil {
		return false
	}
	same := a.want.generation == a.compiled.generation && len(a.want.config.Sections) > 0
	same = same && a.want.partial == a.awaiting
	if a.mounts.look() || !same || a.material.isOutdated(now) {
		a.material = collect(a.compiled.table, a.mounts.files, a.options.Namespace, now)
		same = false
	}
	if a.awaiting {
		a.material.problems = nil // nothing is known of them yet
	}
	if same && a.follow(touched) {
		return true
	}
	a.observe(touched)
	newGeneration := a.want.generation != a.compiled.generation
	a.want = a.render(a.compiled.generation, *a.compiled.table, a.material, a.backends)
	a.want.partial = a.awaiting
	if newGeneration {
		a.state.forget(&a.want, &a.state.good)
	}
	return true
}

// await notes whether the certificates are not there yet: HAProxy has to run before it can be asked about them. A pod
// that became ready without them would take the place of one that has them.
func (a *Agent) await() {
	was := a.awaiting
	if a.awaiting = a.mounts.isAwaited(); a.awaiting && !was {
		glog.Infof("Waiting for the container %s to pass certificates on", proxypod.KeysContainer)
	}
}

// observe makes a.backends what the Service ports of the table are. Only those are looked at that are new to it, or of
// Services that were touched.
func (a *Agent) observe(touched map[string]bool) {
	var unsure []model.Backend
	wanted := a.compiled.backends
	for service := range touched {
		unsure = append(unsure, model.BackendsOf(a.options.Namespace, service, wanted)...)
	}
	if !slices.Equal(wanted, a.observed) {
		for _, backend := range wanted {
			if _, ok := a.backends[backend]; !ok {
				unsure = append(unsure, backend)
			}
		}
		maps.DeleteFunc(a.backends, func(backend model.Backend, _ render.BackendState) bool {
			_, ok := slices.BinarySearchFunc(wanted, backend, model.CompareBackends)
			return !ok
		})
		a.observed = wanted
	}
	maps.Copy(a.backends, endpoints.States(unsure, a.watch.cluster()))
}

// follow takes the endpoints of Services that were touched into a.want. It returns false if something else than
// endpoints changed.
func (a *Agent) follow(touched map[string]bool) bool {
	changed := map[string][]ir.Server{}
	for service := range touched {
		for backend, state := range endpoints.States(model.BackendsOf(a.options.Namespace, service, a.compiled.backends), a.watch.cluster()) {
			before := a.backends[backend]
			if state.Exists != before.Exists || state.AppProtocol != before.AppProtocol {
				return false
			}
			if slices.Equal(state.Servers, before.Servers) {
				continue
			}
			a.backends[backend] = state
			for _, name := range a.want.config.BackendsOf[backend] {
				changed[name] = state.Servers
			}
		}
	}
	if len(changed) > 0 {
		a.want.config = a.want.config.WithServers(changed)
	}
	return true
}

func (a *Agent) compile() {
	gateway := a.watch.gateway()
	if gateway == nil || a.compiled.table != nil && a.compiled.uid == gateway.UID && a.compiled.generation == gateway.Generation {
		return
	}
	table, problems := routing.Compile(source.Translate(gateway))
	for _, problem := range problems {
		glog.Warningf("Gateway %s/%s generation %d: route %s, listener %s: %s", gateway.Namespace, gateway.Name,
			gateway.Generation, problem.Route, problem.Listener, problem.Message)
	}
	if a.compiled.uid != gateway.UID {
		a.want = load{}
		a.reported = 0
	}
	a.compiled = compiled{uid: gateway.UID, generation: gateway.Generation, table: &table, backends: table.Backends()}
}

// render makes a load of a table and its certificates.
func (a *Agent) render(
	generation int64, table routing.Table, found material, backends map[model.Backend]render.BackendState,
) load {
	return load{
		uid:        a.compiled.uid,
		generation: generation,
		table:      table,
		unmounted:  found.unmounted,
		found:      found,
		config: render.Render(render.Input{
			Table:        table,
			Backends:     backends,
			Certificates: found.certificates,
			Authorities:  found.authorities,
			Paths:        a.options.Paths,
			Bind:         a.options.Bind,
		}),
	}
}

// others are what to load while a.want is refused, best first.
func (a *Agent) others() []func() load {
	if a.state.good.id == "" {
		return nil
	}
	return []func() load{func() load { return a.again(a.state.good) }}
}

// again renders a table that was loaded before with the endpoints of today, and with the certificates of then: that
// takes no reload.
func (a *Agent) again(good load) load {
	again := a.render(good.generation, good.table, good.found, endpoints.States(good.table.Backends(), a.watch.cluster()))
	again.uid, again.partial = good.uid, good.partial
	return again
}

// refusal is why the newest generation is not loaded.
func (a *Agent) refusal() (failure, bool) {
	if len(a.state.failures) == 0 {
		return failure{}, false
	}
	f, ok := a.state.failures[a.want.key()]
	return f, ok
}
