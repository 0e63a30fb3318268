package render

import (
	"maps"
	"slices"
	"strings"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// intermediateCiphers are the suites of TLS 1.2 in Mozilla's intermediate recommendation, version 5.7.
const intermediateCiphers = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:" +
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

// certificateList returns the name of the file that lists the certificates of a port.
func certificateList(port int32) string { return "certificates-" + itoa(port) + ".list" }

// certificatePath returns the path of a Secret's certificate and key for HAProxy: in one file, so that both change
// together.
func certificatePath(p ir.Paths, secret string) string {
	return p.CertificateDir + "/" + ir.Quote(secret, ir.InConfig) + "/" + certificates.JoinedFile
}

// addCertificates adds the list of a port's certificates, if it has any, and the listener for each name.
func (r *Renderer) addCertificates(port int32) {
	if lines := certificateLines(r.in, port); len(lines) > 0 {
		r.sections.Certificates[certificateList(port)] = ir.CertificateList{Strict: isStrict(r.in, port), Lines: lines}
	}
	for name, listener := range connectedNames(r.in, port) {
		r.addEntry(ir.NamesFile, ir.Quote(itoa(port)+"/"+name, ir.InMap), listener)
	}
}

// certificateLines returns the lines of a port's list. If the port has a listener for every hostname, its first
// certificate comes first: HAProxy shows it to clients that ask for a name of no other, or for none.
func certificateLines(in Input, port int32) []ir.CertificateLine {
	var first, others []ir.CertificateLine
	connected := connectedNames(in, port)
	for i := range in.Table.Listeners {
		listener := &in.Table.Listeners[i]
		if listener.Port != port || !servesTLS(in, listener) {
			continue
		}
		for _, certificate := range in.Certificates[listener.Name] {
			names := ownNames(in.Table, listener, certificate.Names)
			line := ir.CertificateLine{
				File: certificatePath(in.Paths, certificate.Secret), Options: listenerOptions(in, listener), VerifiesClients: len(listener.TLS.ClientCAs) > 0,
				Filters: append(names, exceptions(names, listenerName(listener), connected)...),
			}
			switch {
			case listener.Hostname == "" && len(first) == 0:
				if len(line.Filters) == 0 {
					line.Filters = []string{"!*"}
				}
				first = append(first, line)
			case len(line.Filters) > 0:
				others = append(others, line)
			}
		}
	}
	return append(first, others...)
}

// notConnected stands in for a listener whose hostname has no certificate.
const notConnected = "."

// connectedNames returns the listener whose certificates HAProxy has for each server name of a port, exact or a
// wildcard for one label. Clients that ask for another name get those of the listener for every hostname.
func connectedNames(in Input, port int32) map[string]string {
	names := map[string]string{}
	for i := range in.Table.Listeners {
		listener := &in.Table.Listeners[i]
		if listener.Port != port || listener.TLS == nil {
			continue
		}
		if listener.Hostname != "" && !isWildcard(listener.Hostname) {
			names[listener.Hostname] = notConnected
		}
	}
	for i := range in.Table.Listeners {
		listener := &in.Table.Listeners[i]
		if listener.Port != port || !servesTLS(in, listener) {
			continue
		}
		for _, certificate := range in.Certificates[listener.Name] {
			for _, name := range ownNames(in.Table, listener, certificate.Names) {
				names[name] = listenerName(listener)
			}
		}
		if listener.Hostname == "" {
			names["*"] = listenerName(listener)
		}
	}
	return names
}

// exceptions returns filters that keep the wildcards among the names of a listener's certificate from names that are
// another listener's. Without, HAProxy would take an ECDSA certificate of a wildcard before an RSA one of the name
// itself, and with it the wrong listener's options.
func exceptions(names []string, listener string, connected map[string]string) []string {
	var filters []string
	for _, name := range slices.Sorted(maps.Keys(connected)) {
		_, below, _ := strings.Cut(name, ".")
		if connected[name] != listener && slices.Contains(names, "*."+below) {
			filters = append(filters, "!"+ir.Quote(name, ir.InConfig+"![]"))
		}
	}
	return filters
}

// servesTLS reports whether a listener can be served: it has a certificate, and the CA certificates for its clients.
func servesTLS(in Input, listener *routing.Listener) bool {
	if listener.TLS == nil || len(in.Certificates[listener.Name]) == 0 {
		return false
	}
	for _, ca := range listener.TLS.ClientCAs {
		if len(in.Authorities[ca]) == 0 {
			return false
		}
	}
	return true
}

// listenerOptions returns the TLS options that differ between the listeners of a port.
func listenerOptions(in Input, listener *routing.Listener) string {
	options := "ssl-min-ver " + ir.Quote(listener.TLS.MinVersion, ir.InConfig)
	if file, ok := authorityFile(in, listener.TLS.ClientCAs); ok {
		verify := "optional"
		if listener.TLS.ClientRequired {
			verify = "required"
		}
		options += " ca-file " + file + " verify " + verify
		if certificates.HasRevocations(authority(in, listener.TLS.ClientCAs)) {
			options += " crl-file " + file // HAProxy looks at lists only with this option
		}
	}
	return options
}

// ownNames returns the names of a certificate that are its listener's and not those of another listener of the port,
// sorted.
func ownNames(table routing.Table, listener *routing.Listener, names []string) []string {
	var own []string
	for _, name := range names {
		if owner := table.ListenerFor(listener.Port, name); owner != nil && owner.Name == listener.Name {
			own = append(own, ir.Quote(name, ir.InConfig+"![]"))
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// isStrict reports whether clients are refused that ask for a name without a certificate, or for none.
func isStrict(in Input, port int32) bool {
	for i := range in.Table.Listeners {
		listener := &in.Table.Listeners[i]
		if listener.Port == port && listener.Hostname == "" && servesTLS(in, listener) {
			return false
		}
	}
	return true
}

// authorityFile returns the path of the file that holds the certificates of these ConfigMaps, false if there are none.
func authorityFile(in Input, names []string) (string, bool) {
	content := authority(in, names)
	if len(content) == 0 {
		return "", false
	}
	return in.Paths.ConfigDir + "/" + authorityName(content), true
}

// authorityName identifies a content, so that another content is another file, and changes its users.
func authorityName(content []byte) string { return "ca-" + ir.ContentName(string(content)) + ".pem" }

// authority returns the certificates of these ConfigMaps, nothing if one of them is missing.
func authority(in Input, names []string) []byte {
	var content []byte
	for _, name := range names {
		if len(in.Authorities[name]) == 0 {
			return nil
		}
		content = append(append(content, in.Authorities[name]...), '\n')
	}
	return content
}

// addAuthorities adds the files of CA certificates that listeners and backends use. HAProxy must have read a file to
// use it for a server that is added at run time.
func (r *Renderer) addAuthorities() {
	for i := range r.in.Table.Listeners {
		if listener := &r.in.Table.Listeners[i]; servesTLS(r.in, listener) {
			if content := authority(r.in, listener.TLS.ClientCAs); len(content) > 0 {
				r.sections.Files[authorityName(content)] = content
			}
		}
	}
	for name, content := range r.causes.authorities.All() {
		r.sections.Files[name] = []byte(content)
	}
}

// verifiesClients reports whether a listener of a port, or of any port if it is 0, asks clients for certificates.
func verifiesClients(in Input, port int32) bool {
	return slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool {
		return l.TLS != nil && len(l.TLS.ClientCAs) > 0 && (port == 0 || l.Port == port)
	})
}

// acceptsUnverified reports whether a port accepts invalid client certificates, which nobody is told of.
func acceptsUnverified(in Input, port int32) bool {
	return slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool {
		return l.Port == port && l.TLS != nil && l.TLS.ClientUnverified
	})
}
