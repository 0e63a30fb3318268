package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// Where Files puts the load ID.
const (
	descriptionPrefix = "    description "
	loadPlace         = ` load="`
)

// renderSkeleton returns haproxy.cfg without its server lines. It depends on the ports, the depths of wildcard hostnames
// and the backends, and on nothing else of the table.
func renderSkeleton(in Input) string {
	var b strings.Builder
	fmt.Fprintf(&b, globalSection, quote(in.Namespace, inConfig), quote(in.Name, inConfig), in.Paths.WorkerSocket())
	b.WriteString(commonSection)
	b.WriteString(routingHead)
	b.WriteString(routingRequest)
	depths := wildcardDepths(in.Table)
	for _, depth := range depths {
		// A host of no more labels is not below the wildcard's suffix.
		fmt.Fprintf(&b, "    http-request set-var(txn.below%[1]d) var(txn.host),field(-1,.,%[1]d) if { var(txn.host),field(%[2]d,.) -m found }\n",
			depth, depth+1)
	}
	writeLookups(&b, in.Paths.MapPath(), depths)
	b.WriteString(routingAnswer)
	for _, port := range ports(in.Table) {
		fmt.Fprintf(&b, "\nfrontend %d from routing\n%s    use_backend %%[var(txn.target)]\n", port, bindLines(in.Bind, port))
	}
	metricsPort := in.Bind.MetricsPort
	if metricsPort == 0 {
		metricsPort = MetricsPort
	}
	fmt.Fprintf(&b, metricsSection, bindLines(in.Bind, metricsPort))
	for _, backend := range in.Table.Backends() {
		fmt.Fprintf(&b, "\n%s%s from common\n    balance random(2)\n", backendPrefix, BackendName(backend))
	}
	return b.String()
}

const backendPrefix = "backend "

// backendSection returns the name of the backend section that starts with a line, or false.
func backendSection(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, backendPrefix)
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, " ")
	return name, true
}

func bindLines(bind Bind, port int32) string {
	if len(bind.Addresses) == 0 {
		return fmt.Sprintf("    bind :%d\n    bind :::%d v6only\n", port, port)
	}
	var b strings.Builder
	for _, address := range bind.Addresses {
		b.WriteString("    bind " + ServerAddress(Server{Address: address, Port: port}) + "\n")
	}
	return b.String()
}

// ports returns the ports of all listeners, sorted, each once.
func ports(table routing.Table) []int32 {
	var all []int32
	for _, listener := range table.Listeners {
		all = append(all, listener.Port)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wildcardDepths returns of how many labels the suffixes of wildcard hostnames are ("*.example.com": 2), most first, each
// once.
func wildcardDepths(table routing.Table) []int {
	seen := map[int]bool{}
	note := func(hostname string) {
		if strings.HasPrefix(hostname, "*.") {
			seen[strings.Count(hostname, ".")] = true
		}
	}
	for _, listener := range table.Listeners {
		note(listener.Hostname)
		for _, entry := range listener.Entries {
			note(entry.Hostname)
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

// writeLookups writes the rules that find the target of a request, most specific first.
//
// The map is replaced atomically, but between two lookups of a request, and a request must not meet half of the old table
// and half of the new: it might miss a route that both have. So the version is read before and after, and if it
// changed, everything is looked up again. A third version in between is not to be expected: each takes milliseconds to
// load.
func writeLookups(b *strings.Builder, mapPath string, depths []int) {
	hosts := []string{",txn.host"}
	for _, depth := range depths {
		hosts = append(hosts, "*.,txn.below"+strconv.Itoa(depth))
	}
	hosts = append(hosts, "*,")
	set := func(name, value, condition string) {
		if condition != "" {
			condition = " if " + condition
		}
		fmt.Fprintf(b, "    http-request set-var(txn.%s) %s%s\n", name, value, condition)
	}
	for _, pass := range []string{"", "{ var(txn.torn) -m found } "} {
		if pass != "" {
			set("torn", "bool(true)", "!{ str(version),map_str("+mapPath+"),strcmp(txn.version) eq 0 }")
			for _, name := range []string{"listener", "hit", "target"} {
				fmt.Fprintf(b, "    http-request unset-var(txn.%s) if %s\n", name, strings.TrimSpace(pass))
			}
		}
		set("version", "str(version),map_str("+mapPath+")", strings.TrimSpace(pass))
		for i, host := range hosts {
			set("listener", "str(l/),concat(,txn.port,/),concat("+host+"),map_str("+mapPath+")", miss(pass, "listener", i))
		}
		for i, host := range hosts {
			key := ",concat(,txn.listener,/),concat(" + host + "),concat(,txn.path"
			set("hit", "str(e/)"+key+"),map_str("+mapPath+")", miss(pass, "hit", i))
			set("hit", "str(p/)"+key+",/),map_beg("+mapPath+")", miss(pass, "hit", i+1))
		}
		set("target", "var(txn.hit),word(3,|)", strings.TrimSpace(pass))
		split := pass + "{ var(txn.target) -m str " + targetSplit + " }"
		set("weights", "var(txn.hit),word(4,|)", split)
		set("backends", "var(txn.hit),word(5,|)", split)
		set("index", "str(w/),concat(,txn.weights,/),concat(,txn.random),map_beg("+mapPath+")", split)
		set("target", "str(t/),concat(,txn.backends,/),concat(,txn.index),map_str("+mapPath+")", split)
	}
}

// miss returns the condition for another try to set a variable: that no earlier one did.
func miss(pass, name string, tries int) string {
	if tries == 0 {
		return strings.TrimSpace(pass)
	}
	return pass + "!{ var(txn." + name + ") -m found }"
}
