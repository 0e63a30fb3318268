package try

import (
	"slices"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/selfsigned"
	"gateway/internal/certificates"
	"gateway/internal/model"
)

// pairs are certificates with their keys, by their names: they stay the same when a file is saved, for browsers that
// accepted them.
type pairs map[string]map[string][]byte

// complete makes a certificate for each Secret that the Gateway names and the files lack.
func (p pairs) complete(o *objects) error {
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
	if secret := o.gateway.BackendCertificate; secret != "" && o.secrets[secret] == nil {
		hostnames[secret] = append(hostnames[secret], "localhost")
	}
	for secret, names := range hostnames {
		slices.Sort(names)
		names = slices.Compact(names)
		key := strings.Join(names, " ")
		if p[key] == nil {
			certificate, private, err := selfsigned.New(names...)
			if err != nil {
				return err
			}
			p[key] = map[string][]byte{certificates.CertificateFile: certificate, certificates.KeyFile: private}
		}
		o.secrets[secret] = p[key]
	}
	return nil
}

// namesOf returns the names for a listener's certificate: its hostname, or else the hostnames of its routes.
func (o *objects) namesOf(listener *model.Listener) []string {
	if listener.Hostname != "" {
		return []string{listener.Hostname}
	}
	names := []string{"localhost"}
	for route := range o.gateway.Routes.Values() {
		if slices.Contains(route.Listeners, listener.Name) {
			names = append(names, slices.DeleteFunc(slices.Clone(route.Hostnames), func(name string) bool { return name == "" })...)
		}
	}
	return names
}
