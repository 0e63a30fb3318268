package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gateway/internal/routing"
)

// section is a backend section of a Service port. A rule with retries or session persistence of its own has sections of its
// own, because HAProxy knows these things of sections only; and so have TCP and HTTP.
type section struct {
	name     string
	backend  routing.Backend
	body     string
	usable   bool
	servers  []Server
	settings ServerSettings
}

// BackendName returns the name of the backend section of a Service port, for rules that ask for nothing else.
func BackendName(b routing.Backend) string {
	return quoteName(b.Service) + "_" + itoa(b.Port)
}

// sectionName returns the name of the section that gets a rule's requests for a backend.
func sectionName(backend routing.Backend, rule *routing.Rule) string {
	name := BackendName(backend)
	if own := ruleLines(rule, name); own != "" {
		name += "." + hashText(own)[:8]
	}
	return name
}

// connectionSection returns the name of the section that gets the connections of TCP and TLS listeners for a backend.
func connectionSection(backend routing.Backend) string { return BackendName(backend) + ".tcp" }

// usable says whether requests can be sent to a backend: its Service exists, its protocol is one that can be spoken, and
// with TLS, there is something to verify it by.
func usable(in Input, backend routing.Backend) bool {
	state, tls := in.Backends[backend], in.Table.Policies[backend].TLS
	if !state.Exists {
		return false
	}
	if tls != nil {
		for _, ca := range tls.CAs {
			if len(in.Authorities[ca]) == 0 {
				return false
			}
		}
	}
	switch state.AppProtocol {
	case "", "http", "kubernetes.io/h2c", "kubernetes.io/ws":
		return true
	case "https", "kubernetes.io/wss":
		return tls != nil
	}
	return false
}

// renderSections returns the sections of everything the table refers to, sorted by name. One whose Service does not exist
// has no servers.
func renderSections(in Input) []section {
	all := map[string]section{}
	in.Table.Rules(func(listener *routing.Listener, rule *routing.Rule) {
		for _, target := range rule.Targets {
			name := targetSection(listener, rule, target.Backend)
			if _, ok := all[name]; !ok {
				all[name] = renderSection(in, name, listener, rule, target.Backend)
			}
		}
	})
	sections := make([]section, 0, len(all))
	for _, s := range all {
		sections = append(sections, s)
	}
	slices.SortFunc(sections, func(a, b section) int { return strings.Compare(a.name, b.name) })
	return sections
}

// targetSection returns the name of the section for a rule of a listener.
func targetSection(listener *routing.Listener, rule *routing.Rule, backend routing.Backend) string {
	if isConnection(listener) {
		return connectionSection(backend)
	}
	return sectionName(backend, rule)
}

func isConnection(listener *routing.Listener) bool {
	return listener.Protocol == "TCP" || listener.Protocol == "TLS"
}

func renderSection(in Input, name string, listener *routing.Listener, rule *routing.Rule, backend routing.Backend) section {
	state, policy := in.Backends[backend], in.Table.Policies[backend]
	s := section{name: name, backend: backend, settings: ServerSettings{Check: policy.Check != nil}}
	var b strings.Builder
	if isConnection(listener) {
		b.WriteString(backendPrefix + name + " from connections\n" + balanceLine(policy, true))
		s.settings.Options = serverOptions(in, state, policy, true)
	} else {
		b.WriteString(backendPrefix + name + fromRouted + balanceLine(policy, false))
		b.WriteString(ruleLines(rule, BackendName(backend)))
		s.settings.Options = serverOptions(in, state, policy, false)
		if rule.Affinity != nil {
			s.settings.CookieKey = BackendName(backend)
		}
	}
	b.WriteString(checkLines(policy.Check))
	if policy.QueueTimeout > 0 {
		b.WriteString("    timeout queue " + milliseconds(policy.QueueTimeout) + "ms\n")
	}
	if s.settings.Options != "" {
		b.WriteString(defaultServer + s.settings.Options + "\n")
	}
	s.body = b.String()
	if s.usable = usable(in, backend); s.usable {
		s.servers = sortServers(state.Servers)
	}
	return s
}

func balanceLine(policy routing.BackendPolicy, connections bool) string {
	algorithm := "random(2)"
	switch policy.Algorithm {
	case "RoundRobin":
		algorithm = "roundrobin"
	case "LeastConnections":
		algorithm = "leastconn"
	case "SourceIP":
		return "    balance source\n    hash-type consistent\n"
	case "URI":
		if !connections {
			return "    balance uri path-only\n    hash-type consistent\n"
		}
	case "Header":
		if !connections {
			return "    balance hdr(" + quoteName(policy.Header) + ")\n    hash-type consistent\n"
		}
	}
	return "    balance " + algorithm + "\n"
}

// ruleLines returns the lines of a section that a rule asks for; "" if it does not. key goes into the cookie's value.
func ruleLines(rule *routing.Rule, key string) string {
	var b strings.Builder
	if retry := rule.Retry; retry != nil {
		fmt.Fprintf(&b, "    retries %d\n    retry-on conn-failure empty-response", retry.Attempts)
		for _, code := range retry.Codes {
			fmt.Fprintf(&b, " %d", code)
		}
		b.WriteString("\n")
	}
	if affinity := rule.Affinity; affinity != nil {
		fmt.Fprintf(&b, "    cookie %s insert indirect nocache httponly dynamic", quoteName(affinity.Cookie))
		if affinity.MaxLife > 0 {
			fmt.Fprintf(&b, " maxlife %ds", max(1, int64(affinity.MaxLife/time.Second)))
		}
		// The key is no secret: it makes the proxies of a Gateway give an endpoint the same value.
		fmt.Fprintf(&b, "\n    dynamic-cookie-key %s\n", key)
	}
	return b.String()
}

func checkLines(check *routing.HealthCheck) string {
	if check == nil {
		return ""
	}
	timeout := "    timeout check " + milliseconds(check.Timeout) + "ms\n"
	if check.Path == "" {
		return timeout
	}
	return timeout + "    option httpchk\n    http-check send meth GET uri " + quote(check.Path, inConfig) +
		" ver HTTP/1.1 hdr Host " + quoteName(check.Hostname) + "\n    http-check expect status 200-399\n"
}

// serverOptions returns the options of every server of a section. They have to be the same for a server from haproxy.cfg
// and for one that is added at run time, which does not inherit those of a default-server line.
func serverOptions(in Input, state BackendState, policy routing.BackendPolicy, connections bool) string {
	var options []string
	add := func(format string, args ...any) { options = append(options, fmt.Sprintf(format, args...)) }
	h2c := state.AppProtocol == "kubernetes.io/h2c" && policy.TLS == nil && !connections
	if h2c {
		add("proto h2")
	}
	if tls := policy.TLS; tls != nil {
		if authority, ok := authorityFile(in, tls.CAs); ok {
			name := quoteName(tls.ServerName)
			// With sni, HAProxy verifies that name, and would ignore another one in verifyhost.
			add("ssl verify required ca-file %s sni str(%s)", authority, name)
			if !connections {
				add("ssl-min-ver TLSv1.2 %s", tlsProtocols(state.AppProtocol))
			}
			if policy.Check != nil {
				add("check-sni %s", name)
			}
		}
	}
	switch policy.ProxyProtocol {
	case "V1":
		add("send-proxy")
	case "V2":
		add("send-proxy-v2")
	}
	if check := policy.Check; check != nil {
		add("check inter %sms fall %d rise %d", milliseconds(check.Interval), check.Fall, check.Rise)
		if policy.MaxErrors > 0 {
			layer := "layer7"
			if connections {
				layer = "layer4"
			}
			add("observe %s error-limit %d on-error mark-down", layer, policy.MaxErrors)
		}
	}
	if policy.MaxConnections > 0 {
		add("maxconn %d", policy.MaxConnections)
		if policy.MaxQueue > 0 {
			add("maxqueue %d", policy.MaxQueue)
		}
	}
	return strings.Join(options, " ")
}

// tlsProtocols says what is spoken over TLS: WebSockets take HTTP/1.1.
func tlsProtocols(appProtocol string) string {
	if appProtocol == "kubernetes.io/wss" {
		return "alpn http/1.1"
	}
	return "alpn h2,http/1.1 ws h1"
}
