package config

import (
	"maps"
	"slices"
	"strings"

	"gateway/internal/certificates"
	"gateway/internal/routing"
)

// intermediateCiphers are the suites of TLS 1.2 in Mozilla's intermediate recommendation, version 5.7.
const intermediateCiphers = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:" +
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

// What gateway-keys hands certificates over by, and CheckSection: HAProxy says whether it can use one when a server there is given it.
const (
	keysSocket = `    stats socket %s mode 600 level admin
`
	// CheckSection has no servers but for a moment.
	CheckSection = "certificates"
	checkSection = `
backend ` + CheckSection + ` from common
`
)

const (
	listPrefix = "certificates-"
	strictSNI  = " strict-sni"
)

// certificateList returns the name of the file that lists the certificates of a port.
func certificateList(port int32) string { return listPrefix + itoa(port) + ".list" }

// certificatePath returns where HAProxy finds the certificate of a Secret, and its key: in one file, so that both are of one content.
func (p Paths) certificatePath(secret string) string {
	return p.CertificateDir + "/" + quote(secret, inConfig) + "/" + certificates.JoinedFile
}

// renderCertificateLists returns the lists of all ports with TLS that have a certificate.
func renderCertificateLists(in Input) map[string][]byte {
	files := map[string][]byte{}
	for _, port := range ports(in.Table) {
		if lines := certificateLines(in, port); len(lines) > 0 {
			files[certificateList(port)] = []byte(strings.Join(lines, ""))
		}
	}
	return files
}

// certificateLines returns the lines of a port's list. If the port has a listener for every hostname, its first certificate
// comes first: HAProxy shows it to clients that ask for a name of no other, or for none.
func certificateLines(in Input, port int32) []string {
	var first, others []string
	connected := connectedNames(in, port)
	for i := range in.Table.Listeners {
		listener := &in.Table.Listeners[i]
		if listener.Port != port || !servesTLS(in, listener) {
			continue
		}
		options := listenerOptions(in, listener)
		for _, certificate := range in.Certificates[listener.Name] {
			names := ownNames(in.Table, listener, certificate.Names)
			names = append(names, exceptions(names, listener.Name, connected)...)
			line := in.Paths.certificatePath(certificate.Secret) + " [" + options + "] " + strings.Join(names, " ") + "\n"
			switch {
			case listener.Hostname == "" && len(first) == 0:
				if len(names) == 0 {
					line = strings.TrimSuffix(line, " \n") + " !*\n"
				}
				first = append(first, line)
			case len(names) > 0:
				others = append(others, line)
			}
		}
	}
	return append(first, others...)
}

// notConnected is in place of a listener whose hostname no certificate is for.
const notConnected = "."

// connectedNames returns which listener's certificates HAProxy has for each server name of a port, exact or a wildcard for
// one label. Clients that ask for another name get those of the listener for every hostname.
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
				names[name] = listener.Name
			}
		}
	}
	return names
}

// exceptions returns filters that keep the wildcards among the names of a listener's certificate from names that are another
// listener's. Without, HAProxy would take an ECDSA certificate of a wildcard before an RSA one of the name itself, and with
// it the wrong listener's options.
func exceptions(names []string, listener string, connected map[string]string) []string {
	var filters []string
	for _, name := range slices.Sorted(maps.Keys(connected)) {
		_, below, _ := strings.Cut(name, ".")
		if connected[name] != listener && slices.Contains(names, "*."+below) {
			filters = append(filters, "!"+quote(name, inConfig+"![]"))
		}
	}
	return filters
}

// servesTLS says whether a listener can be served: it has a certificate, and what it needs to verify clients.
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

// listenerOptions returns what of TLS differs between the listeners of a port.
func listenerOptions(in Input, listener *routing.Listener) string {
	options := "ssl-min-ver " + quote(listener.TLS.MinVersion, inConfig)
	if authority, ok := authorityFile(in, listener.TLS.ClientCAs); ok {
		verify := "optional"
		if listener.TLS.ClientRequired {
			verify = "required"
		}
		options += " ca-file " + authority + " verify " + verify
	}
	return options
}

// ownNames returns the names of a certificate that are its listener's and not those of another listener of the port, sorted.
func ownNames(table routing.Table, listener *routing.Listener, names []string) []string {
	var own []string
	for _, name := range names {
		if owner := table.ListenerFor(listener.Port, name); owner != nil && owner.Name == listener.Name {
			own = append(own, quote(name, inConfig+"![]"))
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// isStrict says whether clients that ask for a name that no certificate is for, or for none, are refused.
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

// authorityName tells the content, so that another content is another file, and a change of what uses it.
func authorityName(content []byte) string { return "ca-" + hashText(string(content)) + ".pem" }

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

// usedAuthorities returns the files that HAProxy reads for listeners and backends. One that it did not read could not be used for a
// server that is added at run time.
func usedAuthorities(in Input, sections *sectionSet) map[string][]byte {
	files := map[string][]byte{}
	note := func(names []string) {
		if content := authority(in, names); len(content) > 0 {
			files[authorityName(content)] = content
		}
	}
	for i := range in.Table.Listeners {
		if listener := &in.Table.Listeners[i]; servesTLS(in, listener) {
			note(listener.TLS.ClientCAs)
		}
	}
	for _, section := range sections.sorted {
		if tls := section.madeOf.policy.TLS; tls != nil {
			note(tls.CAs)
		}
	}
	return files
}

// verifiesClients says whether a listener of a port, or of any port if it is 0, asks clients for certificates.
func verifiesClients(in Input, port int32) bool {
	return slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool {
		return l.TLS != nil && len(l.TLS.ClientCAs) > 0 && (port == 0 || l.Port == port)
	})
}

// ListChange is how the list of certificates of a port, which is given by its name in Paths.ConfigDir, becomes the new one.
type ListChange struct {
	File        string
	Add, Remove []string
}

// listChanges returns how the lists of a process that runs one configuration become those of another, and the files that it runs then. Not
// among them is a list that takes a reload.
func listChanges(desired, running Config) (changes []ListChange, static map[string][]byte) {
	static = running.Static
	for _, name := range slices.Sorted(maps.Keys(desired.Static)) {
		want, have := string(desired.Static[name]), string(running.Static[name])
		if want == have || have == "" || !strings.HasPrefix(name, listPrefix) || !canChangeList(running.Skeleton, name, want, have) {
			continue
		}
		wantLines, haveLines := strings.Split(strings.TrimSuffix(want, "\n"), "\n"), strings.Split(strings.TrimSuffix(have, "\n"), "\n")
		changes = append(changes, ListChange{File: name, Add: without(wantLines, haveLines), Remove: without(haveLines, wantLines)})
		if len(changes) == 1 {
			static = maps.Clone(static)
		}
		static[name] = desired.Static[name]
	}
	return changes, static
}

// canChangeList says whether HAProxy can be told to change a list. Every line has to have the same options, and none may ask clients for
// certificates: a connection that was made by one line's is one of another line's when its name is. Nor can the first certificate change of a
// port that shows it where it has no other.
func canChangeList(skeleton, name, want, have string) bool {
	options := ""
	for line := range strings.Lines(want + have) {
		_, rest, _ := strings.Cut(line, " [")
		of, _, _ := strings.Cut(rest, "] ")
		if options != "" && of != options || strings.Contains(of, " verify ") {
			return false
		}
		options = of
	}
	_, bind, _ := strings.Cut(skeleton, "/"+name+" ")
	bind, _, _ = strings.Cut(bind, "\n")
	first, _, _ := strings.Cut(want, "\n")
	return strings.Contains(bind, strictSNI) || strings.HasPrefix(have, first+"\n")
}

// without returns the lines that are not among others.
func without(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}
