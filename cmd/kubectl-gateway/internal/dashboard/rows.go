package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/check"
	"gateway/cmd/kubectl-gateway/internal/proxyconfig"
	"gateway/cmd/kubectl-gateway/internal/routes"
	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// proxyRow is a proxy pod.
type proxyRow struct {
	proxyconfig.Row
	Pod      string
	Problems []string
	Level    check.Level
}

func newProxyRow(gateway *appv1.Gateway, p *proxy, meter *meter, now time.Time) proxyRow {
	row := proxyRow{Row: proxyconfig.NewRow(p.config, none, now), Pod: p.pod.Name, Level: check.OK}
	row.Requests = none
	if rate, ok := meter.proxies[p.pod]; ok {
		row.Requests = perSecondText(rate.requests)
	}
	if p.config != nil {
		if live := p.config.Live.Generation(); live > 0 && live != gateway.Generation {
			row.Generation, row.Level = fmt.Sprintf("%d of %d", live, gateway.Generation), check.Warning
		}
		if p.config.Problem != "" {
			row.Problems = append(row.Problems, p.config.Problem)
		}
	}
	if p.failure != "" {
		row.Problems = append(row.Problems, p.failure)
	}
	if len(row.Problems) > 0 {
		row.Level = check.Wrong
	}
	return row
}

// routeRow is a route.
type routeRow struct {
	Kind, Name, Hostnames string
	Programmed            metav1.ConditionStatus
	Problems              []string
	Level                 check.Level
}

// routeRows are the routes of a Gateway, of all kinds: those with a problem come first.
func routeRows(gateway *appv1.Gateway, all []routes.Route) []routeRow {
	var rows []routeRow
	name := gateway.Namespace + "/" + cmp.Or(proxypod.Parent(gateway), gateway.Name)
	for i := range all {
		route := &all[i]
		if !slices.Contains(route.Gateways, name) {
			continue
		}
		row := routeRow{
			Kind: route.Kind, Name: route.Namespace + "/" + route.Name, Hostnames: cmp.Or(model.Some(route.Hostnames, maxNames), "*"),
			Programmed: route.Programmed, Problems: route.Problems, Level: check.OK,
		}
		if route.Kind == "Gateway" { // no object, but a part of this one
			row.Kind, row.Name = "route in the Gateway", strings.TrimPrefix(route.Name, gateway.Name+"/")
		}
		switch {
		case len(route.Problems) > 0:
			row.Level = check.Wrong
		case route.Programmed != metav1.ConditionTrue:
			row.Level = check.Warning
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b routeRow) int { return severity[b.Level] - severity[a.Level] })
	return rows
}

// backendRow is a backend of HAProxy, over all proxies.
type backendRow struct {
	Name, Requests, Servers, Errors string
	Level                           check.Level
}

// backendRows are those with most requests first. Servers are counted in the proxy that has the fewest usable ones.
func backendRows(proxies []proxy, rate rates) []backendRow {
	type numbers struct{ usable, all, errors int64 }
	sums := map[string]numbers{}
	for i := range proxies {
		if proxies[i].config == nil || proxies[i].config.HAProxy == nil {
			continue
		}
		own := map[string]numbers{}
		for _, server := range proxies[i].config.HAProxy.Servers {
			n := own[server.Backend]
			n.all, n.errors = n.all+1, n.errors+server.Errors
			if server.IsUsable() {
				n.usable++
			}
			own[server.Backend] = n
		}
		for name, n := range own {
			sum, known := sums[name]
			if !known || n.usable < sum.usable {
				sum.usable, sum.all = n.usable, n.all
			}
			sum.errors += n.errors
			sums[name] = sum
		}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(rate.backends[b], rate.backends[a]), strings.Compare(a, b))
	})
	var rows []backendRow
	for _, name := range names[:min(len(names), maxRows)] {
		row := backendRow{Name: name, Requests: none, Servers: fmt.Sprintf("%d/%d", sums[name].usable, sums[name].all), Errors: fmt.Sprint(sums[name].errors), Level: check.OK}
		if requests, ok := rate.backends[name]; ok {
			row.Requests = perSecondText(requests)
		}
		if sums[name].usable == 0 {
			row.Level = check.Wrong
		}
		rows = append(rows, row)
	}
	return rows
}

// reloadRow is a reload of a proxy.
type reloadRow struct {
	Pod, Age, Reason, Failure string
	Generation                int64

	at time.Time
}

// reloadRows are the newest first.
func reloadRows(proxies []proxy, now time.Time) []reloadRow {
	var rows []reloadRow
	for i := range proxies {
		if proxies[i].config == nil {
			continue
		}
		for _, reload := range proxies[i].config.Reloads {
			rows = append(rows, reloadRow{
				proxies[i].pod.Name, ago(reload.Time, now), reload.Reason, reload.Failure, reload.Version.Generation(), reload.Time,
			})
		}
	}
	slices.SortStableFunc(rows, func(a, b reloadRow) int { return b.at.Compare(a.at) })
	return rows[:min(len(rows), maxRows)]
}
