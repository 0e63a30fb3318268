package config

import (
	"fmt"
	"hash/fnv"
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
func (c Config) Files() map[string][]byte { return c.FilesAfter(Config{}, nil) }

// FilesAfter makes the same as Files, and shares haproxy.cfg with an earlier configuration, which is given, if it has the same.
func (c Config) FilesAfter(before Config, configBefore []byte) map[string][]byte {
	files := map[string][]byte{ConfigFile: configBefore}
	if configBefore == nil || !c.hasSameSections(before) {
		files[ConfigFile] = c.configFile()
	}
	for name, entries := range c.Maps {
		size := 0
		for _, entry := range entries {
			size += len(entry.Key) + len(entry.Value) + len(" \n")
		}
		content := make([]byte, 0, size)
		for _, entry := range entries {
			content = append(content, entry.Key...)
			content = append(content, ' ')
			content = append(content, entry.Value...)
			content = append(content, '\n')
		}
		files[name] = content
	}
	maps.Copy(files, c.Static)
	return files
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
// it is the same in every proxy, and stays when others come and go. HAProxy 2.6 gives a server that is added at run time its
// number too late, so that all of those would take the same place, and only one be seen there.
func ServerID(s Server) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ServerName(s))) // which never fails
	return h.Sum32()&0x3fffffff + 1
}
