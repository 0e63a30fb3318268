package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gateway/internal/routing"
)

// head is what comes before the sections of Service ports in a skeleton.
type head struct {
	text string
	// limits are those of the sections that are there.
	limits []string
	// hosts, by listener, and rest are what it was made of.
	hosts [][]*routing.Host
	rest  Input
}

// next returns the head for an input: this one if all that it depends on is as it was, which it is after most changes.
func (h head) next(in Input, limits []string) head {
	in.Generation, in.Backends, in.SameBackends, in.Table.Policies = 0, nil, false, nil
	next := head{rest: in, limits: limits}
	next.rest.Table.Listeners = slices.Clone(in.Table.Listeners)
	for i := range in.Table.Listeners {
		next.hosts = append(next.hosts, in.Table.Listeners[i].Hosts)
		next.rest.Table.Listeners[i].Hosts = nil
	}
	if h.text != "" && slices.Equal(limits, h.limits) && slices.EqualFunc(next.hosts, h.hosts, slices.Equal) && reflect.DeepEqual(next.rest, h.rest) {
		return h
	}
	next.text = renderSkeleton(in, limits)
	return next
}

// renderSkeleton returns haproxy.cfg without its server lines and the sections of Service ports, which come last.
// Beside the ports it depends on what kinds of things the table has, of which limits are the defaults for limited
// sections, and on nothing else of it: each such thing is lines of their own, in the same order whatever others there
// are, which do nothing for a table without it. Diff relies on that.
func renderSkeleton(in Input, limits []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, globalSection, in.Paths.WorkerSocket(), milliseconds(in.Table.DrainTimeout), maxConnections(in)*filesPerConnection+ownFiles)
	if in.Paths.KeysSocket != "" {
		fmt.Fprintf(&b, keysSocket, in.Paths.KeysSocket)
	}
	if verifiesClients(in, 0) {
		b.WriteString(noSessions)
	}
	b.WriteString(commonSection)
	isRouting := slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool { return !isConnection(&l) })
	if isRouting {
		writeRouting(&b, in)
		writeRouted(&b, in, limits)
	}
	writeConnections(&b, in)
	for _, port := range ports(in.Table) {
		writeFrontend(&b, in, port)
	}
	metricsPort := in.Bind.MetricsPort
	if metricsPort == 0 {
		metricsPort = MetricsPort
	}
	fmt.Fprintf(&b, metricsSection, bindLines(in.Bind, metricsPort, ""))
	fmt.Fprintf(&b, countingSections, maxConnections(in)+ownFiles)
	if in.Paths.KeysSocket != "" {
		b.WriteString(checkSection)
	}
	if isRouting {
		writeSpares(&b)
	}
	return b.String()
}

// writeRouting writes the rules by which a request finds its backend section.
func writeRouting(b *strings.Builder, in Input) {
	b.WriteString(routingHead)
	if len(in.Table.TrustedProxies) > 0 {
		b.WriteString(patientTimeout)
	}
	b.WriteString(routingChecks)
	writeRequestLimits(b, in)
	b.WriteString(routingRequest)
	l := lookups{
		b: b, directive: "http-request", mapPath: in.Paths.MapPath(), depths: wildcardDepths(in.Table), unknown: isOdd, found: routingFound,
	}
	forwarded, odd := forwardedRules, oddRules+oddForwardedRules
	if len(in.Table.TrustedProxies) > 0 {
		forwarded, odd = trustedRules, oddRules+oddTrustedRules
	}
	b.WriteString(forwarded)
	l.writeExact("path", "!"+isOdd)
	if hasTLS(in.Table) {
		// Over TLS, the listener of every request is looked at later.
		l.set("listener", "var(txn.hit),field(9,"+mark+")", "{ ssl_fc }")
	}
	fmt.Fprintf(b, routingSimple, l.sameVersion())
	b.WriteString(routingRest)
	b.WriteString(odd)
	l.writeFast()
	b.WriteString(routingFoundAtLast)
	headers, params := conditionNames(in.Table)
	l.writeSlow(in.Paths, headers, params)
	if hasTLS(in.Table) {
		writeHSTS(b, in)
	}
}

// writeConnections writes the defaults of TCP and TLS listeners.
func writeConnections(b *strings.Builder, in Input) {
	if slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool { return isConnection(&l) }) {
		b.WriteString(connectionsSection)
	}
}

// writeConnectionRules writes the rules by which connections of a port find their backend section. They are in the section
// of the port.
func writeConnectionRules(b *strings.Builder, in Input, protocol string) {
	b.WriteString(connectionHead)
	if protocol == "TLS" {
		b.WriteString(helloRules)
	}
	l := lookups{b: b, directive: "tcp-request content", mapPath: in.Paths.MapPath(), depths: wildcardDepths(in.Table)}
	l.writeFast()
	b.WriteString(connectionAnswer)
}

// writeRouted writes the rules that all backend sections for requests share, and the sections of answers that need no
// backend.
func writeRouted(b *strings.Builder, in Input, limits []string) {
	var rules strings.Builder
	if hasTLS(in.Table) {
		writeTLSChecks(&rules, in)
	}
	rules.WriteString(programHead)
	// Before anything is answered, so that a browser may read the answer, and before there is a wait, in which the map may change.
	writeCORS(&rules, in)
	rules.WriteString(programBody)
	writePathChanges(&rules, in.Table)
	rules.WriteString(programRedirect)
	writeResponses(&rules, in.Table)
	rules.WriteString(programRequest)
	writeHeaderChanges(&rules, in.Table)
	b.WriteString("\n" + defaultsPrefix + routed + routedHead + rules.String())
	for _, name := range limits {
		writeLimited(b, name, rules.String())
	}
	writeAnswerSections(b, in)
}

func hasTLS(table routing.Table) bool {
	return slices.ContainsFunc(table.Listeners, func(l routing.Listener) bool { return l.TLS != nil })
}

// writeFrontend writes the section of a port. A port with TLS and without a certificate has none.
func writeFrontend(b *strings.Builder, in Input, port int32) {
	listener := in.Table.Listeners[slices.IndexFunc(in.Table.Listeners, func(l routing.Listener) bool { return l.Port == port })]
	options, defaults := "", "routing"
	switch listener.Protocol {
	case "HTTPS":
		if len(certificateLines(in, port)) == 0 {
			return
		}
		options = fmt.Sprintf(" ssl crt-list %s/%s alpn h2,http/1.1 ciphers %s", in.Paths.ConfigDir, certificateList(port), intermediateCiphers)
		if isStrict(in, port) {
			options += strictSNI
		}
		if verifiesClients(in, port) {
			options += " no-tls-tickets"
		}
	case "TCP", "TLS":
		defaults = "connections"
	}
	fmt.Fprintf(b, "\nfrontend %d from %s\n%s", port, defaults, bindLines(in.Bind, port, options))
	writeAdmission(b, in, &listener)
	if isConnection(&listener) {
		writeConnectionRules(b, in, listener.Protocol)
	} else {
		writeSession(b, in, listener.TLS != nil)
		fmt.Fprintf(b, frontendEnd, in.Paths.ConfigDir+"/"+SparesFile)
	}
}

const (
	backendPrefix  = "backend "
	defaultsPrefix = "defaults "
	routed         = "routed"
	fromRouted     = " from " + routed + "\n"
	defaultServer  = "    default-server "
)

// backendSection returns the name of the backend section that starts with a line, or false.
func backendSection(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, backendPrefix)
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, " ")
	return name, true
}

func bindLines(bind Bind, port int32, options string) string {
	if len(bind.Addresses) == 0 {
		return fmt.Sprintf("    bind :%d%s\n    bind :::%d v6only%s\n", port, options, port, options)
	}
	var b strings.Builder
	for _, address := range bind.Addresses {
		b.WriteString("    bind " + ServerAddress(Server{Address: address, Port: port}) + options + "\n")
	}
	return b.String()
}

// ports returns the ports of all listeners, sorted, each once.
func ports(table routing.Table) []int32 {
	var all []int32
	for i := range table.Listeners {
		all = append(all, table.Listeners[i].Port)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func isWildcard(hostname string) bool { return strings.HasPrefix(hostname, "*.") }

// wildcardDepths returns of how many labels the suffixes of wildcard hostnames are ("*.example.com": 2), most first, each
// once.
func wildcardDepths(table routing.Table) []int {
	seen := map[int]bool{}
	note := func(hostname string) {
		if isWildcard(hostname) {
			seen[strings.Count(hostname, ".")] = true
		}
	}
	for i := range table.Listeners {
		note(table.Listeners[i].Hostname)
		for _, host := range table.Listeners[i].Hosts {
			note(host.Name)
		}
	}
	var depths []int
	for depth := range seen {
		depths = append(depths, depth)
	}
	slices.Sort(depths)
	slices.Reverse(depths)
	return depths
}
