package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
)

// Execute carries out a plan without a reload. It returns the servers that take no new requests but still have
// connections. On an error, part of the plan may have been carried out.
func (w *Worker) Execute(ctx context.Context, paths ir.Paths, p plan.Plan) (busy []plan.Server, err error) {
	for _, file := range slices.Sorted(maps.Keys(p.Authorities)) {
		if err := w.AddAuthority(ctx, paths.Map(file), p.Authorities[file]); err != nil {
			return nil, err
		}
	}
	for _, backend := range p.Backends {
		if err := w.AddBackend(ctx, backend); err != nil {
			return nil, err
		}
	}
	for _, server := range p.AddServers {
		if err := w.AddServer(ctx, server); err != nil {
			return nil, err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(p.Entries)) {
		if err := w.AddEntries(ctx, paths.Map(file), p.Entries[file]); err != nil {
			return nil, err
		}
	}
	if p.Conditions != nil {
		if err := w.ReplaceMap(ctx, paths.Map(ir.ConditionsFile), p.Conditions); err != nil {
			return nil, err
		}
	}
	for _, edits := range p.Edits {
		if err := w.EditMap(ctx, paths.Map(edits.File), edits.Edits); err != nil {
			return nil, err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(p.AddCertificates)) {
		if err := w.AddCertificates(ctx, paths.Map(file), p.AddCertificates[file]); err != nil {
			return nil, err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(p.RemoveCertificates)) {
		if err := w.RemoveCertificates(ctx, paths.Map(file), p.RemoveCertificates[file]); err != nil {
			return nil, err
		}
	}
	for _, server := range p.RemoveServers {
		err := w.RemoveServer(ctx, server.Backend, server.Server)
		if errors.Is(err, ErrServerBusy) {
			busy = append(busy, server)
		} else if err != nil {
			return nil, err
		}
	}
	return busy, nil
}

// Remove deletes what is unused. It returns what runs afterwards, and the servers that take no new requests but still
// have connections. Backends with requests stay, without servers. So do those that could not be deleted because of an
// error.
func (w *Worker) Remove(ctx context.Context, paths ir.Paths, removal plan.Removal) (after ir.Config, busy []plan.Server, err error) {
	after = removal.After
	for _, file := range slices.Sorted(maps.Keys(removal.Keys)) {
		if err := w.DeleteKeys(ctx, paths.Map(file), removal.Keys[file]); err != nil {
			return after, nil, err
		}
	}
	if removal.Conditions != nil {
		if err := w.ReplaceMap(ctx, paths.Map(ir.ConditionsFile), removal.Conditions); err != nil {
			return after, nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(removal.Backends)) {
		backend := *removal.Backends[name]
		remove := plan.Plan{}
		for _, server := range backend.Servers {
			remove.RemoveServers = append(remove.RemoveServers, plan.Server{Backend: name, Server: server})
		}
		// Whatever happens to the servers, all are added again when the backend is used again.
		backend.Servers = nil
		after.Backends = after.Backends.With(name, &backend)
		still, err := w.Execute(ctx, paths, remove)
		if busy = append(busy, still...); err != nil {
			return after, busy, err
		}
		if len(still) > 0 {
			continue
		}
		deleted, err := w.DeleteBackend(ctx, name)
		if err != nil {
			return after, busy, err
		}
		if deleted {
			after.Backends = after.Backends.Without(name)
		}
	}
	return after, busy, nil
}
