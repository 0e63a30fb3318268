package agent

import (
	"context"
	"fmt"
	"net"
	"os"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/logging"
)

// serveRelay accepts the connections of HAProxy to its peers.
func (a *Agent) serveRelay(ctx context.Context) error {
	path := a.options.Paths.PodsSocket()
	if err := os.RemoveAll(path); err != nil { // that of an agent before
		return fmt.Errorf("failed to make way for HAProxy's peers: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("failed to listen for HAProxy's peers: %w", err)
	}
	go a.relay.Serve(ctx, listener)
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
