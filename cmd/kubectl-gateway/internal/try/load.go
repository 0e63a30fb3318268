package try

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/certificates"
	"gateway/internal/model"
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
		secrets: map[string]map[string][]byte{}, configMaps: map[string]map[string][]byte{},
	}
	o.services, o.slices = site.Objects()
	if err := o.movePorts(c.offset); err != nil {
		return nil, err
	}
	table, problems := routing.Compile(o.gateway)
	o.problems = problems
	for name, content := range site.Authorities() {
		o.configMaps[name] = map[string][]byte{certificates.AuthorityFile: content}
	}
	if err := c.readSecrets(o); err != nil {
		return nil, err
	}
	if err := o.makeCertificates(); err != nil {
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
		if *port >= privileged {
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

// readSecrets takes the certificates and keys from the files.
func (c *command) readSecrets(o *objects) error {
	documents, err := c.files.Read(c.In)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if document.Object.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
			continue
		}
		if namespace := document.Object.GetNamespace(); namespace != "" && namespace != o.namespace {
			continue
		}
		secret := &corev1.Secret{}
		if err := document.Into(secret); err != nil {
			return err
		}
		content := maps.Clone(secret.Data)
		for key, value := range secret.StringData {
			if content == nil {
				content = map[string][]byte{}
			}
			content[key] = []byte(value)
		}
		o.secrets[secret.Name] = content
	}
	return nil
}

// makeCertificates makes a certificate for each Secret that a listener names and the files do not have.
func (o *objects) makeCertificates() error {
	hostnames := map[string][]string{}
	for i := range o.gateway.Listeners {
		listener := &o.gateway.Listeners[i]
		if listener.TLS == nil {
			continue
		}
		for _, secret := range listener.TLS.Secrets {
			if _, ok := o.secrets[secret]; !ok {
				hostnames[secret] = append(hostnames[secret], o.namesOf(listener)...)
			}
		}
	}
	for secret, names := range hostnames {
		certificate, key, err := selfSigned(names)
		if err != nil {
			return fmt.Errorf("failed to make a certificate: %w", err)
		}
		o.secrets[secret] = map[string][]byte{certificates.CertificateFile: certificate, certificates.KeyFile: key}
	}
	return nil
}

// namesOf are the names that a certificate of a listener is for: its hostname, or else those of its routes.
func (o *objects) namesOf(listener *model.Listener) []string {
	if listener.Hostname != "" {
		return []string{listener.Hostname}
	}
	names := []string{"localhost"}
	for i := range o.gateway.Routes {
		if slices.Contains(o.gateway.Routes[i].Listeners, listener.Name) {
			names = append(names, slices.DeleteFunc(slices.Clone(o.gateway.Routes[i].Hostnames), func(name string) bool { return name == "" })...)
		}
	}
	return names
}
