package config

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The files of a configuration, in Paths.ConfigDir.
const (
	ConfigFile = "haproxy.cfg"
	MapFile    = "routes.map"
	// LoadFile is read before ConfigFile: a HAProxy that reads one of an old configuration and the other of a new one shows the old load
	// ID, and is not taken for one that runs the new.
	LoadFile = "load.cfg"
)

// MapPath returns the path of the map file. It is also the name of the map in runtime commands.
func (p Paths) MapPath() string { return p.ConfigDir + "/" + MapFile }

// WorkerSocket returns the path of the socket of the worker's command line.
func (p Paths) WorkerSocket() string { return p.RunDir + "/worker.sock" }

// LoadContent returns the content of LoadFile, for the Gateway of a namespace and name. HAProxy shows the load ID in the description that
// "show info" prints, as "load=ID", by which one can tell that a new worker runs the files beside it. It is in a file of its own because
// the other files are large, and most of them the same after a change.
func LoadContent(namespace, name, id string) []byte {
	return fmt.Appendf(nil, "global\n    description \"gateway %s/%s load=%s\"\n", quote(namespace, inConfig), quote(name, inConfig), quote(id, inConfig))
}

// Files returns the content of every file but LoadFile, by name.
func (c Config) Files() map[string][]byte {
	files := map[string][]byte{}
	for name, source := range c.Sources() {
		var content bytes.Buffer
		_ = source.Write(&content) // a buffer takes everything
		files[name] = content.Bytes()
	}
	return files
}

// Source is what a file is made of. Its content is made only when it is written: most files are the same after a change, and some large.
type Source struct {
	// One of these is set.
	config  *Config
	routes  RouteMap
	entries []MapEntry
	content []byte
}

// Sources returns what every file but LoadFile is made of, by name.
func (c Config) Sources() map[string]Source {
	sources := map[string]Source{ConfigFile: {config: &c}, MapFile: {routes: c.Routes}}
	for name, entries := range c.Maps {
		sources[name] = Source{entries: entries}
	}
	for name, content := range c.Static {
		sources[name] = Source{content: content}
	}
	return sources
}

// SourceOf returns the source of a content that is there already.
func SourceOf(content []byte) Source { return Source{content: content} }

// Equal says whether two sources of one file make the same content. That they do not may be said of some that do.
func (s Source) Equal(other Source) bool {
	if s.config != nil && other.config != nil {
		return s.config.hasSameSections(*other.config)
	}
	return s.config == other.config && slices.Equal(s.routes.blocks, other.routes.blocks) && slices.Equal(s.entries, other.entries) &&
		bytes.Equal(s.content, other.content)
}

// Write writes the content. An error is that of the writer.
func (s Source) Write(to io.Writer) error {
	content := s.content
	switch {
	case s.config != nil:
		content = s.config.configFile()
	case len(s.routes.blocks) > 0:
		return s.routes.writeTo(to)
	case len(s.entries) > 0:
		content = linesOf(s.entries)
	}
	_, err := to.Write(content)
	return err
}

// linesOf returns the lines of entries in a map file.
func linesOf(entries []MapEntry) []byte {
	size := 0
	for _, entry := range entries {
		size += len(entry.Key) + len(" ") + len(entry.Value) + len("\n")
	}
	lines := make([]byte, 0, size)
	for _, entry := range entries {
		lines = append(append(append(append(lines, entry.Key...), ' '), entry.Value...), '\n')
	}
	return lines
}

// configFile returns the skeleton with the servers of each backend section at its end.
func (c Config) configFile() []byte {
	cfg := make([]byte, 0, len(c.Skeleton)*3/2)
	for section := range strings.SplitSeq(c.Skeleton, "\n\n") {
		if len(cfg) > 0 {
			cfg = append(cfg, "\n\n"...)
		}
		cfg = append(cfg, strings.TrimSuffix(section, "\n")...)
		if name, ok := backendSection(section); ok {
			servers, options := c.serversOf(name)
			cfg = appendServers(cfg, servers, options)
		}
	}
	return append(cfg, '\n')
}

// hasSameSections says whether haproxy.cfg has the same sections with the same servers for two configurations.
func (c Config) hasSameSections(other Config) bool {
	return c.Skeleton == other.Skeleton && c.Servers.equal(other.Servers) &&
		slices.Equal(c.Maps[SparesFile], other.Maps[SparesFile]) && maps.Equal(c.Settings, other.Settings)
}

// appendServers appends a line for each server.
func appendServers(cfg []byte, servers []Server, options string) []byte {
	var ids []uint32
	for _, server := range servers {
		id := ServerID(server)
		for slices.Contains(ids, id) {
			id++
		}
		ids = append(ids, id)
		cfg = append(cfg, "\n    server "+ServerName(server)+" "+ServerAddress(server)+" id "...)
		cfg = strconv.AppendUint(cfg, uint64(id), 10)
		if options != "" {
			cfg = append(cfg, " "+options...)
		}
	}
	return cfg
}

// ServerName returns the name of a server in its backend section, from which its address and port can be read:
// 10.0.0.1_8080, fd00::1_8080.
func ServerName(s Server) string {
	return quote(s.Address, inConfig) + "_" + strconv.Itoa(int(s.Port))
}

// ServerAddress returns the address of a server as a server line and the command "add server" want it: 10.0.0.1:8080,
// [fd00::1]:8080.
func ServerAddress(s Server) string {
	address := quote(s.Address, inConfig)
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return address + ":" + strconv.Itoa(int(s.Port))
}

// ServerID returns the number of a server in its backend section, unless another one has it there. By it HAProxy spreads requests:
// it is the same in every proxy, and stays when others come and go. Without it, HAProxy would give a server that is added at run time its
// number too late, so that all of those would take the same place, and only one be seen there.
func ServerID(s Server) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ServerName(s))) // which never fails
	return h.Sum32()&0x3fffffff + 1
}
