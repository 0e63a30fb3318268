package health

import (
	"runtime"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"gateway/internal/version"
)

func init() {
	buildInfo := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "gateway_build_info",
		Help:           "Always 1. The labels say which version of the project runs, and which of Go it was built with.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"version", "goversion"})
	legacyregistry.MustRegister(buildInfo)
	buildInfo.WithLabelValues(version.String(), runtime.Version()).Set(1)
}
