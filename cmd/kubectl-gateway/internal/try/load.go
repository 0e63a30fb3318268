package try

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/certificates"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
)

// privileged is the first port that everybody may bind.
const privileged = 1024

// load reads the files. What they do not have is completed: moved ports, Services, certificates.
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
	table, problems := routing.Compile(o.gateway)
	o.problems = problems
	for name, data := range site.ConfigMaps() {
		files := map[string][]byte{}
		for _, file := range []string{certificates.AuthorityFile, proxypod.KeySetFile} {
			if content, ok := data[file]; ok {
				files[file] = []byte(content)
			}
		}
		o.configMaps[name] = files
	}
	for _, name := range cli.KeySetNames(table) {
		if o.configMaps[name] == nil {
			o.configMaps[name] = map[string][]byte{}
		}
	}
	for _, message := range site.MissingKeys(table, true) {
		o.problems = append(o.problems, model.Problem{Message: message})
	}
	if err := c.made.complete(o); err != nil {
		return nil, err
	}
	for _, backend := range table.Backends() {
		address, chosen := addresses[fmt.Sprintf("%s:%d", backend.Service, backend.Port)]
		name := types.NamespacedName{Namespace: backend.Namespace, Name: backend.Service}
		switch {
		case chosen:
			o.slices[name] = nil
			o.setEndpoints(backend, address)
		case len(o.slices[name]) == 0:
			o.builtIn = append(o.builtIn, backend)
		}
	}
	return o, nil
}

// movePorts gives listeners of privileged ports others. The error says that another listener has such a port.
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
		if used[*port+offset] {
			return cli.Usagef("listener %s: port %d would become %d, which another listener has: choose another --port-offset",
				o.gateway.Listeners[i].Name, *port, *port+offset)
		}
		o.moved[*port] = *port + offset
		*port += offset
	}
	return nil
}
