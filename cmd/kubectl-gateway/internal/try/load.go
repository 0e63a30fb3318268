package try

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/agent"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	"gateway/internal/waf"
)

// privileged is the first port that everybody may bind.
const privileged = 1024

// maxPort is the last port that there is.
const maxPort = 1<<16 - 1

// load reads the files. It completes what they lack: moved ports, Services, certificates.
func (c *command) load(ctx context.Context, addresses map[string]netip.AddrPort) (*objects, error) {
	site, err := c.One(ctx, c.files, c.name)
	if err != nil {
		return nil, err
	}
	gateway := *site.Model()
	o := &objects{
		namespace: site.Gateway.Namespace, name: site.Gateway.Name, gateway: &gateway, moved: map[int32]int32{},
		secrets: site.Secrets(), configMaps: map[string]map[string][]byte{},
	}
	o.services, o.slices = site.Objects()
	if err := o.movePorts(c.offset); err != nil {
		return nil, err
	}
	table, refused := routing.Compile(o.gateway, filters.Problem)
	o.addConfigMaps(site, table)
	if err := c.made.complete(o); err != nil {
		return nil, err
	}
	o.addProblems(site, table, refused)
	o.addHelpers(table)
	o.addEndpoints(site, table, addresses)
	return o, nil
}

// addEndpoints gives the Service ports that the table refers to, and their backups, the endpoints of the command line.
// Of those that have none, the built-in backend takes the place.
func (o *objects) addEndpoints(site *cli.Site, table routing.Table, addresses map[string]netip.AddrPort) {
	all := table.Backends()
	proxied := map[model.Backend]bool{}
	for _, backend := range slices.Clone(all) {
		policy := table.Policies[backend]
		if proxied[backend] = policy.ProxyProtocol != ""; policy.Backup != (model.Backend{}) && !slices.Contains(all, policy.Backup) {
			all = append(all, policy.Backup)
			proxied[policy.Backup] = proxied[backend]
		}
	}
	unused := maps.Clone(addresses)
	for _, backend := range all {
		key := fmt.Sprintf("%s:%d", backend.Service, backend.Port)
		address, chosen := addresses[key]
		delete(unused, key)
		name := types.NamespacedName{Namespace: backend.Namespace, Name: backend.Service}
		switch {
		case !site.Backend(backend, nil).Exists: // nor does it in a cluster
		case chosen:
			o.slices[name] = nil
			o.setEndpoints(backend, address)
		case len(o.slices[name]) == 0:
			o.builtIn = append(o.builtIn, builtIn{backend, proxied[backend]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unused)) {
		o.doubts = append(o.doubts, fmt.Sprintf("--endpoint %s=%s has no effect: no rule sends requests to this Service and port", key, unused[key]))
		o.hasWarnings = true
	}
}

// addConfigMaps adds the ConfigMaps and ClusterTrustBundles that the Gateway needs, whether the files have them or not.
func (o *objects) addConfigMaps(site *cli.Site, table routing.Table) {
	for _, name := range slices.Concat(cli.KeySetNames(table), cli.AuthorityNames(table), cli.TrustBundles(table), cli.RuleSetNames(table)) {
		o.configMaps[name] = nil
	}
	for name, data := range site.ConfigMaps() {
		files := map[string][]byte{}
		for _, file := range []string{certificates.AuthorityFile, certificates.RevocationsFile, proxypod.KeySetFile, waf.RulesFile} {
			if content, ok := data[file]; ok {
				files[file] = []byte(content)
			}
		}
		o.configMaps[name] = files
	}
}

// addProblems adds what is not served here, because of the Gateway or of objects that the files lack.
func (o *objects) addProblems(site *cli.Site, table routing.Table, refused []model.Problem) {
	for name := range o.users() {
		if _, ok := o.secrets[name]; !ok {
			o.secrets[name] = nil
		}
	}
	o.doubts = cli.Messages(site.Doubts(table))
	o.hasWarnings = len(site.Ignored)+len(o.doubts) > 0
	o.problems = slices.Concat(cli.Messages(site.Problems(table, refused)), site.MissingKeys(table, true))
	usable := agent.CheckFiles(&table, o.namespace, o.secrets, o.configMaps, time.Now())
	o.unserved = map[string]bool{}
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		lacksAuthority := func(name string) bool { return usable.Authorities[name] == nil }
		o.unserved[listener.Name] = listener.TLS != nil && (len(usable.Certificates[listener.Name]) == 0 || slices.ContainsFunc(listener.TLS.ClientCAs, lacksAuthority))
	}
	for _, problem := range usable.Problems {
		if !slices.Contains(o.problems, problem.Message) {
			o.problems = append(o.problems, problem.Message)
		}
	}
}

// movePorts moves listeners from privileged ports. The error means that another listener has such a port.
func (o *objects) movePorts(offset int32) error {
	used := map[int32]bool{}
	for _, listener := range o.gateway.Listeners {
		used[listener.Port] = true
	}
	o.gateway.Listeners = slices.Clone(o.gateway.Listeners)
	for i := range o.gateway.Listeners {
		port := &o.gateway.Listeners[i].Port
		if *port >= privileged || offset == 0 {
			continue
		}
		if moved := *port + offset; moved > maxPort || moved <= 0 {
			return cli.Usagef("listener %s: port %d would become %d, which is no port: choose another --port-offset", o.gateway.Listeners[i].Name, *port, moved)
		}
		if used[*port+offset] {
			return cli.Usagef("listener %s: port %d would become %d, which another listener has: choose another --port-offset",
				o.gateway.Listeners[i].Name, *port, *port+offset)
		}
		o.moved[*port] = *port + offset
		*port += offset
	}
	return nil
}
