package dashboard

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/proxyconfig"
)

// shownHistory is how far back the request rates go.
const shownHistory = 5 * time.Minute

// counts are counters of a proxy at a time. They begin anew when HAProxy is reloaded.
type counts struct {
	at, started time.Time
	requests    float64
	answers     map[string]float64
	// backends are the requests that servers took, by section.
	backends map[string]float64
}

func countsOf(at time.Time, p *proxy) (counts, bool) {
	if p.config == nil || p.config.HAProxy == nil {
		return counts{}, false
	}
	haproxy := p.config.HAProxy
	return counts{at, haproxy.Started, float64(haproxy.Requests), p.answers, backendTotals(haproxy.Servers)}, true
}

func backendTotals(servers []proxyconfig.Server) map[string]float64 {
	totals := map[string]float64{}
	for _, server := range servers {
		totals[server.Backend] += float64(server.Total)
	}
	return totals
}

// rates are what happens in a second.
type rates struct {
	requests float64
	answers  map[string]float64
	backends map[string]float64
}

// since returns the rates between two times, and whether there was time between them.
func (c counts) since(before counts) (rates, bool) {
	seconds := c.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return rates{}, false
	}
	if !c.started.Equal(before.started) {
		before = counts{} // another worker
	}
	return rates{increase(before.requests, c.requests) / seconds, perSecond(before.answers, c.answers, seconds), perSecond(before.backends, c.backends, seconds)}, true
}

func perSecond(before, now map[string]float64, seconds float64) map[string]float64 {
	all := map[string]float64{}
	for name, value := range now {
		all[name] = increase(before[name], value) / seconds
	}
	return all
}

// increase returns the increase of a counter. The counter may have begun anew, as when a server is removed and comes
// back.
func increase(before, now float64) float64 {
	if now < before {
		return now
	}
	return now - before
}

func (r *rates) add(other rates) {
	if r.answers == nil {
		r.answers, r.backends = map[string]float64{}, map[string]float64{}
	}
	r.requests += other.requests
	for name, value := range other.answers {
		r.answers[name] += value
	}
	for name, value := range other.backends {
		r.backends[name] += value
	}
}

// point is the request rate of a Gateway at a time.
type point struct {
	at       time.Time
	requests float64
}

// meter makes rates of snapshots.
type meter struct {
	last map[types.NamespacedName]counts
	// proxies and gateways are the rates of the last snapshot, of those that were there in the one before.
	proxies, gateways map[types.NamespacedName]rates
	history           map[types.NamespacedName][]point
}

// add takes the next snapshot.
func (m *meter) add(seen *snapshot) {
	last, history := m.last, m.history
	*m = meter{
		last: map[types.NamespacedName]counts{}, history: map[types.NamespacedName][]point{},
		proxies: map[types.NamespacedName]rates{}, gateways: map[types.NamespacedName]rates{},
	}
	for gateway, proxies := range seen.proxies {
		var sum rates
		measured := false
		for i := range proxies {
			p := &proxies[i]
			now, ok := countsOf(seen.at, p)
			if !ok {
				continue
			}
			m.last[p.pod] = now
			before, known := last[p.pod]
			if !known {
				continue
			}
			if rate, ok := now.since(before); ok {
				m.proxies[p.pod], measured = rate, true
				sum.add(rate)
			}
		}
		for _, old := range history[gateway] {
			if seen.at.Sub(old.at) <= shownHistory {
				m.history[gateway] = append(m.history[gateway], old)
			}
		}
		if measured {
			m.gateways[gateway] = sum
			m.history[gateway] = append(m.history[gateway], point{seen.at, sum.requests})
		}
	}
}
