package agent

import (
	"sync"

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
