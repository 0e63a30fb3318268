package tracing

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"gateway/internal/logging"
	"gateway/internal/ring"
	"gateway/internal/routing"
	"gateway/internal/version"
)

const (
	// maxQueued is how many requests wait for the collector at most, and maxBatch how many are sent together.
	maxQueued, maxBatch = 4096, 512
	// batchDelay is how long the first request of a batch waits for more.
	batchDelay = time.Second
	// lastTimeout is how long what is left may take when the process ends.
	lastTimeout = 2 * time.Second
)

// Source is whose spans they are.
type Source struct{ Namespace, Gateway, Pod, PodUID string }

// Exporter sends the spans of a pod's requests to a collector.
type Exporter struct {
	resource *resourcepb.Resource
	queue    chan *line
	client   client
	// table is the newest one.
	table atomic.Pointer[routing.Table]
	// failing reports whether the collector did not take the last batch.
	failing bool
}

// New returns an Exporter that has no collector yet.
func New(source Source) *Exporter {
	e := &Exporter{queue: make(chan *line, maxQueued), client: newClient(), resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		text("service.name", source.Gateway), text("service.namespace", source.Namespace), text("service.instance.id", source.PodUID),
		text("k8s.namespace.name", source.Namespace), text("k8s.pod.name", source.Pod), text("k8s.pod.uid", source.PodUID),
	}}}
	e.Update(routing.Table{})
	return e
}

// Update takes a table in, which says where the collector is, and what paths rules have.
func (e *Exporter) Update(table routing.Table) { e.table.Store(&table) }

// Serve takes in the lines of HAProxy's workers until ctx ends.
func (e *Exporter) Serve(ctx context.Context, listener net.Listener) {
	ring.Serve(ctx, listener, "spans", e.connected)
}

// connected returns what takes in the lines of a worker.
func (e *Exporter) connected() func(text []byte) {
	var numbers ring.Counter
	return func(text []byte) {
		if bytes.HasPrefix(text, []byte(`{"number":-`)) { // it was not sampled: it is of a route that is watched
			return
		}
		l, err := parse(text)
		if err != nil {
			logging.Errorf("A request has no span: %v", err)
			lose(lostInRing, 1)
			return
		}
		lose(lostInRing, int(numbers.Lost(l.Number)))
		select {
		case e.queue <- l:
		default:
			lose(lostInQueue, len(l.spans("")))
		}
	}
}

// Run sends spans until ctx ends, and then what is left.
func (e *Exporter) Run(ctx context.Context) {
	sending, cancel := outlasting(ctx)
	defer cancel()
	for ctx.Err() == nil {
		e.send(sending, e.next(ctx))
	}
	e.send(sending, e.queued())
}

// outlasting returns a context that ends lastTimeout after another one.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastTimeout, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// next returns the next batch, as far as it has come when its first request has waited, or ctx ends.
func (e *Exporter) next(ctx context.Context) []*line {
	var batch []*line
	select {
	case first := <-e.queue:
		batch = append(batch, first)
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	for len(batch) < maxBatch {
		select {
		case l := <-e.queue:
			batch = append(batch, l)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// queued returns what waits.
func (e *Exporter) queued() []*line {
	var all []*line
	for {
		select {
		case l := <-e.queue:
			all = append(all, l)
		default:
			return all
		}
	}
}

// send sends a batch. It counts the spans that the collector does not have afterwards.
func (e *Exporter) send(ctx context.Context, batch []*line) {
	table := e.table.Load()
	if table.Tracing == nil || len(batch) == 0 {
		return // tracing was switched off
	}
	scope := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: "gateway", Version: version.String()}}
	for _, l := range batch {
		scope.Spans = append(scope.Spans, l.spans(l.routePath(table))...)
	}
	// An ExportTraceServiceRequest has the same form, and its package comes with all of gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{Resource: e.resource, ScopeSpans: []*tracepb.ScopeSpans{scope}}}})
	rejected := 0
	if err == nil {
		rejected, err = e.client.post(ctx, "http://"+table.Tracing.Endpoint+"/v1/traces", body)
	}
	if err != nil {
		rejected = len(scope.Spans)
	}
	if err != nil && !e.failing {
		logging.Warningf("Spans are lost until the collector takes them again: %v", err)
	}
	e.failing = err != nil
	lose(lostAtCollector, rejected)
	exported.Add(float64(len(scope.Spans) - rejected))
}
