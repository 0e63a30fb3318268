package config

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
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
func (c Config) Files(loadID string) map[string][]byte {
	var cfg bytes.Buffer
	var servers []Server
	var options string
	// The servers of a section come after its default-server line.
	endSection := func() {
		taken := map[uint32]bool{}
		for _, server := range servers {
			id := ServerID(server)
			for taken[id] {
				id++
			}
			taken[id] = true
			fmt.Fprintf(&cfg, "    server %s %s id %d", ServerName(server), ServerAddress(server), id)
			if options != "" {
				cfg.WriteString(" " + options)
			}
			cfg.WriteByte('\n')
		}
		servers = nil
	}
	for line := range strings.Lines(c.Skeleton) {
		if strings.HasPrefix(line, descriptionPrefix) {
			line = strings.Replace(line, loadPlace, " load="+quote(loadID, inConfig)+`"`, 1)
		}
		if line == "\n" {
			endSection()
		}
		cfg.WriteString(line)
		if name, ok := backendSection(line); ok {
			servers, options = c.serversOf(name)
		}
	}
	endSection()
	files := map[string][]byte{ConfigFile: cfg.Bytes()}
	for name, entries := range c.Maps {
		var content bytes.Buffer
		for _, entry := range entries {
			content.WriteString(entry.Key + " " + entry.Value + "\n")
		}
		files[name] = content.Bytes()
	}
	maps.Copy(files, c.Static)
	return files
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
