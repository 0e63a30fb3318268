package tracing

import "github.com/prometheus/client_golang/prometheus"

// Reasons for lost spans.
const (
	lostInRing      = "agent"
	lostInQueue     = "queue"
	lostAtCollector = "collector"
)

var (
	exported = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_trace_spans_exported_total",
		Help: "Spans that the collector has taken.",
	})
	lost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_trace_spans_lost_total",
		Help: "Spans that no collector has, by reason: the agent was too slow for HAProxy, too many waited for the collector, or the collector did not take them.",
	}, []string{"reason"})
)

// Metrics are the metrics of all exporters of the process.
func Metrics() []prometheus.Collector { return []prometheus.Collector{exported, lost} }

func lose(reason string, spans int) { lost.WithLabelValues(reason).Add(float64(spans)) }
