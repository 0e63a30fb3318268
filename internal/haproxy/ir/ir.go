// Package ir is HAProxy's configuration as data: sections, backends with their servers, and maps. It is rendered from
// the routing table (package render), written to files (files.go), and compared with what runs (package plan). It is
// never read back from text.
package ir

import (
	"cmp"
	"slices"
	"strings"

	"gateway/internal/routing"
	"gateway/internal/tree"
)

// Config is everything that HAProxy runs by, divided by how it is changed. It is immutable. Configurations that were
// made one of the other share most of their parts, which are the same pointers.
type Config struct {
	// Sections are the sections of haproxy.cfg but for Backends, in the order of the file. A change of them takes a
	// reload.
	Sections []Section
	// Backends are the backends of Service ports, by name. They are added and deleted at run time.
	Backends tree.Map[*Backend]
	// Contents are entries of map files that never change: each content is named after what is in it. New ones are
	// added before anything refers to them, and deleted once nothing does. The keys are from ContentKey.
	Contents tree.Map[*Content]
	// Lists are the lists of regular expressions in ConditionsFile, by name. They are named after what is in them, too.
	Lists tree.Map[*List]
	// Maps are the entries, by key, of the map files whose entries change one by one.
	Maps map[string]tree.Map[string]
	// Certificates are the lists of certificates, by the name of the file.
	Certificates map[string]CertificateList
	// Demands are what listeners demand of TLS connections, by the identities that NamesFile leads to.
	Demands map[string]Demands
	// Held are the names, by their keys in NamesFile, whose connections are made for another listener already, though
	// NamesFile still leads to the one before, with the identities that it is to lead to. It is of what runs alone.
	Held map[string]string
	// Authorities are files with CA certificates, by name. They are added at run time, and named after their content.
	Authorities map[string][]byte
	// Files are the files that HAProxy reads at a load only, by name: keys of tokens, programs.
	Files map[string][]byte
}

// CertificateList is the list of the certificates of a port.
type CertificateList struct {
	// First is the first line, which is for no name: clients that ask for a name of no other line get its certificate.
	// Nil: they are refused.
	First *CertificateLine
	// Lines are the others, by their texts.
	Lines tree.Map[*CertificateLine]
}

// NewCertificateList returns a list of lines. The first may be for no name.
func NewCertificateList(first *CertificateLine, lines ...CertificateLine) CertificateList {
	var all tree.Editor[*CertificateLine]
	for i := range lines {
		all.Set(lines[i].String(), &lines[i])
	}
	return CertificateList{first, all.Map()}
}

// All returns the lines in the order of the file.
func (l CertificateList) All() []CertificateLine {
	all := make([]CertificateLine, 0, l.Lines.Len()+1)
	if l.First != nil {
		all = append(all, *l.First)
	}
	for line := range l.Lines.Values() {
		all = append(all, *line)
	}
	return all
}

// CertificateLine is a certificate in a list.
type CertificateLine struct {
	// File is its path.
	File string
	// Options are the TLS settings of the listeners.
	Options string
	// Filters are the names that it is shown for, and those after a "!" that it is not shown for.
	Filters []string
}

// String returns the line of the file.
func (l CertificateLine) String() string {
	return strings.TrimSuffix(l.File+" ["+l.Options+"] "+strings.Join(l.Filters, " "), " ")
}

// Backend is the backend of a Service port. Its name identifies all settings, so only its servers change.
type Backend struct {
	// Of is the Service port.
	Of routing.Backend
	// Defaults is the name of the defaults section that it takes everything from.
	Defaults string
	// Mode is "http" or "tcp".
	Mode string
	// Settings are the settings of each of its servers.
	Settings ServerSettings
	// Servers are sorted, each once.
	Servers []Server
}

// ServerSettings are the settings of a server.
type ServerSettings struct {
	// Options follow the address.
	Options string
	// Check reports whether health checks have to be switched on for a server that is added at run time.
	Check bool
	// CookieKey is the dynamic-cookie-key of the backend; "": it has none.
	CookieKey string
	// Relay is the socket of gateway-keys, which connects to the server; "": HAProxy does.
	Relay string
}

// Server is one endpoint of a Service.
type Server struct {
	// Address is an IPv4 or IPv6 address in the form netip.Addr prints.
	Address string
	// Port is the port on that address, 1 to 65535.
	Port int32
	// Backup reports whether it takes requests only while no other server of the backend can.
	Backup bool
}

// MapEntry is one line of a map file.
type MapEntry struct{ Key, Value string }

// Content is a group of entries of a map file that belong together.
type Content struct {
	// File is the name of the map file.
	File    string
	Entries []MapEntry
}

// ContentKey returns the key of the content with a name in a map file.
func ContentKey(file, name string) string { return file + " " + name }

// List is a list of regular expressions. The first that matches counts.
type List struct {
	Expressions []string
	// Value is what is found then, with \1 and so on for groups of the expression; "": the number of the expression.
	Value string
}

// CompareServers orders servers by address, then port, backups last.
func CompareServers(a, b Server) int {
	switch c := cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port)); {
	case c != 0 || a.Backup == b.Backup:
		return c
	case b.Backup:
		return -1
	}
	return 1
}

// SortServers returns the servers sorted, each address and port once, rather not as a backup: the slice itself if it is
// so already.
func SortServers(servers []Server) []Server {
	isSame := func(a, b Server) bool { return a.Address == b.Address && a.Port == b.Port }
	for i := 1; i < len(servers); i++ {
		if CompareServers(servers[i-1], servers[i]) >= 0 || isSame(servers[i-1], servers[i]) {
			return slices.CompactFunc(slices.SortedFunc(slices.Values(servers), CompareServers), isSame)
		}
	}
	return servers
}

// WithServers returns a copy of the backend with other servers, in any order.
func (b Backend) WithServers(servers []Server) *Backend {
	b.Servers = SortServers(servers)
	return &b
}
