package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/check"
)

// proxyRow is a proxy pod.
type proxyRow struct {
	Pod, Generation, Requests, Connections, Servers, OldWorkers, Up, Reloaded string
	Problems                                                                  []string
	Level                                                                     check.Level

	connections int64
}

func newProxyRow(gateway *appv1.Gateway, p *proxy, meter *meter, now time.Time) proxyRow {
	row := proxyRow{
		Pod: p.pod.Name, Generation: none, Requests: none, Connections: none, Servers: none, OldWorkers: none, Up: none, Reloaded: none, Level: check.OK,
	}
	generation := int64(0)
	if p.report != nil {
		generation = p.report.ObservedGeneration
		for _, problem := range p.report.Problems {
			row.Problems = append(row.Problems, problem.Message)
		}
	}
	if p.failure != "" {
		row.Problems = append(row.Problems, p.failure)
	}
	if p.config != nil {
		generation = cmp.Or(p.config.Live.Generation(), generation)
		if problem := p.config.Problem; problem != "" && !slices.Contains(row.Problems, problem) {
			row.Problems = append(row.Problems, problem)
		}
		row.Reloaded = "never"
		if len(p.config.Reloads) > 0 {
			row.Reloaded = fmt.Sprintf("%s ago", ago(p.config.Reloads[0].Time, now))
		}
	}
	if generation > 0 {
		row.Generation = fmt.Sprint(generation)
		if generation != gateway.Generation {
			row.Generation, row.Level = fmt.Sprintf("%d of %d", generation, gateway.Generation), check.Warning
		}
	}
	if p.config != nil && p.config.HAProxy != nil {
		haproxy := p.config.HAProxy
		usable := 0
		for _, server := range haproxy.Servers {
			if server.IsUsable() {
				usable++
			}
		}
		row.connections = haproxy.Sessions
		row.Connections, row.Servers = fmt.Sprint(haproxy.Sessions), fmt.Sprintf("%d/%d", usable, len(haproxy.Servers))
		row.OldWorkers, row.Up = fmt.Sprint(len(haproxy.OldWorkers)), ago(haproxy.Started, now)
	}
	if rate, ok := meter.proxies[key(gateway, p.pod.Name)]; ok {
		row.Requests = perSecondText(rate.requests)
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
	add := func(kind string, name appv1.Name, hostnames []appv1.Hostname, rules int, backends []string) {
		hosts := make([]string, len(hostnames))
		for i := range hostnames {
			hosts[i] = string(hostnames[i])
		}
		rows = append(rows, routeRow{
			Kind: kind, Name: string(name), Hostnames: cmp.Or(some(hosts), "*"), Rules: fmt.Sprint(rules),
			Backends: cmp.Or(some(backends), none), Problems: problemsOf(gateway, kind, name),
		})
	}
	for i := range spec.Routes {
		var backends []string
		for _, rule := range spec.Routes[i].Rules {
			for _, ref := range rule.BackendRefs {
				backends = append(backends, fmt.Sprintf("%s:%d", ref.Name, ref.Port))
			}
		}
		add("HTTPRoute", spec.Routes[i].Name, spec.Routes[i].Hostnames, len(spec.Routes[i].Rules), backends)
	}
	for i := range spec.TLSRoutes {
		route := &spec.TLSRoutes[i]
		add("TLSRoute", route.Name, route.Hostnames, len(route.Rules), connectionBackends(route.Rules))
	}
	for i := range spec.TCPRoutes {
		route := &spec.TCPRoutes[i]
		add("TCPRoute", route.Name, nil, len(route.Rules), connectionBackends(route.Rules))
	}
	slices.SortStableFunc(rows, func(a, b routeRow) int { return min(len(b.Problems), 1) - min(len(a.Problems), 1) })
	return rows
}

func connectionBackends(rules []appv1.ConnectionRule) []string {
	var backends []string
	for _, rule := range rules {
		for _, ref := range rule.BackendRefs {
			backends = append(backends, fmt.Sprintf("%s:%d", ref.Name, ref.Port))
		}
	}
	return backends
}

// some are the first of the names, each once.
func some(names []string) string {
	const shown = 4
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

func problemsOf(gateway *appv1.Gateway, kind string, name appv1.Name) []string {
	var problems []string
	for _, route := range gateway.Status.Routes {
		if route.Kind != kind || route.Name != name {
			continue
		}
		for _, condition := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs} {
			if found := meta.FindStatusCondition(route.Conditions, condition); found != nil && found.Status != metav1.ConditionTrue {
				problems = append(problems, found.Message)
			}
		}
	}
	return problems
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
