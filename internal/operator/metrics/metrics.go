// Package metrics holds the operator's own metrics, and registers the standard ones with them.
package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	// These register the standard metrics: workqueue_*, rest_client_*, leader_election_*.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
)

var (
	syncDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "gateway_sync_duration_seconds",
		Help:           "Time to bring one Gateway's children and status up to date, in seconds.",
		Buckets:        metrics.ExponentialBuckets(0.0001, 2, 18), // 0.1 ms to 13 s
		StabilityLevel: metrics.ALPHA,
	})
	syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "gateway_syncs_total",
		Help:           "Syncs of Gateways, by result: success, or error, after which the sync is tried again.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
)

func init() {
	legacyregistry.MustRegister(syncDuration, syncs)
	for _, result := range []string{"success", "error"} { // there from the start: a rate needs a first value
		syncs.WithLabelValues(result)
	}
}

// ObserveSync counts a sync that took the given time, and failed or not.
func ObserveSync(took time.Duration, failed bool) {
	syncDuration.Observe(took.Seconds())
	result := "success"
	if failed {
		result = "error"
	}
	syncs.WithLabelValues(result).Inc()
}
