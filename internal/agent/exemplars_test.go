package agent

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/health"
)

// TestExemplars: histograms in the format of OpenMetrics name the traces of sampled requests, and of no others.
func TestExemplars(t *testing.T) {
	r, _ := serving(t)
	spec, collector := r.spec("api"), startCollector(t)
	spec.RequestMetrics, spec.TrustedProxies = appv1.RequestMetricsByRule, []appv1.CIDR{"127.0.0.0/8"}
	spec.Tracing = &appv1.Tracing{Endpoint: strings.TrimPrefix(collector.URL, "http://"), SamplingRatePerMillion: new(int32(0))}
	r.expectReport(r.edit(spec), "")
	sampled, other := fmt.Sprintf("%032x", rand.Uint64()), fmt.Sprintf("%032x", rand.Uint64())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(parent string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", r.port), http.NoBody)
		r.must(err)
		request.Header.Set("Traceparent", parent)
		response, err := client.Do(request)
		r.must(err)
		_ = response.Body.Close()
	}
	ask("00-" + other + "-00f067aa0ba902b7-00")
	ask("00-" + sampled + "-00f067aa0ba902b7-01")
	metrics := func(accept string) string {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		request.Header.Set("Accept", accept)
		recorder := httptest.NewRecorder()
		health.Handler(health.Options{}).ServeHTTP(recorder, request)
		return recorder.Body.String()
	}
	r.await("the trace is an exemplar", func() bool {
		return strings.Contains(metrics("application/openmetrics-text"), `# {trace_id="`+sampled+`"}`)
	})
	if strings.Contains(metrics("application/openmetrics-text"), other) {
		t.Error("a request that was not sampled is an exemplar")
	}
	if strings.Contains(metrics("text/plain"), sampled) {
		t.Error("the text format has exemplars")
	}
}
