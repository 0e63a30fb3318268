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
	listener, err := listen(ctx, a.options.Paths.PodsSocket())
	if err != nil {
		return fmt.Errorf("failed to listen for HAProxy's peers: %w", err)
	}
	go a.relay.Serve(ctx, listener)
	return nil
}

// serveRequests takes what HAProxy writes about requests, to be measured.
func (a *Agent) serveRequests(ctx context.Context) error {
	listener, err := listen(ctx, a.options.Paths.RequestsSocket())
	if err != nil {
		return fmt.Errorf("failed to listen for what HAProxy measures: %w", err)
	}
	go requests.Serve(ctx, listener)
	return nil
}

// serveTraces takes what HAProxy writes about sampled requests.
func (a *Agent) serveTraces(ctx context.Context) error {
	listener, err := listen(ctx, a.options.Paths.TracesSocket())
	if err != nil {
		return fmt.Errorf("failed to listen for sampled requests: %w", err)
	}
	go a.tracer.Serve(ctx, listener)
	return nil
}

// listen listens on a Unix socket, which an agent before may have left.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
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
