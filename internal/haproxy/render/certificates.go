package render

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
	"gateway/internal/tree"
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

// secured is a listener that terminates TLS.
type secured struct {
	// identity stands for its port, hostname and demands, and for no others ever: a connection is for the listener that
	// has the identity which the connection was made for. It begins with needsClient where clients need a certificate.
	identity string
	// options are those of its lines in the list of certificates.
	options string
	demands ir.Demands
	// isServed reports whether it has a certificate, and the CA certificates for its clients.
	isServed bool
}

// needsClient begins the identity of a listener whose clients need a certificate.
const needsClient = "+"

// secure returns what is known of a listener that terminates TLS.
func (r *Renderer) secure(listener *routing.Listener) secured {
	key := strings.Join(listener.TLS.ClientCAs, " ")
	if _, ok := r.signers[key]; !ok {
		r.signers[key] = authority(r.in, listener.TLS.ClientCAs)
	}
	return newSecured(r.in, listener, r.signers[key])
}

func newSecured(in Input, listener *routing.Listener, authority []byte) secured {
	s := secured{
		demands:  ir.Demands{MinVersion: listener.TLS.MinVersion},
		isServed: len(in.Certificates[listener.Name]) > 0 && (len(authority) > 0 || len(listener.TLS.ClientCAs) == 0),
	}
	// The order is the one in which HAProxy shows them.
	if len(authority) > 0 {
		file, verify := authorityName(authority), "optional"
		if listener.TLS.ClientRequired {
			verify = "required"
		}
		s.demands.Authority, s.demands.Required = file, listener.TLS.ClientRequired
		s.options = "verify " + verify + " ca-file " + in.Paths.Map(file) + " "
		if certificates.HasRevocations(authority) {
			s.options += "crl-file " + in.Paths.Map(file) + " " // HAProxy looks at lists only with this option
		}
	}
	s.options += "ssl-min-ver " + ir.Quote(listener.TLS.MinVersion, ir.InConfig)
	asks := len(listener.TLS.ClientCAs) > 0
	s.identity = ir.ContentName(fmt.Sprintf("%d %s %s %v", listener.Port, listener.Hostname, s.options, asks))
	if asks && listener.TLS.ClientRequired {
		s.identity = needsClient + s.identity
	}
	return s
}

// tlsPort is what the listeners of a port have together.
type tlsPort struct {
	list ir.CertificateList
	// names are the identities that NamesFile leads to from the server names of the port.
	names map[string]string
}

// notConnected stands in for a listener whose hostname has no certificate.
const notConnected = "."

// portCertificates returns the lists of certificates, and the listener for each name, by port.
//
// The first line of a port that has a listener for every hostname is for no name: HAProxy shows its certificate to
// clients that ask for a name of no other line, or for none.
func (r *Renderer) portCertificates() map[int32]*tlsPort {
	ports, lines := map[int32]*tlsPort{}, map[int32]*lineSet{}
	for i := range r.in.Table.Listeners {
		listener := &r.in.Table.Listeners[i]
		if listener.TLS == nil {
			continue
		}
		port, of := ports[listener.Port], r.secured[listener.Name]
		if port == nil {
			port = &tlsPort{list: ir.CertificateList{Strict: true}, names: map[string]string{}}
			ports[listener.Port], lines[listener.Port] = port, newLineSet()
		}
		if listener.Hostname != "" && !isWildcard(listener.Hostname) {
			port.names[listener.Hostname] = notConnected
		}
		if !of.isServed {
			continue
		}
		for _, certificate := range r.in.Certificates[listener.Name] {
			line := lineKey{certificatePath(r.in.Paths, certificate.Secret), of.options}
			if listener.Hostname == "" && port.list.Strict {
				port.list.Strict = false
				port.names[ir.AnyName] = of.identity
				port.list.Lines = append(port.list.Lines, ir.CertificateLine{File: line.file, Options: line.options, Filters: []string{"!*"}})
			}
			for _, name := range certificate.Names {
				if owner := r.in.Table.ListenerFor(listener.Port, name); owner != nil && owner.Name == listener.Name {
					port.names[name] = of.identity
					lines[listener.Port].add(name, line, certificate.KeyType)
				}
			}
		}
	}
	for number, port := range ports {
		port.list.Lines = append(port.list.Lines, lines[number].lines()...)
	}
	return ports
}

// lineKey is what a line of a list has beside its names.
type lineKey struct{ file, options string }

// lineSet are the lines of a list. Names with one certificate and the same options share lines: each takes memory.
type lineSet struct {
	names map[lineKey][]string
	// keys are the types of the keys that there are for a name, and wildcards the lines of a wildcard with these types.
	keys      map[string][]string
	wildcards map[string][]wildcardLine
}

type wildcardLine struct {
	lineKey
	keyType string
}

func newLineSet() *lineSet {
	return &lineSet{names: map[lineKey][]string{}, keys: map[string][]string{}, wildcards: map[string][]wildcardLine{}}
}

func (s *lineSet) add(name string, line lineKey, keyType string) {
	s.names[line] = append(s.names[line], name)
	s.keys[name] = append(s.keys[name], keyType)
	if isWildcard(name) {
		s.wildcards[name] = append(s.wildcards[name], wildcardLine{line, keyType})
	}
}

// exceptions returns the filters that keep wildcards from names that have a certificate of their own, but none with a
// key of that type. Without, HAProxy would take an ECDSA certificate of a wildcard before an RSA one of the name
// itself, and with it the wrong listener's options.
func (s *lineSet) exceptions() map[lineKey][]string {
	filters := map[lineKey][]string{}
	for name, keys := range s.keys {
		_, below, _ := strings.Cut(name, ".")
		if isWildcard(name) {
			continue
		}
		for _, wildcard := range s.wildcards["*."+below] {
			if !slices.Contains(keys, wildcard.keyType) {
				filters[wildcard.lineKey] = append(filters[wildcard.lineKey], name)
			}
		}
	}
	return filters
}

// mostNames and mostBytes are about how many names a line has, and how many bytes they have: HAProxy reads lines of up
// to 64 KiB and 2,048 words.
const (
	mostNames = 256
	mostBytes = 8 << 10
)

func (s *lineSet) lines() []ir.CertificateLine {
	exceptions := s.exceptions()
	var lines []ir.CertificateLine
	compare := func(a, b lineKey) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.options, b.options)) }
	for _, key := range slices.SortedFunc(maps.Keys(s.names), compare) {
		for _, names := range parted(s.names[key]) {
			line := ir.CertificateLine{File: key.file, Options: key.options}
			slices.Sort(names)
			below := map[string]bool{}
			for _, name := range names {
				line.Filters = append(line.Filters, ir.Quote(name, ir.InConfig+"![]"))
				below[name] = true
			}
			for _, name := range slices.Sorted(slices.Values(exceptions[key])) {
				if _, rest, _ := strings.Cut(name, "."); below["*."+rest] {
					line.Filters = append(line.Filters, "!"+ir.Quote(name, ir.InConfig+"![]"))
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// parted divides names among lines, so that one more changes few lines.
func parted(names []string) [][]string {
	parts, bytes := 1, 0
	for _, name := range names {
		bytes += len(name) + 1
	}
	for len(names) > 2*mostNames*parts || bytes > 2*mostBytes*parts {
		parts *= 2
	}
	if parts == 1 {
		return [][]string{names}
	}
	all := make([][]string, parts)
	for _, name := range names {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name)) // which never fails
		part := int(h.Sum32()) & (parts - 1)
		all[part] = append(all[part], name)
	}
	return slices.DeleteFunc(all, func(part []string) bool { return len(part) == 0 })
}

// addCertificates adds the lists of certificates, and the listener for each name.
func (r *Renderer) addCertificates() {
	r.ofPorts = r.portCertificates()
	var entries tree.Editor[string]
	for number, port := range r.ofPorts {
		if len(port.list.Lines) > 0 {
			r.sections.Certificates[certificateList(number)] = port.list
		}
		for name, identity := range port.names {
			entries.Set(ir.NameKey(number, name), identity)
		}
	}
	r.sections.Maps[ir.NamesFile] = entries.Map()
	for _, of := range r.secured {
		if of.isServed {
			r.sections.Demands[of.identity] = of.demands
		}
	}
}

// hasCertificates reports whether a port has any: otherwise, it is not bound.
func (r *Renderer) hasCertificates(port int32) bool {
	return r.ofPorts[port] != nil && len(r.ofPorts[port].list.Lines) > 0
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

// addAuthorities adds the files of CA certificates that listeners and backends use.
func (r *Renderer) addAuthorities() {
	for i := range r.in.Table.Listeners {
		listener := &r.in.Table.Listeners[i]
		if of := r.secured[listener.Name]; of.isServed && of.demands.Authority != "" && r.sections.Authorities[of.demands.Authority] == nil {
			r.sections.Authorities[of.demands.Authority] = authority(r.in, listener.TLS.ClientCAs)
		}
	}
	for name, content := range r.causes.authorities.All() {
		r.sections.Authorities[name] = []byte(content)
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
