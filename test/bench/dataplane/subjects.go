package main

import (
	"fmt"
	"net"

	appv1 "gateway/api/app/v1"
)

// subject is a proxy that is measured with requests of one kind.
type subject struct {
	name string
	// baseline is the name of the subject whose cost is 1.
	baseline string
	proxy    proxy
	protocol protocol
	requests []request
	// refuses reports whether it has to refuse an attack.
	refuses bool
	// hangs is how many requests get no answer meanwhile, and asks reports whether HAProxy is asked for these once each
	// turn.
	hangs int
	asks  bool
	// watches reports whether HAProxy hands over the access log's lines about a route. It sends them to watching.
	watches  bool
	watching net.Listener

	process *process
	// dir is the proxy's.
	dir   string
	load  *load
	turns []turn
}

// proxy is something that can be started. Subjects with the same one share it.
type proxy struct {
	name string
	// run starts it in a directory of its own. It takes HTTP on the first port, HTTPS and HTTP/2 on the second.
	run func(site *site, dir string, ports [2]int) (*process, error)
}

const (
	static = "static haproxy.cfg"
	ours   = "Gateway, 10 routes"
	robin  = "Gateway, 10 routes, round robin"

	staticKeeping = "static haproxy.cfg, requests kept for retries"
	staticMap     = "static haproxy.cfg, 10 routes in a map"

	conditions     = "Gateway, rules with a header or a regular expression"
	addressed      = "Gateway, rules for addresses"
	manyConditions = "Gateway, such rules of 1,000 hosts"
)

// subjects returns what is compared.
func subjects(edits []string) []*subject {
	few := requestsFor(10, 1)
	handwritten, nginx, caddy := written{file: "haproxy.cfg"}.proxy(), written{file: "nginx.conf"}.proxy(), written{file: "Caddyfile"}.proxy()
	keeping := written{file: "haproxy.cfg", defaults: "retry-on conn-failure empty-response"}.proxy()
	random := written{file: "haproxy.cfg", defaults: "balance random(2)"}.proxy()
	all := []*subject{
		{name: static, baseline: static, proxy: handwritten, protocol: plain, requests: few},
		// Gateways keep each request for a retry, should its endpoint close the connection; HAProxy by default does not.
		{name: staticKeeping, baseline: static, proxy: keeping, protocol: plain, requests: few},
		// Nor does it look which of two endpoints has less to do, but takes one after the other.
		{name: static + ", random(2)", baseline: static, proxy: random, protocol: plain, requests: few},
		// What more routes cost if nothing is done but to find the backend in HAProxy's map.
		{name: staticMap, baseline: static, proxy: mapped(10, 1), protocol: plain, requests: few},
		{name: "static haproxy.cfg, 10,000 routes in a map", baseline: staticMap, proxy: mapped(2000, 5), protocol: plain, requests: requestsFor(2000, 5)},
	}
	all = append(all, gateways("")...)
	for _, edit := range edits {
		for _, s := range gateways(edit) {
			s.baseline, s.name = s.name, s.name+", "+edit
			all = append(all, s)
		}
	}
	all = append(all,
		&subject{name: "nginx", baseline: static, proxy: nginx, protocol: plain, requests: few},
		// What it costs to name and count what filters decide.
		&subject{
			name: addressed + ", not counted", baseline: addressed + ", not counted", protocol: plain,
			proxy: gateway("addresses", appv1.GatewaySpec{Routes: routes(addressRoute, 10)}, `/^ +http-.*(txn\.guard|,6\)|track-sc6)/d`), requests: few,
		},
		&subject{
			name: addressed, baseline: addressed + ", not counted", protocol: plain,
			proxy: gateway("addresses", appv1.GatewaySpec{Routes: routes(addressRoute, 10)}, ""), requests: few,
		},
		&subject{name: "Caddy", baseline: static, proxy: caddy, protocol: plain, requests: few},
	)
	for _, p := range policies() {
		all = append(all, p.subjects()...)
	}
	for _, protocol := range []protocol{https, h2} {
		suffix := ", " + string(protocol)
		for _, s := range []struct {
			name  string
			proxy proxy
		}{{static, handwritten}, {staticKeeping, keeping}, {ours, gateways("")[0].proxy}, {robin, gateways("")[1].proxy}, {"nginx", nginx}, {"Caddy", caddy}} {
			all = append(all, &subject{name: s.name + suffix, baseline: static + suffix, proxy: s.proxy, protocol: protocol, requests: few})
		}
	}
	return all
}

// gateways returns the kinds of Gateways. A sed script, if there is one, goes over what is rendered for them.
func gateways(edit string) []*subject {
	return []*subject{
		{
			name: ours, baseline: static, protocol: plain,
			proxy: gateway("few", appv1.GatewaySpec{Routes: plainRoutes(10, 1, services)}, edit), requests: requestsFor(10, 1),
		},
		{
			name: robin, baseline: static, protocol: plain,
			proxy: gateway("few round robin", appv1.GatewaySpec{Routes: plainRoutes(10, 1, services), Backends: roundRobin(services)}, edit), requests: requestsFor(10, 1),
		},
		{
			name: "Gateway, 10,000 routes", baseline: ours, protocol: plain,
			proxy: gateway("many", appv1.GatewaySpec{Routes: plainRoutes(2000, 5, services)}, edit), requests: requestsFor(2000, 5),
		},
		{
			name: "Gateway, 10,000 routes, requests for 10 of them", baseline: ours, protocol: plain,
			proxy: gateway("many", appv1.GatewaySpec{Routes: plainRoutes(2000, 5, services)}, edit), requests: requestsFor(10, 1),
		},
		{
			name: conditions, baseline: ours, protocol: plain,
			proxy: gateway("conditions", appv1.GatewaySpec{Routes: routes(conditionsRoute, 10)}, edit), requests: conditionsRequests(10),
		},
		{
			name: manyConditions, baseline: conditions, protocol: plain,
			proxy: gateway("many-conditions", appv1.GatewaySpec{Routes: routes(conditionsRoute, 1000)}, edit), requests: conditionsRequests(1000),
		},
		{
			name: "Gateway, rules with filters", baseline: ours, protocol: plain,
			proxy: gateway("filters", appv1.GatewaySpec{Routes: routes(filtersRoute, 10)}, edit), requests: requestsFor(10, 1),
		},
		traced("no traces sampled", 0, edit), traced("traces, 1 %", 10_000, edit), traced("traces, 100 %", 1_000_000, edit),
	}
}

// traced returns a Gateway that samples as many of a million requests. What the agent does with them does not count.
func traced(name string, perMillion int32, edit string) *subject {
	spec := appv1.GatewaySpec{
		Routes: plainRoutes(10, 1, services), Tracing: &appv1.Tracing{Endpoint: "127.0.0.1:4318", SamplingRatePerMillion: &perMillion},
	}
	return &subject{name: "Gateway, " + name, baseline: ours, protocol: plain, proxy: gateway(name, spec, edit), requests: requestsFor(10, 1)}
}

// start starts the proxy, unless it runs.
func (s *subject) start(site *site, dir string, o options) error {
	running, ok := site.running[s.proxy.name]
	if !ok {
		ports, err := site.twoPorts()
		if err != nil {
			return err
		}
		process, err := s.proxy.run(site, dir, ports)
		if err != nil {
			return err
		}
		running.process, running.ports, running.dir = process, ports, dir
		site.running[s.proxy.name] = running
	}
	s.process, s.dir = running.process, running.dir
	port := running.ports[0]
	if s.protocol != plain {
		port = running.ports[1]
	}
	s.load = newLoad(s.protocol, port, o, s.requests)
	if s.refuses {
		return s.checkAttack()
	}
	return nil
}

// requestsFor returns a request for each rule of each host.
func requestsFor(hosts, rules int) []request {
	var all []request
	for rule := range rules {
		for host := range hosts {
			all = append(all, request{host: hostname(host), path: fmt.Sprintf("%s/items/42?page=3", prefix(rule))})
		}
	}
	return spread(all)
}

// conditionsRequests returns requests that meet the first, the second and the last rule of conditionsRoute.
func conditionsRequests(hosts int) []request {
	var all []request
	for i := range hosts {
		host := hostname(i)
		all = append(all,
			request{host: host, path: "/app/items/42", headers: []string{"X-Version: two-" + number(i)}},
			request{host: host, path: "/app/items-" + number(i) + "/42/edit"},
			request{host: host, path: "/app/items/42"},
		)
	}
	return spread(all)
}

// spread changes the order of requests, so that none is like the last one. The Services get them in the same order,
// however many hosts there are.
func spread(requests []request) []request {
	const step = 7919 // A prime, so none is left out.
	all := make([]request, len(requests))
	for i := range all {
		all[i] = requests[i*step%len(requests)]
	}
	return all
}

func hostname(i int) string { return "host-" + number(i) + ".example.com" }

// number returns one as a text of four bytes, so that the requests for all hosts are of the same length.
func number(i int) string { return fmt.Sprintf("%04d", i) }

// prefix returns the path prefix of a host's rule: "/app", "/apq", ...
func prefix(rule int) string { return fmt.Sprintf("/ap%c", 'p'+rule) }
