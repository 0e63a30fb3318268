package agent

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	// This registers rest_client_*.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
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
	legacyregistry.MustRegister(loads, loadFailures, reloadsDelayed, liveGeneration, propagation)
})

// delay measures how long changes take until HAProxy answers by them.
type delay struct {
	// seen is when the oldest change that no pass has looked at was seen, in Unix nanoseconds; 0 if there is none.
	seen atomic.Int64
	// pending is when the oldest change was seen that HAProxy does not answer by yet; zero if there is none.
	pending time.Time
}

// start notes that a change was seen.
func (d *delay) start(now time.Time) { d.seen.CompareAndSwap(0, now.UnixNano()) }

// observe takes in what was seen, at the beginning of a pass. It returns whether some change was pending before. Until
// HAProxy has answered for the first time, it is its start that takes time.
func (d *delay) observe(started bool) (waited bool) {
	seen, waited := d.seen.Swap(0), !d.pending.IsZero()
	if seen != 0 && !waited && started {
		d.pending = time.Unix(0, seen)
	}
	return waited
}

// end notes that HAProxy answers by all changes, and whether it was told any since they were seen.
func (d *delay) end(changed bool) {
	if changed && !d.pending.IsZero() {
		propagation.Observe(time.Since(d.pending).Seconds())
	}
	d.pending = time.Time{}
}
