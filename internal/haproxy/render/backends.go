package render

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// BackendName returns the name of the backend of a Service port that has no settings of its own.
func BackendName(b routing.Backend) string {
	name := ir.Quote(b.Service, ir.InName) + "_" + itoa(b.Port)
	if b.Namespace != "" {
		name = ir.Quote(b.Namespace, ir.InName) + "_" + name
	}
	return name
}

// makeBackend makes the backend of a usable Service port for a rule. Settings are part of its name, so that other
// settings are another backend, and the one that runs need not change.
func (r *Renderer) makeBackend(u *use, key hitKey) {
	policy, protocol := r.in.Table.Policies[u.ref], model.ProtocolOf(u.appProtocol, key.rule.Kind)
	if key.passthrough {
		policy.TLS = nil // TLS is spoken already.
	}
	backend := &ir.Backend{Of: u.ref, Mode: "http", Settings: ir.ServerSettings{
		Options: serverOptions(r.in, protocol, policy, key.connections), Check: policy.Check != nil,
	}}
	if policy.TLS != nil && policy.TLS.HasNames() {
		backend.Settings.Relay = r.in.Paths.RelaySocket
	}
	u.name, u.backend = BackendName(u.ref), backend
	if policy.TLS != nil {
		u.authority = string(authority(r.in, policy.TLS.CAs))
	}
	if key.connections {
		backend.Mode = "tcp"
		u.name += ".tcp"
	} else if key.rule.Affinity != nil {
		backend.Settings.CookieKey = BackendName(u.ref)
	}
	backend.Defaults, u.defaults = r.backendDefaults(settingLines(key, policy, protocol, u.ref), key.connections)
	if settings := backend.Defaults + " " + backend.Settings.Options; settings != plainDefaults(key.connections)+" " {
		u.name += "." + ir.ContentName(settings)
	}
}

// Usable reports whether requests or connections can be sent to a Service port. Its Service exists, no refused
// reference may have meant it, and its protocol can be spoken. With TLS, there is something to verify it by, and the
// client certificate that it asks for. connections ignores the protocol. kind is the kind of the route.
func Usable(in Input, backend routing.Backend, kind string, connections bool) bool {
	state, policy := in.Backends[backend], in.Table.Policies[backend]
	if !state.Exists || policy.Refused != "" {
		return false
	}
	tls := policy.TLS
	if tls != nil && (len(authority(in, tls.CAs)) == 0 || in.Table.BackendCertificate != "" && !in.HasBackendCertificate) {
		return false
	}
	if tls != nil && tls.HasNames() && in.Paths.RelaySocket == "" {
		return false
	}
	return connections || model.ProtocolOf(state.AppProtocol, kind).Carries(kind, tls != nil)
}

// plainDefaults returns the name of the defaults section of backends without settings, which is always there.
func plainDefaults(connections bool) string {
	if connections {
		return "tcp"
	}
	return "requests"
}

// settings are what of a defaults section is not the same in all: lines before the rules that all have, and rules after
// them.
type settings struct{ lines, rules []string }

// settingLines returns the settings of a rule and of the policy of a Service port that only a section can have.
func settingLines(key hitKey, policy routing.BackendPolicy, protocol model.Protocol, ref routing.Backend) settings {
	var s settings
	add := func(format string, args ...any) { s.lines = append(s.lines, fmt.Sprintf(format, args...)) }
	switch policy.Algorithm {
	case "RoundRobin":
		add("balance roundrobin")
	case "LeastConnections":
		add("balance leastconn")
	case "SourceIP":
		add("balance source")
		add("hash-type consistent")
	case "URI":
		if !key.connections {
			add("balance uri path-only")
			add("hash-type consistent")
		}
	case "Header":
		if !key.connections {
			add("balance hdr(%s)", ir.Quote(policy.Header, ir.InName))
			add("hash-type consistent")
		}
	}
	if policy.HashBalanceFactor > 0 && (policy.Algorithm == "SourceIP" || !key.connections) {
		add("hash-balance-factor %d", policy.HashBalanceFactor)
	}
	if retry := key.rule.Retry; retry != nil && !key.connections {
		add("retries %d", retry.Attempts)
		on := "retry-on conn-failure empty-response"
		for _, code := range retry.Codes {
			on += " " + itoa(code)
		}
		add("%s", on)
	}
	if affinity := key.rule.Affinity; affinity != nil && !key.connections {
		cookie := "cookie " + ir.Quote(affinity.Cookie(ref), ir.InName) + " insert indirect nocache httponly dynamic"
		if affinity.MaxLife > 0 {
			cookie += fmt.Sprintf(" maxlife %ds", max(1, int64(affinity.MaxLife/time.Second)))
		}
		add("%s", cookie)
	}
	s.lines = append(s.lines, checkLines(policy)...)
	if policy.Check == nil && policy.Backup != (model.Backend{}) {
		add("option allbackups")
	}
	if policy.QueueTimeout > 0 {
		add("timeout queue %sms", milliseconds(policy.QueueTimeout))
	}
	if policy.MaxConnections > 0 && !key.connections {
		s.rules = limitedRules(policy.TLS != nil && protocol != model.WSS || policy.TLS == nil && protocol == model.H2C)
	}
	if policy.WaitTimeout > 0 && !key.connections {
		s.rules = append(s.rules, waitingRules(policy.WaitTimeout, policy.MaxWaiting)...)
	}
	return s
}

// checkLines say how endpoints are checked.
func checkLines(policy routing.BackendPolicy) []string {
	check := policy.Check
	if check == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("timeout check %sms", milliseconds(check.Timeout)), "option allbackups"}
	switch {
	case check.Path != "":
		return append(lines, "option httpchk",
			fmt.Sprintf("http-check send meth GET uri %s ver HTTP/1.1 hdr Host %s", ir.Quote(check.Path, ir.InConfig), ir.Quote(check.Hostname, ir.InName)),
			"http-check expect status 200-399")
	case policy.TLS != nil && policy.TLS.HasNames():
		return append(lines, "option tcp-check", "tcp-check expect string "+ir.RelayVerified)
	}
	return lines
}

// backendDefaults returns the name of the defaults section with these settings, and the section if it is not always
// there.
func (r *Renderer) backendDefaults(s settings, connections bool) (name string, section *ir.Section) {
	name = plainDefaults(connections)
	if len(s.lines)+len(s.rules) == 0 {
		return name, nil
	}
	name += "." + ir.ContentName(strings.Join(slices.Concat(s.lines, s.rules), "\n"))
	made := r.defaultsSection(name, s, connections)
	return name, &made
}

// balance is the algorithm of backends that name none.
const balance = "balance random(2)"

// backendLines are settings of all backends for requests. How long an answer has to be that is compressed, is one.
//
// A request that a server closes the connection on instead of answering is sent to another one, unless it may not be
// sent twice: that server may have carried it out. For that HAProxy keeps a copy of each request: in a small
// buffer, or where it does not fit, in a usual one.
//
// Rules do not see the trailers of a request, and some backends add them to its headers. gRPC has trailers in answers
// only.
func backendLines(compression *model.Compression) []string {
	lines := []string{balance, "retry-on conn-failure empty-response", "option use-small-buffers l7-retries", "option http-drop-request-trailers"}
	if compression != nil {
		lines = append(lines, fmt.Sprintf("compression minsize-res %d", compression.MinBytes))
	}
	return lines
}

// defaultsSection returns the section that backends take their settings from. HAProxy lets no section inherit rules
// from another, so each has them all.
func (r *Renderer) defaultsSection(name string, s settings, connections bool) ir.Section {
	lines, parent := s.lines, "tcp"
	if !connections {
		parent = "backends"
		lines = slices.Concat(lines, filters.All(filters.Env{Paths: r.in.Paths}).Backend, s.rules)
	}
	return ir.Section{Header: "defaults " + name + " from " + parent, Reason: ir.ReloadDefaults, MayStay: true, Lines: ir.Lines("", lines...)}
}

// serverOptions returns the options of every server of a backend.
func serverOptions(in Input, protocol model.Protocol, policy routing.BackendPolicy, connections bool) string {
	var options []string
	add := func(format string, args ...any) { options = append(options, fmt.Sprintf(format, args...)) }
	if protocol == model.H2C && policy.TLS == nil && !connections {
		add("proto h2")
	}
	switch tls := policy.TLS; {
	case tls != nil && tls.HasNames():
		add("%s", ir.RelayOptions(relayed(in, protocol, policy, connections)))
		if protocol == model.H2C && !connections {
			add("proto h2")
		}
	case tls != nil:
		authority := in.Paths.Map(authorityName(authority(in, tls.CAs)))
		name := ir.Quote(tls.ServerName, ir.InName)
		// With sni, HAProxy verifies that name, and would ignore another one in verifyhost.
		add("ssl verify required ca-file %s sni str(%s)", authority, name)
		if secret := in.Table.BackendCertificate; secret != "" {
			// A session that is resumed has the certificate of its first connection, also after a renewal.
			add("crt %s no-ssl-reuse", certificatePath(in.Paths, secret))
		}
		if !connections {
			add("ssl-min-ver TLSv1.2 %s", tlsProtocols(protocol))
		}
		if policy.Check != nil {
			add("check-sni %s", name)
		}
	}
	isRelayed := policy.TLS != nil && policy.TLS.HasNames()
	switch {
	case isRelayed:
	case policy.ProxyProtocol == "V1":
		add("send-proxy")
	case policy.ProxyProtocol == "V2":
		add("send-proxy-v2")
	}
	if check := policy.Check; check != nil {
		// Servers that are added at run time check by TLS and with a PROXY header only if the command asks for it.
		if policy.TLS != nil && !isRelayed {
			add("check-ssl")
		}
		if policy.ProxyProtocol != "" || isRelayed {
			add("check-send-proxy")
		}
		add("check inter %sms fall %d rise %d", milliseconds(check.Interval), check.Fall, check.Rise)
		if policy.MaxErrors > 0 {
			layer := "layer7"
			if connections {
				layer = "layer4"
			}
			add("observe %s error-limit %d on-error mark-down", layer, policy.MaxErrors)
		}
	}
	if policy.SlowStart > 0 {
		add("slowstart %sms", milliseconds(policy.SlowStart))
	}
	if policy.MaxConnections > 0 {
		add("maxconn %d", policy.MaxConnections)
		if policy.MaxQueue > 0 {
			add("maxqueue %d", policy.MaxQueue)
		}
	}
	return strings.Join(options, " ")
}

// relayed sets how gateway-keys connects to the servers of a backend. HAProxy does not learn which protocol both sides
// agree on, so only one is offered.
func relayed(in Input, protocol model.Protocol, policy routing.BackendPolicy, connections bool) []ir.RelayTLV {
	tls, tlvs := policy.TLS, []ir.RelayTLV(nil)
	add := func(kind byte, value string) { tlvs = append(tlvs, ir.RelayTLV{Type: kind, Value: value}) }
	add(ir.RelayAuthorities, in.Paths.Map(authorityName(authority(in, tls.CAs))))
	add(ir.RelayServerName, ir.Quote(tls.ServerName, ir.InName))
	for _, name := range tls.DNSNames {
		add(ir.RelayDNSName, base64.RawURLEncoding.EncodeToString([]byte(name)))
	}
	for _, uri := range tls.URIs {
		add(ir.RelayURI, base64.RawURLEncoding.EncodeToString([]byte(uri)))
	}
	if secret := in.Table.BackendCertificate; secret != "" {
		add(ir.RelayCertificate, certificatePath(in.Paths, secret))
	}
	switch {
	case connections:
	case protocol == model.H2C:
		add(ir.RelayProtocol, "h2")
	default:
		add(ir.RelayProtocol, "http/1.1")
	}
	if policy.ProxyProtocol != "" {
		add(ir.RelayProxyProtocol, policy.ProxyProtocol)
	}
	if policy.Check != nil && policy.Check.Path == "" {
		add(ir.RelayAnswer, "1")
	}
	return tlvs
}

// tlsProtocols returns what is spoken over TLS: WebSockets take HTTP/1.1.
func tlsProtocols(protocol model.Protocol) string {
	if protocol == model.WSS {
		return "alpn http/1.1"
	}
	return "alpn h2,http/1.1 ws h1"
}
