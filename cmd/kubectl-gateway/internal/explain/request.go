package explain

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/routing"
)

// request is the user's request.
type request struct {
	routing.Request
	scheme string
	// hostHeader is the Host header; connected is the name that the client connects to, without the port.
	hostHeader, connected string
	// client is who the filter ClientAddress takes for the client; not valid: that is not known.
	client netip.Addr
	// text is the request in one line.
	text string
}

// protocols are the protocols of the listeners that a URL can be for, with their default ports.
var protocols = map[string]struct {
	port      int32
	listeners []string
}{
	"http":  {80, []string{"HTTP", "TCP"}},
	"ws":    {80, []string{"HTTP", "TCP"}},
	"https": {443, []string{"HTTPS", "TLS", "TCP"}},
	"wss":   {443, []string{"HTTPS", "TLS", "TCP"}},
	"tls":   {443, []string{"TLS", "TCP"}},
	"tcp":   {0, []string{"TCP"}},
}

// parseRequest splits a URL, and leaves its path and query unchanged: their oddities are part of the question.
func parseRequest(url, method string, headers []string) (request, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "http", url
	}
	protocol, ok := protocols[strings.ToLower(scheme)]
	if !ok {
		return request{}, cli.Usagef("the URL %q has an unknown scheme: use http, https, ws, wss, tls or tcp", url)
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	user, authority := authority[:max(at, 0)], authority[at+1:]
	r := request{scheme: strings.ToLower(scheme), hostHeader: authority, connected: authority, text: method + " " + url}
	r.Port, r.Path, r.Query, r.Method, r.Header = protocol.port, "/"+path, query, method, map[string][]string{}
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 && !strings.HasSuffix(authority, "]") {
		port, err := strconv.ParseUint(authority[colon+1:], 10, 16)
		if err != nil || port == 0 {
			return request{}, cli.Usagef("the URL %q has no good port", url)
		}
		r.Port, r.connected = int32(port), authority[:colon] //nolint:gosec // it has 16 bits
	}
	if authority == "" || r.Port == 0 {
		return request{}, cli.Usagef("the URL %q has no host or port", url)
	}
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		if name = strings.ToLower(strings.TrimSpace(name)); !ok || name == "" {
			return request{}, cli.Usagef("the header %q is not like NAME:VALUE", header)
		}
		r.text += fmt.Sprintf(" -H %q", header)
		if value = strings.TrimSpace(value); name == "host" {
			r.hostHeader = value
		} else {
			r.Header[name] = append(r.Header[name], value)
		}
	}
	if at >= 0 && r.Header["authorization"] == nil { // as curl does
		r.Header["authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user))}
	}
	if r.isConnection() {
		r.text = url
	}
	r.Header["host"] = []string{r.hostHeader}
	return r, nil
}

const (
	forwarded       = "forwarded"
	forwardedFor    = "x-forwarded-for"
	forwardedPrefix = "x-forwarded-"
)

// Headers that HAProxy removes before it looks for a route: removed from everyone, claimed if the client is no trusted
// proxy.
var (
	removed = regexp.MustCompile(`^(?:forwarded|` + routing.RemovedHeaders + `|.*[^a-z0-9-].*)$`)
	claimed = regexp.MustCompile(`^(?:x-forwarded-.*|` + routing.ClaimedHeaders + `)$`)
)

// isTrusted reports whether the client counts as a trusted proxy: it does if there are any.
func isTrusted(table routing.Table) bool { return len(table.TrustedProxies) > 0 }

// claims reports whether the client names the client that it acts for, which counts if it is trusted.
func (r request) claims() bool {
	for name := range r.Header {
		if name == forwarded || claimed.MatchString(name) {
			return true
		}
	}
	return false
}

// forward changes the headers to those by which HAProxy looks for a route. The two with the client's address are
// missing: it is not known.
func (r request) forward(listener *routing.Listener, trusted bool) {
	for name := range r.Header {
		if removed.MatchString(name) || name == forwardedFor || claimed.MatchString(name) && !trusted {
			delete(r.Header, name)
		}
	}
	scheme, port := "http", fmt.Sprint(r.Port)
	if listener.TLS != nil {
		scheme = "https"
	}
	if said := r.Header[forwardedPrefix+"proto"]; len(said) > 0 && !strings.EqualFold(said[len(said)-1], scheme) {
		port = cmp.Or(wellKnownPorts[strings.ToLower(said[len(said)-1])], port)
	}
	for name, value := range map[string]string{"proto": scheme, "host": r.hostHeader, "port": port} {
		if r.Header[forwardedPrefix+name] == nil {
			r.Header[forwardedPrefix+name] = []string{value}
		}
	}
}

// wellKnownPorts are the ports that a trusted proxy means if it names another scheme than the listener's, and no port.
var wellKnownPorts = map[string]string{"http": "80", "https": "443"}

// isConnection reports whether the question is about a connection, not a request.
func (r request) isConnection() bool { return r.scheme == "tcp" || r.scheme == "tls" }
