package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	// This registers rest_client_*.
	_ "k8s.io/component-base/metrics/prometheus/restclient"

	"gateway/internal/haproxy/runtime"
	"gateway/internal/logging"
	"gateway/internal/requestmetrics"
	"gateway/internal/routing"
	"gateway/internal/tracing"
)

var (
	loads = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "gateway_agent_loads_total",
		Help:           "Changes HAProxy took, by kind (reload or runtime) and by the reason for a reload or what changed at run time.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"kind", "reason"})
	loadFailures = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "gateway_agent_load_failures_total",
		Help:           "Configurations that HAProxy did not load.",
		StabilityLevel: metrics.ALPHA,
	})
	reloadsDelayed = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "gateway_agent_reloads_delayed_total",
		Help:           "How often, about once a second, a reload had to wait because many old workers still had connections.",
		StabilityLevel: metrics.ALPHA,
	})
	silentWatches = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "gateway_agent_silent_watches_total",
		Help:           "Watches that were started anew, because the API server sent nothing for three minutes.",
		StabilityLevel: metrics.ALPHA,
	})
	liveGeneration = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "gateway_agent_generation",
		Help:           "The generation of the Gateway that HAProxy answers by; 0 if that is not known.",
		StabilityLevel: metrics.ALPHA,
	})
	propagation = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "gateway_agent_propagation_seconds",
		Help:           "Time from seeing a change until HAProxy answers by it.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 14), // 1 ms to 8 s
		StabilityLevel: metrics.ALPHA,
	})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(loads, loadFailures, reloadsDelayed, silentWatches, liveGeneration, propagation)
	legacyregistry.CustomMustRegister(&decisions)
	legacyregistry.RawMustRegister(append(tracing.Metrics(), requests)...)
})

// requests are the histograms of requests.
var requests = requestmetrics.New()

// decisions are the decisions of filters about requests. The agent asks HAProxy for them whenever Prometheus asks the
// agent.
var decisions decisionsCollector

type decisionsCollector struct {
	metrics.BaseStableCollector
	source atomic.Pointer[decisionsSource]
}

// decisionsSource is the HAProxy of a Gateway in a namespace.
type decisionsSource struct {
	worker    *runtime.Worker
	namespace string
}

var filterRequests = metrics.NewDesc(
	"gateway_filter_requests_total",
	"Requests of rules with filters that may refuse them, by result: allowed, or denied or failed by a filter. HAProxy counts from 0 after a reload.",
	[]string{"route_namespace", "route", "rule", "filter", "result"}, nil, metrics.ALPHA, "",
)

// A request that a filter in shadow let through counts as allowed, too, or as denied by another filter. Requests that
// the shadow filter would have refused have a metric of their own, so that the other metric still adds up to all
// requests.
var filterShadowRequests = metrics.NewDesc(
	"gateway_filter_shadow_requests_total",
	"Requests that filters in shadow let through, by the result that they would have had: denied or failed. HAProxy counts from 0 after a reload.",
	[]string{"route_namespace", "route", "rule", "filter", "result"}, nil, metrics.ALPHA, "",
)

// DescribeWithStability describes what CollectWithStability may send.
func (c *decisionsCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- filterRequests
	ch <- filterShadowRequests
}

// CollectWithStability sends nothing while HAProxy does not answer.
func (c *decisionsCollector) CollectWithStability(ch chan<- metrics.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), decisionsTimeout)
	defer cancel()
	source := c.source.Load()
	if source == nil {
		return
	}
	rules, err := source.worker.Decisions(ctx)
	if err != nil {
		logging.Warningf("Not all metrics are there: %v", err)
		return
	}
	for _, rule := range rules {
		send := func(metric *metrics.Desc, result string, counts map[string]int64) {
			for filter, count := range counts {
				ch <- metrics.NewLazyConstMetric(metric, metrics.CounterValue, float64(count),
					routing.NamespaceOf(rule.Route, source.namespace), rule.Route, rule.Rule, filter, result)
			}
		}
		send(filterRequests, "allowed", map[string]int64{"": rule.Allowed})
		send(filterRequests, "denied", rule.Denied)
		send(filterRequests, "failed", rule.Failed)
		send(filterShadowRequests, "denied", rule.ShadowDenied)
		send(filterShadowRequests, "failed", rule.ShadowFailed)
	}
}

// decisionsTimeout is less than Prometheus waits.
const decisionsTimeout = 2 * time.Second

// delay measures how long changes take until HAProxy serves them.
type delay struct {
	// seen is when the oldest change that no pass has looked at was seen, in Unix nanoseconds; 0 if there is none.
	seen atomic.Int64
	// pending is when the oldest change was seen that HAProxy does not answer by yet; zero if there is none.
	pending time.Time
}

// start notes that a change was seen.
func (d *delay) start(now time.Time) { d.seen.CompareAndSwap(0, now.UnixNano()) }

// observe notes, at the beginning of a pass, whether something changed. It returns whether a change was pending before.
// Until HAProxy has answered for the first time, its start takes the time.
func (d *delay) observe(started bool) (waited bool) {
	seen, waited := d.seen.Swap(0), !d.pending.IsZero()
	if seen != 0 && !waited && started {
		d.pending = time.Unix(0, seen)
	}
	return waited
}

// end notes that HAProxy serves all changes, and whether it got any command since they were seen.
func (d *delay) end(changed bool) {
	if changed && !d.pending.IsZero() {
		propagation.Observe(time.Since(d.pending).Seconds())
	}
	d.pending = time.Time{}
}
