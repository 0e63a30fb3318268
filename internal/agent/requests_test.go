package agent

import (
	"fmt"
	"net/http"
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestRequestMetrics: each request is in the histograms of its rule, also after a reload.
func TestRequestMetrics(t *testing.T) {
	r, _ := serving(t)
	spec := r.spec("api")
	spec.RequestMetrics = appv1.RequestMetricsByRule
	labels := []string{`code="2xx"`, `route="api"`, `rule="0"`}
	const count = "gateway_request_duration_seconds_count"
	before := metric(t, append([]string{count}, labels...)...)
	r.edit(spec)
	r.eventually("requests are measured", func() error {
		r.expectStatus("/", http.StatusOK)
		if metric(t, append([]string{count}, labels...)...) == before {
			return fmt.Errorf("none is measured")
		}
		return nil
	})
	spec = r.reloading("api", "other")
	spec.RequestMetrics = appv1.RequestMetricsByRule
	r.expectReport(r.edit(spec), "")
	before = metric(t, append([]string{count}, labels...)...)
	for range 10 {
		r.expectStatus("/", http.StatusOK)
	}
	r.eventually("all requests are measured", func() error {
		if got := metric(t, append([]string{count}, labels...)...); got < before+10 {
			return fmt.Errorf("%g of 10 requests are measured", got-before)
		}
		return nil
	})
	for _, name := range []string{"gateway_backend_response_seconds_count", "gateway_request_size_bytes_count", "gateway_response_size_bytes_count"} {
		if metric(t, append([]string{name}, labels...)...) == 0 {
			t.Errorf("%s has no requests", name)
		}
	}
}
