package agent

import (
	"context"
	"net"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/logging"
	"gateway/internal/unixsocket"
)

// serveHAProxy accepts HAProxy's connections: to its peers, and with log lines of all requests for metrics, of sampled
// requests for traces, and of watched routes.
func (a *Agent) serveHAProxy(ctx context.Context) error {
	all := map[string]func(context.Context, net.Listener){
		a.options.Paths.PodsSocket(): a.relay.Serve, a.options.Paths.RequestsSocket(): requests.Serve, a.options.Paths.TracesSocket(): a.tracer.Serve,
	}
	if a.traces != nil {
		all[a.options.Paths.WatchedSocket()] = a.traces.serve
	}
	for path, serve := range all {
		listener, err := unixsocket.Listen(path)
		if err != nil {
			return err
		}
		go serve(ctx, listener)
	}
	return nil
}

// observePods finds the other pods, and tells HAProxy if there are rate limits.
func (a *Agent) observePods(ctx context.Context) {
	if a.source.Pods != nil {
		a.pods = a.source.Pods()
		a.relay.Update(a.pods)
	}
	r, ids := &a.state.running, a.relay.IDs()
	if !a.state.isKnown() || r.pods == ids || !filters.HasRates(a.state.disk.config) {
		return
	}
	// The entry is always there, so Old says only that it changes.
	edit := plan.Edit{Key: ir.PodsKey, Old: "others", New: ids}
	if err := a.worker.EditMap(ctx, a.options.Paths.Map(ir.PodsFile), []plan.Edit{edit}); err != nil {
		logging.Warningf("Rate limits do not count for all pods: %v", err)
		return
	}
	r.pods = ids
}
