package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/golang/glog"

	"gateway/internal/endpoints"
	"gateway/internal/haproxy/config"
	"gateway/internal/resources"
	"gateway/internal/routing"
)

// gather renders what the caches and the files say into a.want, again if they may have changed. It returns false if there is
// no Gateway yet. Once there was one, its last state counts, even if it was deleted: the pod's end is not ours to bring.
func (a *Agent) gather(changed bool, now time.Time) bool {
	if !a.watch.synced() || a.awaits() {
		return false
	}
	touched := a.watch.takeTouched()
	if changed || a.compiled.table == nil {
		a.compile()
	}
	if a.compiled.table == nil {
		return false
	}
	same := a.want.generation == a.compiled.generation && a.want.config.Skeleton != ""
	if a.mounts.look() || !same || a.material.isOutdated(now) {
		a.material = collect(a.compiled.table, a.mounts.files, a.options.Namespace, now)
		same = false
	}
	proven, trial := a.trials.next(identify(a.material.certificates), a.state.good.certificates, now)
	if !a.state.up || a.state.unknown != "" {
		// What HAProxy starts on, or has to load anyway, has only what it has loaded before: it would not start on one bad certificate, and the
		// load after a refused one may cost connections.
		trial = nil
	}
	if !slices.Equal(trial, a.trial) {
		a.plain = nil
	}
	a.trial = trial
	certificates := setOf(proven, trial)
	if same && maps.Equal(certificates, a.want.certificates) && a.want.partial == a.isPartial(a.material, certificates) && a.follow(touched) {
		return true
	}
	sameBackends := a.observe(touched)
	newGeneration := a.want.generation != a.compiled.generation
	a.want = a.render(a.compiled.generation, *a.compiled.table, a.material, certificates, a.backends, sameBackends)
	a.plain = nil
	if newGeneration {
		kept := []*load{&a.want, &a.state.good}
		if len(a.trial) > 0 {
			kept = append(kept, a.withoutTrial())
		}
		a.state.forget(kept...)
	}
	return true
}

// awaits says whether the certificates are not there yet: a pod that became ready without them would take the place of one that has them.
func (a *Agent) awaits() bool {
	was := a.awaiting
	if a.awaiting = a.mounts.isAwaited(); a.awaiting && !was {
		glog.Infof("Waiting for the container %s to pass certificates on", resources.KeysContainer)
	}
	return a.awaiting
}

// observe makes a.backends what the Service ports of the table are. Only those are looked at that are new to it, or of Services that
// were touched. It returns true if there are none: then a.want is of the same.
func (a *Agent) observe(touched map[string]bool) bool {
	var unsure []routing.Backend
	wanted := a.compiled.result.Backends
	for service := range touched {
		unsure = append(unsure, routing.BackendsOf(service, wanted)...)
	}
	sameWanted := slices.Equal(wanted, a.observed)
	if !sameWanted {
		for _, backend := range wanted {
			if _, ok := a.backends[backend]; !ok {
				unsure = append(unsure, backend)
			}
		}
		maps.DeleteFunc(a.backends, func(backend routing.Backend, _ config.BackendState) bool {
			_, ok := slices.BinarySearchFunc(wanted, backend, routing.CompareBackends)
			return !ok
		})
		a.observed = wanted
	}
	maps.Copy(a.backends, endpoints.States(unsure, a.watch.cluster()))
	return sameWanted && len(unsure) == 0
}

// follow takes the endpoints of Services that were touched into a.want. It returns false if something else than endpoints changed.
func (a *Agent) follow(touched map[string]bool) bool {
	for service := range touched {
		for backend, state := range endpoints.States(routing.BackendsOf(service, a.compiled.result.Backends), a.watch.cluster()) {
			before := a.backends[backend]
			if state.Exists != before.Exists || state.AppProtocol != before.AppProtocol {
				return false
			}
			if slices.Equal(state.Servers, before.Servers) {
				continue
			}
			a.backends[backend] = state
			a.want.config = a.want.config.WithServers(backend, state.Servers)
			a.plain = nil
		}
	}
	return true
}

func (a *Agent) compile() {
	gateway := a.watch.gateway()
	if gateway == nil || a.compiled.table != nil && a.compiled.uid == gateway.UID && a.compiled.generation == gateway.Generation {
		return
	}
	result := a.compiled.result.Next(&gateway.Spec)
	for _, problem := range result.Problems {
		glog.Warningf("Gateway %s/%s generation %d: route %s, listener %s: %s", gateway.Namespace, gateway.Name,
			gateway.Generation, problem.Route, problem.Listener, problem.Message)
	}
	if a.compiled.uid != gateway.UID {
		a.want = load{}
		a.reported = 0
	}
	a.compiled = compiled{uid: gateway.UID, generation: gateway.Generation, result: result, table: &result.Table}
}

// render makes a load of a table with those of its certificates that are among the given ones.
func (a *Agent) render(
	generation int64, table routing.Table, found material, certificates map[certificateID]bool, backends map[routing.Backend]config.BackendState,
	sameBackends bool,
) load {
	return load{
		uid:          a.compiled.uid,
		generation:   generation,
		table:        table,
		certificates: certificates,
		partial:      a.isPartial(found, certificates),
		unmounted:    found.unmounted,
		found:        found,
		config: a.want.config.Next(config.Input{
			Generation:   generation,
			Table:        table,
			Backends:     backends,
			SameBackends: sameBackends,
			Certificates: restrict(found.certificates, certificates),
			Authorities:  found.authorities,
			Paths:        a.options.Paths,
			Bind:         a.options.Bind,
		}),
	}
}

// isPartial says whether certificates could be used that are not among these and of which it is not known that HAProxy
// refuses them.
func (a *Agent) isPartial(found material, certificates map[certificateID]bool) bool {
	return slices.ContainsFunc(identify(found.certificates), func(id certificateID) bool {
		return !certificates[id] && !a.trials.isRefused(id)
	})
}

// others are what to load while a.want is refused, best first.
func (a *Agent) others() []func() load {
	var others []func() load
	if len(a.trial) > 0 {
		others = append(others, func() load { return *a.withoutTrial() })
	}
	if a.state.good.id != "" {
		others = append(others, func() load { return a.again(a.state.good) })
	}
	return others
}

// only is a.want with no certificates but these.
func (a *Agent) only(certificates map[certificateID]bool) load {
	return a.render(a.want.generation, a.want.table, a.material, certificates, a.backends, false)
}

// withoutTrial is a.want without the certificates on trial.
func (a *Agent) withoutTrial() *load {
	if a.plain == nil {
		proven := maps.Clone(a.want.certificates)
		for _, id := range a.trial {
			delete(proven, id)
		}
		plain := a.only(proven)
		a.plain = &plain
	}
	return a.plain
}

// again renders a table that was loaded before with the endpoints of today, and with the certificates of then: that takes no
// reload.
func (a *Agent) again(good load) load {
	again := a.render(good.generation, good.table, good.found, good.certificates, endpoints.States(good.table.Backends(), a.watch.cluster()), false)
	again.uid = good.uid
	return again
}

// refusal is why the newest generation is not loaded; certificates on trial do not count.
func (a *Agent) refusal() (failure, bool) {
	wanted := &a.want
	if len(a.trial) > 0 {
		wanted = a.plain
	}
	if wanted == nil || len(a.state.failures) == 0 {
		return failure{}, false
	}
	f, ok := a.state.failures[wanted.key()]
	return f, ok
}
