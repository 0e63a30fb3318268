package agent

import (
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	appv1 "gateway/api/app/v1"
)

// TestTraces: the spans of each sampled request reach the collector, also after a reload, and after the collector has
// moved, which takes no reload.
func TestTraces(t *testing.T) {
	r, _ := serving(t)
	first, second := startCollector(t), startCollector(t)
	traced := func(spec appv1.GatewaySpec, to *traceCollector) {
		t.Helper()
		spec.Tracing = &appv1.Tracing{Endpoint: strings.TrimPrefix(to.URL, "http://"), SamplingRatePerMillion: new(int32(1_000_000))}
		r.expectReport(r.edit(spec), "")
		r.ask(10, to)
	}
	traced(r.spec("api"), first)
	reloads := metric(t, "gateway_agent_loads_total", `kind="reload"`)
	traced(r.spec("api"), second)
	if got := metric(t, "gateway_agent_loads_total", `kind="reload"`); got != reloads {
		t.Errorf("another collector takes %g reloads", got-reloads)
	}
	traced(r.reloading("api", "other"), second)
	r.eventually("all spans are counted", func() error {
		if got := metric(t, "gateway_trace_spans_exported_total"); got < 60 {
			return fmt.Errorf("%g of 60 are", got)
		}
		return nil
	})
}

// ask sends requests of a trace, and waits for their spans.
func (r *rig) ask(count int, to *traceCollector) {
	r.t.Helper()
	trace := fmt.Sprintf("%032x", rand.Uint64())
	// A worker before a reload answers on connections that it has, as it was told then.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range count {
		request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", r.port), http.NoBody)
		r.must(err)
		request.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-00")
		response, err := client.Do(request)
		r.must(err)
		_ = response.Body.Close()
	}
	for kinds := map[tracepb.Span_SpanKind]int{}; kinds[tracepb.Span_SPAN_KIND_SERVER] < count || kinds[tracepb.Span_SPAN_KIND_CLIENT] < count; {
		select {
		case span := <-to.spans:
			if hex.EncodeToString(span.GetTraceId()) == trace {
				kinds[span.GetKind()]++
			}
		case <-time.After(timeout):
			r.t.Fatalf("the collector has only %v of %d", kinds, count)
		}
	}
}

// traceCollector decodes what it gets.
type traceCollector struct {
	*httptest.Server
	spans chan *tracepb.Span
}

func startCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{spans: make(chan *tracepb.Span, 1000)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var traces tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &traces) != nil {
			t.Errorf("the collector gets %q", body)
		}
		for _, resource := range traces.GetResourceSpans() {
			if !strings.Contains(fmt.Sprint(resource.GetResource()), podName) {
				t.Errorf("spans are of %v", resource.GetResource())
			}
			for _, span := range resource.GetScopeSpans()[0].GetSpans() {
				c.spans <- span
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}
