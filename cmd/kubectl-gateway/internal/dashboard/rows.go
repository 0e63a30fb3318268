package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/check"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/proxyconfig"
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
	Kind, Name, Hostnames, Rules, Backends string
	Problems                               []string
}

// routeRows are those of all kinds, and those with a problem first.
func routeRows(gateway *appv1.Gateway) []routeRow {
	var rows []routeRow
	spec := &gateway.Spec
	// They are no objects: kubectl get httproutes has none of them.
	add := func(kind, shown string, name appv1.Name, hostnames []appv1.Hostname, rules int, refs []appv1.BackendRef) {
		var hosts, backends []string
		for _, hostname := range hostnames {
			hosts = append(hosts, string(hostname))
		}
		for _, ref := range refs {
			backends = append(backends, fmt.Sprintf("%s:%d", ref.Name, ref.Port))
		}
		slices.Sort(backends)
		backends = slices.Compact(backends)
		rows = append(rows, routeRow{
			Kind: shown, Name: string(name), Hostnames: cmp.Or(cli.Some(hosts, maxNames), "*"), Rules: fmt.Sprint(rules),
			Backends: cmp.Or(cli.Some(backends, maxNames), none), Problems: cli.RouteProblems(gateway, kind, name),
		})
	}
	for _, route := range spec.Routes {
		var refs []appv1.BackendRef
		for i := range route.Rules {
			refs = append(refs, route.Rules[i].BackendRefs...)
		}
		add("HTTPRoute", "route", route.Name, route.Hostnames, len(route.Rules), refs)
	}
	for _, route := range spec.TLSRoutes {
		add("TLSRoute", "TLS route", route.Name, route.Hostnames, len(route.Rules), connectionRefs(route.Rules))
	}
	for _, route := range spec.TCPRoutes {
		add("TCPRoute", "TCP route", route.Name, nil, len(route.Rules), connectionRefs(route.Rules))
	}
	slices.SortStableFunc(rows, func(a, b routeRow) int { return min(len(b.Problems), 1) - min(len(a.Problems), 1) })
	return rows
}

func connectionRefs(rules []appv1.ConnectionRule) (refs []appv1.BackendRef) {
	for _, rule := range rules {
		for _, ref := range rule.BackendRefs {
			refs = append(refs, appv1.BackendRef{Name: ref.Name, Port: ref.Port})
		}
	}
	return refs
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
