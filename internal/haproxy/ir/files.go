package ir

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/certificates"
)

// The files of a configuration, in Paths.ConfigDir.
const (
	ConfigFile = "haproxy.cfg"
	// LoadFile is read before ConfigFile: a HAProxy that reads one of an old configuration and the other of a new one
	// shows the old load ID, and is not taken for one that runs the new.
	LoadFile = "load.cfg"

	// HostsFile leads from a port and a host to a listener and the names of contents in PathsFile. See package render
	// for all maps.
	HostsFile      = "hosts.map"
	PathsFile      = "paths.map"
	ConditionsFile = "conditions.map"
	ListsFile      = "lists.map"
	SplitsFile     = "splits.map"
	FiltersFile    = "filters.map"
	AddressesFile  = "addresses.map"
	// KeysFile has the keys that tokens are signed with.
	KeysFile = "keys.map"
	// KeySetsFile leads from where keys are to the name of their content in KeysFile.
	KeySetsFile = "keysets.map"

	// NamesFile leads from a port and a server name to the identity of the listener whose certificates are shown for it.
	NamesFile = "names.map"
	HSTSFile  = "hsts.map"
	// PodsFile has the ids of the pods whose requests count together, under PodsKey.
	PodsFile = "pods.map"
	// ClaimsFile is the program that reads what HAProxy cannot read of a token.
	ClaimsFile = "claims.lua"
	// ExchangeFile is the program by which others send requests.
	ExchangeFile = "exchange.lua"
	// MirrorFile is the program that copies requests.
	MirrorFile = "mirror.lua"
	// AuthFile is the program that asks Services about requests.
	AuthFile = "auth.lua"
	// WAFFile is the program that asks gateway-waf about requests.
	WAFFile = "waf.lua"
	// OverrideFile is the program that asks Services for answers in place of errors.
	OverrideFile = "override.lua"
	// BodyFile is the program that counts bodies of unknown length.
	BodyFile = "body.lua"
)

// CPULimit is the environment variable that tells HAProxy how many CPUs its container may use.
const CPULimit = "CPU_LIMIT"

// KeysBackend is the section that has HAProxy read the keys that tokens are signed with. No request gets there.
const KeysBackend = "jwt-keys"

// CheckBackend is the backend by which gateway-keys asks HAProxy whether it can use a certificate: a server there gets
// it. It has servers only for a moment.
const CheckBackend = "certificates"

// HandoverSuffix ends the name of a backend that leads to the frontend of a port that terminates TLS.
const HandoverSuffix = ".tls"

// UsersBackend is the backend by which HAProxy asks gateway-keys about users and their passwords. The parameters of a
// question are the name of the Secret and the realm of the challenge. RoomHeader is the header for whose question it
// is: each has a turn. TeamHeader is the header for the namespace of its rule, if that is not the Gateway's.
// ClientHeader is the header of the answer for the user.
const (
	UsersBackend    = "users"
	SecretParameter = "secret"
	RealmParameter  = "realm"
	RoomHeader      = "gateway-room"
	TeamHeader      = "gateway-team"
	ClientHeader    = "gateway-client"
)

// LoginBackend is the backend by which HAProxy asks gateway-login about sessions: see login.Settings.
const LoginBackend = "login"

// Paths are the files and sockets of one HAProxy, as absolute paths of letters, digits and "/._-": HAProxy's
// expressions cannot quote anything else.
type Paths struct {
	// ConfigDir holds the files of the configuration.
	ConfigDir string
	// RunDir holds the sockets.
	RunDir string
	// CertificateDir holds a directory for each Secret with certificates.
	CertificateDir string
	// KeysSocket is the socket of the command line by which gateway-keys hands certificates over; "" where it does not
	// run.
	KeysSocket string
	// LoginSocket is the socket where gateway-login is asked about sessions; "" where it does not run.
	LoginSocket string
	// WAFSocket is the socket where gateway-waf is asked about requests; "" where it does not run.
	WAFSocket string
	// UsersSocket is the socket where gateway-keys is asked about users; "" where it does not run.
	UsersSocket string
	// RelaySocket is the socket where gateway-keys takes connections to endpoints that it verifies; "" where it does not
	// run.
	RelaySocket string
}

// Map returns the path of a map file. It is also the name of the map in runtime commands.
func (p Paths) Map(file string) string { return p.ConfigDir + "/" + file }

// APIKeysMap returns the name of the map with keys of clients, which gateway-keys keeps: from HASH/SECRET to the name
// of a client. SECRET has an entry, too, if it has any keys. HAProxy reads the file if there is one.
func (p Paths) APIKeysMap() string { return "opt@" + p.CertificateDir + "/" + certificates.APIKeysMap }

// SessionKeysMap returns the name of the map with keys of sessions, which gateway-keys keeps: from ID/SECRET to a key.
// HAProxy reads the file if there is one.
func (p Paths) SessionKeysMap() string {
	return "opt@" + p.CertificateDir + "/" + certificates.SessionKeysMap
}

// PeersSocket returns the path of the socket where HAProxy receives the counts of other pods.
func (p Paths) PeersSocket() string { return p.RunDir + "/peers.sock" }

// PodsSocket returns the path of the socket where HAProxy sends its counts, for each of the other pods.
func (p Paths) PodsSocket() string { return p.RunDir + "/pods.sock" }

// WorkerSocket returns the path of the socket of the worker's command line.
func (p Paths) WorkerSocket() string { return p.RunDir + "/worker.sock" }

// RequestsSocket returns the path of the socket where HAProxy sends a line about each request, to be measured.
func (p Paths) RequestsSocket() string { return p.RunDir + "/requests.sock" }

// TracesSocket returns the path of the socket where HAProxy sends a line about each sampled request.
func (p Paths) TracesSocket() string { return p.RunDir + "/traces.sock" }

// WatchedSocket returns the path of the socket where HAProxy sends the access log's lines about watched routes.
func (p Paths) WatchedSocket() string { return p.RunDir + "/watched.sock" }

// MirrorSocket returns the path of the socket that takes copies of requests.
func (p Paths) MirrorSocket() string { return p.RunDir + "/mirror.sock" }

// OverrideSocket returns the path of the socket that takes questions for answers in place of errors.
func (p Paths) OverrideSocket() string { return p.RunDir + "/override.sock" }

// AuthSocket returns the path of the socket that takes questions about requests.
func (p Paths) AuthSocket() string { return p.RunDir + "/auth.sock" }

// BodySocket returns the path of the socket that takes requests whose bodies are counted.
func (p Paths) BodySocket() string { return p.RunDir + "/body.sock" }

// TLSSocket returns the path of the socket for connections of a port whose TLS is terminated, where TLS is also passed
// through.
func (p Paths) TLSSocket(port int32) string { return fmt.Sprintf("%s/tls-%d.sock", p.RunDir, port) }

// LoadContent returns the content of LoadFile for a Gateway. HAProxy shows the load ID in the description that "show
// info" prints, as "load=ID". So one can tell that a new worker runs the files beside it. It is in a file of its own
// because the other files are large, and most of them stay the same after a change.
func LoadContent(namespace, name, id string) []byte {
	return fmt.Appendf(nil, "global\n    description \"gateway %s/%s load=%s\"\n", Quote(namespace, InConfig), Quote(name, InConfig), Quote(id, InConfig))
}

// FileNames returns the names of all files but LoadFile, sorted.
func (c Config) FileNames() []string {
	names := slices.Concat(slices.Collect(maps.Keys(c.Files)), slices.Collect(maps.Keys(c.Authorities)), slices.Collect(maps.Keys(c.Certificates)))
	names = append(names, ConfigFile, ConditionsFile, PathsFile, ListsFile, SplitsFile, FiltersFile, AddressesFile, KeysFile)
	return slices.Compact(slices.Sorted(slices.Values(append(names, slices.Collect(maps.Keys(c.Maps))...))))
}

func sortedKeys[V any](all map[string]V) []string {
	keys := slices.AppendSeq(make([]string, 0, len(all)), maps.Keys(all))
	slices.Sort(keys)
	return keys
}

// backendText returns the section of a backend.
func backendText(name string, backend *Backend) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "\nbackend %s from %s\n", name, backend.Defaults)
	settings := backend.Settings
	if settings.CookieKey != "" {
		fmt.Fprintf(b, "    dynamic-cookie-key %s\n", settings.CookieKey)
	}
	if settings.Options != "" {
		fmt.Fprintf(b, "    default-server %s\n", settings.Options)
	}
	var ids []uint32
	for _, server := range backend.Servers {
		id := ServerID(server)
		for slices.Contains(ids, id) {
			id++
		}
		ids = append(ids, id)
		address, options := settings.address(server)
		fmt.Fprintf(b, "    server %s %s id %d%s%s\n", ServerName(server), address, id, server.options(), options)
	}
	return b.String()
}

// ServerName returns the name of a server in its backend, from which its address and port can be read: 10.0.0.1_8080,
// fd00::1_8080.
//
// A backup has another name, so that an endpoint which becomes one is another server: the options of a server never
// change.
func ServerName(s Server) string {
	name := Quote(s.Address, InConfig) + "_" + strconv.Itoa(int(s.Port))
	if s.Backup {
		name += "_backup"
	}
	return name
}

// options returns the options that not all servers of a backend have, with a space before them.
func (s Server) options() string {
	if s.Backup {
		return " backup"
	}
	return ""
}

// AddServer returns the command that adds the server to a backend at run time.
func AddServer(backend string, s Server, settings ServerSettings) string {
	address, options := settings.address(s)
	if settings.Options != "" {
		options += " " + settings.Options
	}
	return fmt.Sprintf("add server %s/%s %s id %d%s%s", backend, ServerName(s), address, ServerID(s), s.options(), options)
}

// ServerAddress returns the address of a server as a server line and the command "add server" want it: 10.0.0.1:8080,
// [fd00::1]:8080.
func ServerAddress(s Server) string {
	address := Quote(s.Address, InConfig)
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return address + ":" + strconv.Itoa(int(s.Port))
}

// ServerID returns the number of a server in its backend, unless another server has it. HAProxy spreads requests by it:
// it is the same in every proxy, and stays when other servers come and go. Otherwise HAProxy would number a server that
// is added at run time too late: all such servers would take the same place, and only one of them would get requests.
func ServerID(s Server) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ServerName(s))) // which never fails
	return h.Sum32()&0x3fffffff + 1
}
