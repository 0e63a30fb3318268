package requestmetrics

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"gateway/internal/must"
	"gateway/internal/ring"
)

// framed returns lines as HAProxy sends them.
func framed(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "%d %s", len(line), line)
	}
	return b.String()
}

// gather returns the metrics by name.
func gather(t *testing.T, c *Collector) map[string][]*dto.Metric {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families := must.Get(registry.Gather())(t)
	found := map[string][]*dto.Metric{}
	for _, family := range families {
		found[family.GetName()] = family.GetMetric()
	}
	return found
}

func TestLines(t *testing.T) {
	c := New()
	must.Do(t, ring.Read(strings.NewReader(framed(
		"443 1 200 12 10 300 5000 - - shop/web 0", "443 2", "443 3 200 2000 +10 300 5000 - - shop/web 0", "443 4 404 1 -1 80 120 - - - -", "443 5 broken", "80 1 503 5 -1 1 2 - - shop/web 0",
	)), c.connected()))
	metrics, got := gather(t, c), map[string]string{}
	for _, name := range []string{"gateway_request_duration_seconds", "gateway_backend_response_seconds", "gateway_request_size_bytes", "gateway_response_size_bytes"} {
		for _, m := range metrics[name] {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			key := name + " " + strings.Join(labels, " ")
			got[key] = fmt.Sprintf("%d %g", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
			if len(m.GetHistogram().GetBucket()) == 0 || m.GetHistogram().Schema == nil {
				t.Errorf("%s has not both classic and native buckets", key)
			}
		}
	}
	for key, want := range map[string]string{
		"gateway_request_duration_seconds code=2xx route=shop/web route_namespace=shop rule=0": "2 2.012",
		"gateway_backend_response_seconds code=2xx route=shop/web route_namespace=shop rule=0": "2 0.02",
		"gateway_request_size_bytes code=2xx route=shop/web route_namespace=shop rule=0":       "2 600",
		"gateway_response_size_bytes code=2xx route=shop/web route_namespace=shop rule=0":      "2 10000",
		"gateway_request_duration_seconds code=4xx route= route_namespace= rule=":              "1 0.001",
		"gateway_backend_response_seconds code=4xx route= route_namespace= rule=":              "0 0",
		"gateway_request_duration_seconds code=5xx route=shop/web route_namespace=shop rule=0": "1 0.005",
	} {
		if got[key] != want {
			t.Errorf("%s: got %q, want %q", key, got[key], want)
		}
	}
}

// TestLostLines: what HAProxy could not hand over is counted, and turns of its threads are not.
func TestLostLines(t *testing.T) {
	c := New()
	must.Do(t, ring.Read(strings.NewReader(framed("443 10", "443 12", "443 11", "80 5", "443 1012", "443 1013")), c.connected()))
	if got := gather(t, c)["gateway_request_metrics_lost_total"][0].GetCounter().GetValue(); got != 999 {
		t.Errorf("%g lines are lost, want 999", got)
	}
}

// TestManyRoutes: their number is bounded, and those without requests make room.
func TestManyRoutes(t *testing.T) {
	const limit = 20
	c := New()
	c.limit = limit
	ask := func(from, to int) {
		var lines []string
		for i := from; i < to; i++ {
			lines = append(lines, fmt.Sprintf("443 %d 200 1 1 1 1 - - shop/r%d -", i, i))
		}
		must.Do(t, ring.Read(strings.NewReader(framed(lines...)), c.connected()))
	}
	ask(0, limit+2)
	if n := len(gather(t, c)["gateway_request_duration_seconds"]); n != limit+1 {
		t.Errorf("%d routes, want %d and one for all others", n, limit)
	}
	for range idleCollections {
		gather(t, c)
	}
	ask(limit+2, limit+3)
	if n := len(gather(t, c)["gateway_request_duration_seconds"]); n != 1 {
		t.Errorf("%d routes are left, want the one that has requests", n)
	}
}

// TestNamespaces: a namespace with many routes leaves the others their share, and each has all its requests.
func TestNamespaces(t *testing.T) {
	const limit = 20
	c := New()
	c.limit, c.maxShared = limit, 2
	c.SetNamespace("infra")
	var lines []string
	add := func(route string) {
		lines = append(lines, fmt.Sprintf("443 %d 200 1 1 1 1 - - %s -", len(lines), route))
	}
	for i := range 2 * limit {
		add(fmt.Sprintf("greedy/r%d", i))
	}
	for i := range 3 {
		add(fmt.Sprintf("GRPCRoute/small/r%d", i))
	}
	for i := range 2 * limit {
		add(fmt.Sprintf("greedy/r%d", i))
	}
	for _, route := range []string{"web", "-"} {
		add(route)
	}
	must.Do(t, ring.Read(strings.NewReader(framed(lines...)), c.connected()))
	routes, requests := map[string]int{}, map[string]uint64{}
	for _, m := range gather(t, c)["gateway_request_duration_seconds"] {
		labels := map[string]string{}
		for _, label := range m.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		namespace := labels["route_namespace"]
		if labels["route"] != "" {
			routes[namespace]++
		}
		requests[namespace] += m.GetHistogram().GetSampleCount()
	}
	if want := map[string]int{"greedy": limit - 5, "small": 3, "infra": 1}; !maps.Equal(routes, want) {
		t.Errorf("namespaces have %v routes of their own, want %v", routes, want)
	}
	// Series that made room for others took their requests with them.
	if requests["greedy"] < 4*limit-10 || requests["small"] != 3 || requests["infra"] != 1 || requests[""] != 1 {
		t.Errorf("namespaces have %v requests", requests)
	}
}

func BenchmarkLine(b *testing.B) {
	c, numbers := New(), map[string]*ring.Counter{}
	line := []byte("443 1 200 12 10 300 5000 - - shop/web 0")
	b.ReportAllocs()
	for b.Loop() {
		c.take(line, numbers)
	}
}

// TestExemplars: histograms of times name the trace of a request that was sampled, and no other.
func TestExemplars(t *testing.T) {
	c := New()
	const lines = "443 1 200 12 10 300 5000 01 0af7651916cd43dd8448eb211c80319c shop/web 0"
	must.Do(t, ring.Read(strings.NewReader(framed(lines, "443 2 200 60000 -1 300 5000 - 1af7651916cd43dd8448eb211c80319c shop/web 0")), c.connected()))
	metrics := gather(t, c)
	for name, want := range map[string]string{
		"gateway_request_duration_seconds": "0af7651916cd43dd8448eb211c80319c at 0.012",
		"gateway_backend_response_seconds": "0af7651916cd43dd8448eb211c80319c at 0.01",
		"gateway_request_size_bytes":       "",
	} {
		got := ""
		for _, bucket := range metrics[name][0].GetHistogram().GetBucket() {
			if exemplar := bucket.GetExemplar(); exemplar != nil {
				got += fmt.Sprintf("%s at %g", exemplar.GetLabel()[0].GetValue(), exemplar.GetValue())
			}
		}
		if got != want {
			t.Errorf("%s: exemplars are %q, want %q", name, got, want)
		}
	}
}
