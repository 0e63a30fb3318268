package render

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"gateway/internal/certificates"
	"gateway/internal/few"
	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
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
	// options are the options of its lines in the list of certificates.
	options string
	demands ir.Demands
	// isServed reports whether it has a certificate, and the CA certificates for its clients.
	isServed bool
}

// needsClient begins the identity of a listener whose clients need a certificate.
const needsClient = "+"

// identity returns the identity of a listener, "" if it does not terminate TLS.
func (r *Renderer) identity(listener string) string {
	if of := r.secured[listener]; of != nil {
		return of.identity
	}
	return ""
}

// secure returns the known state of a listener that terminates TLS.
func (r *Renderer) secure(listener *routing.Listener) *secured {
	key := strings.Join(listener.TLS.ClientCAs, " ")
	if _, ok := r.signers[key]; !ok {
		r.signers[key] = authority(r.in, listener.TLS.ClientCAs)
	}
	return newSecured(r.in, listener, r.signers[key])
}

func newSecured(in Input, listener *routing.Listener, authority []byte) *secured {
	s := &secured{
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
	// first is the line for no name, nil if there is none: a listener for every hostname has it.
	first *ir.CertificateLine
	lineSet
}

// notConnected stands in for a listener whose hostname has no certificate.
const notConnected = "."

// contribution is what a listener adds to the lists of certificates, and to what goes with them.
type contribution struct {
	port int32
	// names are keys in NamesFile, and lines the names of the list.
	names []string
	lines []lineName
	of    *secured
}

// contribute adds what a listener has of certificates.
//
// The first line of a port that has a listener for every hostname is for no name: HAProxy shows its certificate to
// clients that ask for a name of no other line, or for none.
func (r *Renderer) contribute(listener *knownListener) {
	of := r.secured[listener.Name]
	made := &contribution{port: listener.Port, of: of}
	r.contributions[listener.Name] = made
	port := r.ofPorts[listener.Port]
	if port == nil {
		port = &tlsPort{lineSet: newLineSet()}
		r.ofPorts[listener.Port] = port
	}
	name := func(name, identity string) {
		key := ir.NameKey(listener.Port, name)
		if n := len(made.names); n == 0 || made.names[n-1] != key { // it is connected now, and was not
			made.names = append(made.names, key)
		}
		r.names.Set(key, identity)
	}
	if listener.Hostname != "" && !isWildcard(listener.Hostname) {
		name(listener.Hostname, notConnected)
	}
	if hsts := listener.TLS.HSTS; hsts != "" {
		r.hsts.Set(of.identity, ir.Quote(hsts, "%;"+ir.InConfig))
	}
	if !of.isServed {
		return
	}
	r.demands[of.identity] = of.demands
	count(r.signed, of.demands.Authority, 1)
	for i, certificate := range listener.certificates {
		line := lineKey{certificatePath(r.in.Paths, certificate.Secret), of.options}
		if i == 0 && listener.Hostname == "" {
			name(ir.AnyName, of.identity)
			port.first = &ir.CertificateLine{File: line.file, Options: line.options, Filters: []string{"!*"}}
		}
		for _, host := range certificate.Names {
			if owner := r.in.Table.ListenerFor(listener.Port, host); owner != nil && owner.Name == listener.Name {
				name(host, of.identity)
				made.lines = append(made.lines, lineName{host, wildcardLine{line, certificate.KeyType}})
				port.change(made.lines[len(made.lines)-1], 1)
			}
		}
	}
}

// withdraw removes what a listener has of certificates.
func (r *Renderer) withdraw(listener string) {
	made := r.contributions[listener]
	if made == nil {
		return
	}
	delete(r.contributions, listener)
	port := r.ofPorts[made.port]
	for _, key := range made.names {
		if r.names.Delete(key); key == ir.NameKey(made.port, ir.AnyName) {
			port.first = nil
		}
	}
	for _, line := range made.lines {
		port.change(line, -1)
	}
	r.hsts.Delete(made.of.identity)
	if made.of.isServed {
		delete(r.demands, made.of.identity)
		count(r.signed, made.of.demands.Authority, -1)
	}
}

// updateCertificates has those listeners contribute anew that changed, or for whose names others are there: the next
// one for more hosts.
func (r *Renderer) updateCertificates(changed []*knownListener) {
	names := map[string]bool{}
	for _, listener := range changed {
		names[listener.Name] = true
		if wider := model.WiderHostnames(listener.Hostname); len(wider) > 1 {
			if owner := r.in.Table.ListenerFor(listener.Port, wider[1]); owner != nil {
				names[owner.Name] = true
			}
		}
	}
	for name := range names {
		r.withdraw(name)
	}
	for name := range names {
		if listener := r.known[name]; listener != nil && listener.TLS != nil {
			r.contribute(listener)
		}
	}
	for _, port := range r.ofPorts {
		port.update()
	}
}

// count adds to a number. Those that are zero are not there.
func count[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// lineKey is what a line of a list has beside its names.
type lineKey struct{ file, options string }

// wildcardLine is a line, and the type of its key.
type wildcardLine struct {
	lineKey
	keyType string
}

// lineName is a name of a line.
type lineName struct {
	name string
	wildcardLine
}

// lineSet are the lines of a list. Names with one certificate and the same options share lines: each takes memory.
type lineSet struct {
	// names are the server names of each line, and made the texts that they became. stale are the lines to make anew.
	names map[lineKey]few.Counts[string]
	made  map[lineKey][]string
	stale map[lineKey]bool
	lines tree.Editor[*ir.CertificateLine]
	// keys are the types of the keys that there are for a name, wildcards the lines of a wildcard, and below the names
	// that it includes.
	keys      map[string]few.Counts[string]
	wildcards map[string]few.Counts[wildcardLine]
	below     map[string]few.Counts[string]
}

func newLineSet() lineSet {
	return lineSet{
		names: map[lineKey]few.Counts[string]{}, made: map[lineKey][]string{}, stale: map[lineKey]bool{}, keys: map[string]few.Counts[string]{},
		wildcards: map[string]few.Counts[wildcardLine]{}, below: map[string]few.Counts[string]{},
	}
}

// change counts a name, once more or less.
func (s *lineSet) change(of lineName, n int) {
	few.In(s.names, of.lineKey, of.name, n)
	few.In(s.keys, of.name, of.keyType, n)
	if s.stale[of.lineKey] = true; isWildcard(of.name) {
		few.In(s.wildcards, of.name, of.wildcardLine, n)
		return
	}
	_, rest, _ := strings.Cut(of.name, ".")
	few.In(s.below, "*."+rest, of.name, n)
	for line := range s.wildcards["*."+rest].All() {
		s.stale[line.lineKey] = true
	}
}

// exceptions returns the names that a wildcard must not be shown for by a line: they have a certificate of their own,
// but none with a key of that type. Without, HAProxy would take an ECDSA certificate of a wildcard before an RSA one of
// the name itself, and with it the wrong listener's options.
func (s *lineSet) exceptions(wildcard string, key lineKey) []string {
	all := map[string]bool{}
	for line := range s.wildcards[wildcard].All() {
		if line.lineKey != key {
			continue
		}
		for name := range s.below[wildcard].All() {
			if s.keys[name].Of(line.keyType) == 0 {
				all[name] = true
			}
		}
	}
	return slices.Collect(maps.Keys(all))
}

// mostNames and mostBytes are about how many names a line has, and how many bytes they have: HAProxy reads lines of up
// to 64 KiB and 2,048 words.
const (
	mostNames = 256
	mostBytes = 8 << 10
)

// update makes the lines anew that are stale.
func (s *lineSet) update() {
	for key := range s.stale {
		for _, text := range s.made[key] {
			s.lines.Delete(text)
		}
		delete(s.made, key)
		for _, names := range parted(slices.Sorted(s.names[key].All())) {
			line := &ir.CertificateLine{File: key.file, Options: key.options}
			var exceptions []string
			for _, name := range names {
				line.Filters = append(line.Filters, ir.Quote(name, ir.InConfig+"![]"))
				if isWildcard(name) {
					exceptions = append(exceptions, s.exceptions(name, key)...)
				}
			}
			slices.Sort(exceptions)
			for _, name := range exceptions {
				line.Filters = append(line.Filters, "!"+ir.Quote(name, ir.InConfig+"![]"))
			}
			text := line.String()
			s.lines.Set(text, line)
			s.made[key] = append(s.made[key], text)
		}
	}
	s.stale = map[lineKey]bool{} // it was as large as the largest change
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
	for number, port := range r.ofPorts {
		if r.hasCertificates(number) {
			r.sections.Certificates[certificateList(number)] = ir.CertificateList{First: port.first, Lines: port.lines.Map()}
		}
	}
	r.sections.Maps[ir.NamesFile], r.sections.Maps[ir.HSTSFile] = r.names.Map(), r.hsts.Map()
	r.sections.Demands = maps.Clone(r.demands)
}

// hasCertificates reports whether a port has any: otherwise, it is not bound.
func (r *Renderer) hasCertificates(port int32) bool {
	of := r.ofPorts[port]
	return of != nil && (of.first != nil || len(of.names) > 0)
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
	for _, content := range r.signers {
		if name := authorityName(content); len(content) > 0 && r.signed[name] > 0 {
			r.sections.Authorities[name] = content
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

// acceptsUnverified reports whether a port accepts invalid client certificates, which backends do not see.
func acceptsUnverified(in Input, port int32) bool {
	return slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool {
		return l.Port == port && l.TLS != nil && l.TLS.ClientUnverified
	})
}
