package dashboard

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/proxyconfig"
)

var gatewayName = types.NamespacedName{Namespace: "a", Name: "g"}

// seenWith is a snapshot of a proxy with counters.
func seenWith(after time.Duration, started time.Time, requests int64, ok float64, backends ...proxyconfig.Server) *snapshot {
	return &snapshot{at: began.Add(after), proxies: map[types.NamespacedName][]proxy{gatewayName: {
		{pod: types.NamespacedName{Namespace: "a", Name: "silent"}, failure: "no answer"},
		{
			pod: types.NamespacedName{Namespace: "a", Name: "p"}, answers: map[string]float64{"2xx": ok},
			config: &proxyconfig.Config{HAProxy: &proxyconfig.HAProxy{Started: started, Requests: requests, Servers: backends}},
		},
	}}}
}

func server(backend string, total int64) proxyconfig.Server {
	return proxyconfig.Server{Backend: backend, Total: total}
}

// TestRates follows a proxy over a reload, and servers that come and go.
func TestRates(t *testing.T) {
	m := meter{}
	m.add(seenWith(0, began, 1000, 900, server("x", 100), server("x", 50)))
	if len(m.gateways) != 0 || len(m.history[gatewayName]) != 0 {
		t.Errorf("there are rates after the first look: %v", m.gateways)
	}
	reloaded := began.Add(12 * time.Second)
	for i, test := range []struct {
		seen *snapshot
		want rates
	}{
		{seenWith(10*time.Second, began, 1100, 990, server("x", 150), server("x", 60), server("y", 20)), rates{10, map[string]float64{"2xx": 9}, map[string]float64{"x": 6, "y": 2}}},
		// A reload: what the new worker took is all that is known.
		{seenWith(20*time.Second, reloaded, 40, 30, server("y", 20)), rates{4, map[string]float64{"2xx": 3}, map[string]float64{"y": 2}}},
		// A server was removed: its backend begins anew.
		{seenWith(30*time.Second, reloaded, 40, 30, server("y", 5)), rates{0, map[string]float64{"2xx": 0}, map[string]float64{"y": 0.5}}},
	} {
		m.add(test.seen)
		got := m.gateways[gatewayName]
		if math.Abs(got.requests-test.want.requests) > 1e-9 || !maps.Equal(got.answers, test.want.answers) || !maps.Equal(got.backends, test.want.backends) {
			t.Errorf("%d: got %+v, want %+v", i, got, test.want)
		}
		if len(m.history[gatewayName]) != i+1 {
			t.Errorf("%d: the history has %d points", i, len(m.history[gatewayName]))
		}
	}
	m.add(seenWith(30*time.Second, reloaded, 40, 30))
	if _, ok := m.gateways[gatewayName]; ok {
		t.Error("there are rates of no time")
	}
	m.add(seenWith(shownHistory+15*time.Second, reloaded, 40, 30))
	if got := m.history[gatewayName]; len(got) != 3 {
		t.Errorf("the history has %d points, of which one is too old: %v", len(got), got)
	}
	m.add(&snapshot{at: began.Add(time.Hour)})
	if len(m.history)+len(m.last) > 0 {
		t.Error("what is gone is remembered")
	}
}

func TestReadAnswers(t *testing.T) {
	answers, err := readAnswers([]byte(`# TYPE haproxy_frontend_http_responses_total counter
haproxy_frontend_http_responses_total{proxy="metrics",code="2xx"} 1000
haproxy_frontend_http_responses_total{proxy="80",code="2xx"} 5
haproxy_frontend_http_responses_total{proxy="443",code="2xx"} 7
haproxy_frontend_http_responses_total{proxy="443",code="5xx"} 1
`))
	if err != nil || !maps.Equal(answers, map[string]float64{"2xx": 12, "5xx": 1}) {
		t.Errorf("got %v (%v)", answers, err)
	}
	if _, err := readAnswers([]byte("<html>")); err == nil {
		t.Error("what are no metrics is taken")
	}
}

func TestChart(t *testing.T) {
	at := func(ago time.Duration, requests float64) point { return point{began.Add(-ago), requests} }
	if got := newChart([]point{at(0, 5)}, began); got != (chart{}) {
		t.Errorf("a point is a line: %+v", got)
	}
	got := newChart([]point{at(shownHistory, 0), at(shownHistory/2, 2000), at(0, 1000)}, began)
	want := chart{"0.0,80.0 300.0,2.0 600.0,41.0", "0.0,80 0.0,80.0 300.0,2.0 600.0,41.0 600.0,80", "2,000"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := newChart([]point{at(time.Minute, 0), at(0, 0)}, began); strings.Contains(got.Line, "NaN") || got.Highest != "0.0" {
		t.Errorf("without requests it is %+v", got)
	}
}

func TestShares(t *testing.T) {
	if got := shares(map[string]float64{"2xx": 0}); got != nil {
		t.Errorf("without answers it is %v", got)
	}
	got := fmt.Sprint(shares(map[string]float64{"2xx": 2999, "5xx": 1, "4xx": 1000, "1xx": 0}))
	if want := "[{2xx 75.0% 0.0 449.9} {4xx 25.0% 449.9 150.0} {5xx <0.1% 599.9 0.1}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNumbers(t *testing.T) {
	for rate, want := range map[float64]string{0: "0.0", 0.26: "0.3", 99.9: "99.9", 100: "100", 1234.5: "1,234", 1234567: "1,234,567"} {
		if got := perSecondText(rate); got != want {
			t.Errorf("%v is %s, want %s", rate, got, want)
		}
	}
}

// TestManyRoutes: a table ends somewhere, and says so; routes with a problem come first.
func TestManyRoutes(t *testing.T) {
	seen := sample(0)
	gateway := &seen.gateways[1]
	for i := range 60 {
		seen.routes = append(seen.routes, route("HTTPRoute", "team", fmt.Sprintf("r%d", i), "team-blog/blog", "a", "b", "c", "d", "e"))
	}
	got := newGatewayView(gateway, seen, &meter{})
	if len(got.Routes) != maxRows || got.RouteCount != 63 || got.MoreRoutes != 13 || got.Routes[0].Name != "team-blog/search" {
		t.Errorf("%d routes of %d, the first is %s", len(got.Routes), got.RouteCount, got.Routes[0].Name)
	}
	if last := got.Routes[maxRows-1]; last.Hostnames != "a, b, c, d and 1 more" || last.Name != "team/r46" {
		t.Errorf("got %+v", last)
	}
}
