package config

import (
	"bytes"
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

// Files returns the content of ConfigFile and MapFile, by name. HAProxy shows the load ID in the description that "show
// info" prints, as "load=ID", by which one can tell that a new worker runs these files.
func (c Config) Files(loadID string) map[string][]byte {
	var cfg bytes.Buffer
	for line := range strings.Lines(c.Skeleton) {
		if strings.HasPrefix(line, descriptionPrefix) {
			line = strings.Replace(line, loadPlace, " load="+quote(loadID, inConfig)+`"`, 1)
		}
		cfg.WriteString(line)
		if section, ok := backendSection(line); ok {
			for _, server := range c.Servers[section] {
				cfg.WriteString("    server " + ServerName(server) + " " + ServerAddress(server) + "\n")
			}
		}
	}
	var routes bytes.Buffer
	for _, entry := range c.Map {
		routes.WriteString(entry.Key + " " + entry.Value + "\n")
	}
	return map[string][]byte{ConfigFile: cfg.Bytes(), MapFile: routes.Bytes()}
}

// ServerName returns the name of a server in its backend section, from which its address and port can be read:
// 10.0.0.1_8080, fd00::1_8080.
func ServerName(s Server) string {
	return quote(s.Address, inConfig) + "_" + strconv.Itoa(int(s.Port))
}

// ServerAddress returns the address of a server as a server line and the command "add server" want it: 10.0.0.1:8080,
// [fd00::1]:8080. There is nothing after it: a server added at run time has to be like one from the file, and does not
// inherit the options of a default-server line.
func ServerAddress(s Server) string {
	address := quote(s.Address, inConfig)
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return address + ":" + strconv.Itoa(int(s.Port))
}
