package config

import (
	"bytes"
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
)

// MapPath returns the path of the map file. It is also the name of the map in runtime commands.
func (p Paths) MapPath() string { return p.ConfigDir + "/" + MapFile }

// WorkerSocket returns the path of the socket of the worker's command line.
func (p Paths) WorkerSocket() string { return p.RunDir + "/worker.sock" }

// Files returns the content of every file, by name. HAProxy shows the load ID in the description that "show info" prints, as
// "load=ID", by which one can tell that a new worker runs these files.
func (c Config) Files(loadID string) map[string][]byte { return c.FilesAfter(loadID, Config{}, nil) }

// FilesAfter makes the same as Files. If haproxy.cfg differs in nothing but the load ID from that of an earlier configuration, which is
// given, it takes much less time.
func (c Config) FilesAfter(loadID string, before Config, configBefore []byte) map[string][]byte {
	files := map[string][]byte{ConfigFile: c.configFile(loadID, before, configBefore)}
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

// configFile returns the skeleton with the load ID, and with the servers of each backend section at its end.
func (c Config) configFile(loadID string, before Config, configBefore []byte) []byte {
	global, rest, _ := strings.Cut(c.Skeleton, "\n\n")
	cfg := make([]byte, 0, max(len(c.Skeleton)*3/2, len(configBefore)+len(loadID)))
	cfg = append(cfg, strings.Replace(global, loadPlace, " load="+quote(loadID, inConfig)+`"`, 1)...)
	if configBefore != nil && c.hasSameSections(before) {
		return append(cfg, configBefore[bytes.Index(configBefore, []byte("\n\n")):]...)
	}
	for section := range strings.SplitSeq(rest, "\n\n") {
		cfg = append(cfg, "\n\n"...)
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
