package routetrace

import (
	"encoding/json"
	"fmt"
	"strings"

	"gateway/internal/routing"
)

// MaxLooked bounds how many requests of a route a pod compares with a question for the next ones.
const MaxLooked = 1000

// Wanted says which requests are asked for. What is empty asks for all.
type Wanted struct {
	// Hosts are hosts, or what is like *.example.com. Headers are by their names in lower case.
	Hosts   []string          `json:"hosts,omitempty"`
	Path    string            `json:"path,omitempty"`
	Client  string            `json:"client,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Line is what is read of a line of the access log.
type Line struct {
	Route   string            `json:"route"`
	Client  string            `json:"client"`
	Host    string            `json:"host"`
	Path    string            `json:"path"`
	Backend string            `json:"backend"`
	Server  string            `json:"server"`
	Headers map[string]string `json:"requestHeaders"`
}

// Takes reports whether a request is wanted. Of one that is under way, the host may be "": it is not known.
func (w Wanted) Takes(l Line) bool {
	for header, value := range w.Headers {
		if got, ok := l.Headers[header]; !ok || got != value {
			return false
		}
	}
	takesHost := len(w.Hosts) == 0 || l.Host == ""
	for _, host := range w.Hosts {
		takesHost = takesHost || MatchesHost(host, l.Host)
	}
	return takesHost && (w.Client == "" || w.Client == l.Client) && strings.HasPrefix(l.Path, w.Path)
}

// MatchesHost reports whether a host is the wanted one, or below it if that is like *.example.com.
func MatchesHost(wanted, host string) bool {
	wanted = strings.ToLower(wanted)
	if suffix, ok := strings.CutPrefix(wanted, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return host == wanted
}

// Ended returns a line of the access log as the namespace of its route may see it. The endpoint is left out, if no
// Service of the namespace has the backend. Long texts are cut, as clients choose their length. own is the namespace
// of the Gateway.
func Ended(table routing.Table, text []byte, l Line, namespace, own string) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("failed to read a line of the access log: %w", err)
	}
	for name, value := range fields {
		var long string
		if len(value) > maxText && json.Unmarshal(value, &long) == nil {
			fields[name], _ = json.Marshal(long[:min(len(long), maxText)]) // never fails
		}
	}
	isTheirs := false
	for backend := range table.Uses.Backends.Values() {
		isTheirs = isTheirs || isBackendOf(backend, namespace, own, l.Backend)
	}
	if !isTheirs {
		fields["server"] = json.RawMessage(`"-"`)
	}
	return json.Marshal(fields)
}
