package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/check"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

const (
	// maxRows is how many rows a table has, maxNames how many names a cell, and maxOpen up to how many Gateways are shown
	// in full.
	maxRows, maxNames, maxOpen = 50, 4, 3
	none                       = "–"
)

// view is what the templates show.
type view struct {
	Title, Time, Failure string
	Tiles                []tile
	Gateways             []gatewayView
}

// tile is a number for all Gateways.
type tile struct {
	Label, Value, Note string
	Level              check.Level
}

// gatewayView is a Gateway.
type gatewayView struct {
	Namespace, Name string
	Level           check.Level
	State           string
	Open            bool
	Addresses       string
	Listeners       []string
	Findings        []check.Finding
	Rate            string
	Connections     int64
	Chart           chart
	Shares          []share
	Proxies         []proxyRow
	Routes          []routeRow
	// Unread are the namespaces whose routes cannot be read, and why.
	Unread []string
	// RouteCount counts those that are not shown, too.
	RouteCount, MoreRoutes int
	Backends               []backendRow
	Reloads                []reloadRow
}

// severity sorts Gateways: the worst come first.
var severity = map[check.Level]int{check.OK: 0, check.Warning: 1, check.Wrong: 2}

// newView makes what is shown of a snapshot.
func newView(title string, seen *snapshot, meter *meter, failure string) *view {
	v := &view{Title: title, Time: seen.at.Format(time.TimeOnly), Failure: failure}
	for i := range seen.gateways {
		v.Gateways = append(v.Gateways, newGatewayView(&seen.gateways[i], seen, meter))
	}
	for i := range v.Gateways {
		v.Gateways[i].Open = len(v.Gateways) <= maxOpen || v.Gateways[i].Level != check.OK
	}
	v.Tiles = tiles(seen, meter, v.Gateways)
	slices.SortStableFunc(v.Gateways, func(a, b gatewayView) int { return severity[b.Level] - severity[a.Level] })
	return v
}

func tiles(seen *snapshot, meter *meter, gateways []gatewayView) []tile {
	live, ready, wanted, reloads := 0, int32(0), int32(0), 0
	var connections int64
	var sum rates
	for i := range seen.gateways {
		gateway := &seen.gateways[i]
		if cli.IsProgrammed(gateway) {
			live++
		}
		ready, wanted = ready+gateway.Status.ReadyReplicas, wanted+cli.WantedReplicas(gateway)
		sum.add(meter.gateways[nameOf(gateway)])
		connections += gateways[i].Connections
		for _, reload := range gateways[i].Reloads {
			if seen.at.Sub(reload.at) <= time.Hour {
				reloads++
			}
		}
	}
	answered := 0.0
	for _, value := range sum.answers {
		answered += value
	}
	failed := tile{Label: "Server errors", Value: none, Note: "5xx of all answers", Level: check.OK}
	if answered > 0 {
		part := sum.answers["5xx"] / answered
		failed.Value = percent(part)
		if part > 0.05 { // as the alert GatewayErrorRate
			failed.Level = check.Wrong
		}
	}
	requests := none
	if len(meter.gateways) > 0 {
		requests = perSecondText(sum.requests)
	}
	return []tile{
		{"Gateways", fmt.Sprintf("%d/%d", live, len(seen.gateways)), "live in every proxy", level(live == len(seen.gateways))},
		{"Proxies", fmt.Sprintf("%d/%d", ready, wanted), "ready", level(ready >= wanted)},
		{"Requests", requests, "per second", check.OK},
		failed,
		{"Connections", fmt.Sprint(connections), "open, of clients", check.OK},
		{"Reloads", fmt.Sprint(reloads), "in the last hour", check.OK},
	}
}

func level(good bool) check.Level {
	if good {
		return check.OK
	}
	return check.Warning
}

func newGatewayView(gateway *appv1.Gateway, seen *snapshot, meter *meter) gatewayView {
	name := nameOf(gateway)
	g := gatewayView{Namespace: gateway.Namespace, Name: gateway.Name, Level: check.OK, Rate: none, Addresses: addresses(gateway)}
	for _, finding := range check.Examine(gateway) {
		if finding.Level == check.OK {
			g.State = finding.Says
			continue
		}
		if severity[finding.Level] > severity[g.Level] {
			g.Level = finding.Level
		}
		g.Findings = append(g.Findings, finding)
	}
	if g.State == "" {
		g.State = fmt.Sprintf("generation %d", gateway.Generation)
	}
	for _, listener := range gateway.Spec.Listeners {
		text := fmt.Sprintf("%s %s:%d", listener.Name, listener.Protocol, listener.Port)
		if listener.Hostname != "" {
			text += " " + string(listener.Hostname)
		}
		g.Listeners = append(g.Listeners, text)
	}
	if rate, ok := meter.gateways[name]; ok {
		g.Rate, g.Shares = perSecondText(rate.requests), shares(rate.answers)
	}
	g.Chart = newChart(meter.history[name], seen.at)
	proxies := seen.proxies[name]
	slices.SortFunc(proxies, func(a, b proxy) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	for i := range proxies {
		g.Proxies = append(g.Proxies, newProxyRow(gateway, &proxies[i], meter, seen.at))
		if config := proxies[i].config; config != nil && config.HAProxy != nil {
			g.Connections += config.HAProxy.Sessions
		}
	}
	g.addUnreachable(proxies)
	g.Routes, g.Unread = routeRows(gateway, seen.routes), seen.unread
	g.RouteCount = len(g.Routes)
	g.Routes = g.Routes[:min(g.RouteCount, maxRows)]
	g.MoreRoutes = g.RouteCount - len(g.Routes)
	g.Backends = backendRows(proxies, meter.gateways[name])
	g.Reloads = reloadRows(proxies, seen.at)
	return g
}

// addUnreachable shows that proxies could not be asked: it is unknown then whether all is well.
func (g *gatewayView) addUnreachable(proxies []proxy) {
	var failures []string
	for i := range proxies {
		if proxies[i].failure != "" {
			failures = append(failures, proxies[i].failure)
		}
	}
	if len(failures) == 0 {
		return
	}
	finding := check.Finding{
		Level: check.Warning, About: fmt.Sprintf("Gateway %s/%s", g.Namespace, g.Name), Says: fmt.Sprintf("%d of %d proxies do not answer", len(failures), len(proxies)),
		Details: slices.Compact(failures),
	}
	if len(failures) == len(proxies) {
		finding.Level = check.Wrong
	}
	if severity[finding.Level] > severity[g.Level] {
		g.Level = finding.Level
	}
	g.State = finding.Says
	g.Findings = append(g.Findings, finding)
}

func addresses(gateway *appv1.Gateway) string {
	var all []string
	for _, address := range gateway.Status.Addresses {
		all = append(all, address.Value)
	}
	return cmp.Or(strings.Join(all, ", "), "no address")
}

// perSecondText is a rate for people.
func perSecondText(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.1f", rate)
	}
	text := fmt.Sprintf("%.0f", rate)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func percent(part float64) string {
	if part > 0 && part < 0.001 {
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*part)
}

func ago(at, now time.Time) string { return duration.HumanDuration(now.Sub(at)) }
