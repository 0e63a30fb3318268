package agent

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/endpoints"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/render"
	"gateway/internal/jwks"
	"gateway/internal/logging"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// downGrace is how long HAProxy may take to start before the status reports that it does not run, unless it drains.
const downGrace = 10 * time.Second

// observeHAProxy finds out which worker runs.
func (a *Agent) observeHAProxy(ctx context.Context, now time.Time) {
	r := &a.state.running
	was, before := r.up, r.worker
	process, err := a.worker.Process(ctx)
	if err == nil {
		r.downSince, r.failing = time.Time{}, false
		a.state.observe(&process)
		if process != before {
			logging.Infof("HAProxy's worker %d runs %s", process.PID, process.LoadID)
		}
		return
	}
	a.state.observe(nil)
	if was && ctx.Err() == nil {
		logging.Warningf("HAProxy does not answer: %v", err)
	}
	switch {
	case r.downSince.IsZero():
		r.downSince = now
	case r.failing || now.Sub(r.downSince) < downGrace:
	case a.master.IsDraining(ctx):
		// It is asked until it does not drain: a worker that hangs keeps each of the master's connections on which it
		// was asked.
		r.downSince = now
	default:
		r.failing = true
	}
}

// observe finds out the wanted configuration, as observeInputs does. If that panics, the last loaded one is wanted,
// with the endpoints of now, and a later pass looks at everything anew. Looks that panic take a tenth of the time at
// most.
func (a *Agent) observe(ctx context.Context, now time.Time) (known bool) {
	if a.fault != "" && now.Before(a.nextLook) {
		if known = a.state.good != nil; known {
			a.wanted = a.goodNow()
		}
		return known
	}
	begin := time.Now()
	defer func() {
		cause := recover()
		if cause == nil {
			a.fault = ""
			return
		}
		before := a.fault
		if a.fault = model.Panic(cause); a.fault != before {
			logging.Errorf("Going on with what was loaded last: %s\n%s", a.fault, debug.Stack())
		}
		a.inputs.forget()
		a.nextLook = now.Add(10 * time.Since(begin))
		if known = a.state.good != nil; known {
			a.wanted = a.goodNow()
		}
	}()
	return a.observeInputs(ctx, now)
}

// observeInputs finds out the wanted configuration. It returns false if that is not known yet. Once known, it stays
// known, even if the Gateway was deleted: the agent does not end the pod.
func (a *Agent) observeInputs(ctx context.Context, now time.Time) bool {
	changes, ok := a.source.Changes(a.fault != "")
	if !ok {
		return false
	}
	in := &a.inputs
	newTable := in.observeObjects(&changes)
	if len(in.origins) == 0 {
		return false
	}
	if changes.Bundles {
		a.mounts.files.bundles.forget()
		in.material.listeners = nil
	}
	newMaterial := in.observeMounts(ctx, a.mounts, a.keys, newTable || changes.Bundles, a.options.Namespace, now)
	changed := in.observeServices(changes.Services, a.source.Cluster)
	if newTable || newMaterial || len(changed) > 0 {
		a.wanted = in.render(a.options.Paths, a.options.Bind, changed...)
	}
	a.wanted.version.versions = in.versions
	if newTable {
		a.state.refused.keep(&a.wanted, a.state.good)
	}
	if in.material.awaits {
		return false
	}
	// A pod that became ready without keys would take the place of one that has them.
	return a.state.good != nil || !a.keys.IsAwaited() && (a.state.disk.id != "" || !a.mounts.isSilent(now))
}

// inputs are the observed state of everything except HAProxy.
type inputs struct {
	// uid, origins and routes come from the objects; they are empty before the first was seen. versions are the
	// resourceVersions of the Gateway API objects among them.
	uid      types.UID
	origins  []model.Origin
	routes   tree.Map[*model.Route]
	versions Versions
	// compiler and renderer keep what was made of the objects before.
	compiler routing.Compiler
	renderer render.Renderer
	// table is what the objects ask for, and problems are their problems, without their generations.
	table    routing.Table
	problems map[model.Problem]bool
	// states are the states of the Service ports that it refers to, which are in used.
	states map[model.Backend]render.BackendState
	used   tree.Map[model.Backend]
	// backups are the backups of Service ports. otherTable reports whether there may be others.
	backups    map[model.Backend]model.Backend
	otherTable bool
	// material are the certificates that can be used. awaiting means that they have not arrived: HAProxy must run before
	// it can be asked about them. A pod that became ready without them would replace one that has them.
	material material
	awaiting bool
}

// forget drops everything that was made of the objects, so that the next pass looks at all of them.
func (in *inputs) forget() {
	in.compiler, in.renderer, in.states, in.used = routing.Compiler{}, render.Renderer{}, nil, tree.Map[model.Backend]{}
	in.material.listeners = nil
}

// observeObjects takes in new objects. It returns whether there are any.
func (in *inputs) observeObjects(changes *Changes) bool {
	if in.versions = changes.Versions; changes.Gateway == nil {
		return false
	}
	in.uid, in.origins, in.routes = changes.UID, changes.Gateway.Origins, changes.Gateway.Routes
	in.compiler.Check = filters.Problem
	table, problems := in.compiler.Compile(changes.Gateway)
	for _, p := range in.newProblems(problems) {
		logging.Warningf("%s %s/%s generation %d: route %s, listener %s: %s",
			p.Origin.Kind, p.Origin.Namespace, p.Origin.Name, p.Origin.Generation, p.Route, p.Listener, p.Message)
	}
	in.table, in.otherTable = table, true
	return true
}

// newProblems returns the problems that were not there before, when their objects may have had another generation.
func (in *inputs) newProblems(problems []model.Problem) (added []model.Problem) {
	known := make(map[model.Problem]bool, len(problems))
	for _, problem := range problems {
		key := problem
		key.Origin.Generation = 0
		if known[key] = true; !in.problems[key] {
			added = append(added, problem)
		}
	}
	in.problems = known
	return added
}

// observeServices takes in the states of the Service ports. It looks only at ports that are new to the table, or whose
// Service changed. It returns the ports whose state is another one than before.
func (in *inputs) observeServices(services []types.NamespacedName, cluster endpoints.Cluster) (changed []model.Backend) {
	var unsure []model.Backend
	for change := range tree.Changes(in.used, in.table.Uses.Backends) {
		if change.Has {
			unsure = append(unsure, change.New)
		} else {
			delete(in.states, change.Old)
		}
	}
	in.used = in.table.Uses.Backends
	for _, service := range services {
		for _, backend := range in.used.Prefix(service.Namespace + "/" + service.Name + ":") {
			unsure = append(unsure, backend)
		}
	}
	unsure = append(unsure, in.observeBackups(services)...)
	for backend, state := range endpoints.States(unsure, in.table.Policies, cluster) {
		before := in.states[backend]
		if in.states == nil {
			in.states = map[model.Backend]render.BackendState{}
		}
		in.states[backend] = state
		if state.Exists != before.Exists || state.AppProtocol != before.AppProtocol || !slices.Equal(state.Servers, before.Servers) {
			changed = append(changed, backend)
		}
	}
	return changed
}

// observeBackups takes in the backups of Service ports. It returns the ports whose backup is another one, or whose
// backup's Service changed.
func (in *inputs) observeBackups(services []types.NamespacedName) (unsure []model.Backend) {
	before := in.backups
	if in.otherTable {
		in.otherTable, in.backups = false, map[model.Backend]model.Backend{}
		for backend, policy := range in.table.Policies {
			if policy.Backup != (model.Backend{}) {
				in.backups[backend] = policy.Backup
			}
		}
	}
	for backend, backup := range before {
		if in.backups[backend] != backup {
			unsure = append(unsure, backend)
		}
	}
	for backend, backup := range in.backups {
		isTouched := slices.Contains(services, types.NamespacedName{Namespace: backup.Namespace, Name: backup.Service})
		if isTouched || before[backend] != backup {
			unsure = append(unsure, backend)
		}
	}
	return slices.DeleteFunc(unsure, func(backend model.Backend) bool { return in.used.Value(backend.String()) != backend })
}

// observeMounts takes in the mounted files. It returns whether anything is new, as it is with a new table.
func (in *inputs) observeMounts(
	ctx context.Context, mounts *mountReader, keys *jwks.Fetcher, newTable bool, namespace string, now time.Time,
) bool {
	isOther := mounts.look()
	awaiting := mounts.isAwaited()
	changed := isOther || newTable || awaiting != in.awaiting || in.material.isOutdated(now)
	if awaiting && !in.awaiting {
		logging.Infof("Waiting for the container %s to pass certificates on", proxypod.KeysContainer)
	}
	if changed {
		in.wantKeys(ctx, keys, &mounts.files)
	}
	files := mounts.files
	fetched, isNew := keys.Sets()
	files.fetched = fetched
	if in.awaiting = awaiting; !changed && !isNew {
		return false
	}
	if isOther {
		in.material.listeners = nil
	}
	in.material = collect(&in.table, files, namespace, now, &in.material)
	mounts.await(awaiting || in.material.unmounted != "")
	if awaiting {
		in.material.problems, in.material.listeners = nil, nil // nothing is known of them yet
	}
	return true
}
