package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
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
	settings ServerSettings
	// defaults is the section that it gets its rules from, "" for connections.
	defaults string
	// madeOf is what it was made of, beside its key and what is the same for all.
	madeOf sectionSource
}

// sectionSource is what of a Service port is in its section.
type sectionSource struct {
	exists      bool
	appProtocol string
	policy      routing.BackendPolicy
}

// sectionKey tells sections apart.
type sectionKey struct {
	backend routing.Backend
	// suffix is what the name has after that of the Service port.
	suffix string
}

// sectionSet are the sections of everything that a table refers to. It never changes, so that configurations can share one.
type sectionSet struct {
	byKey map[sectionKey]*section
	// sorted are the same, by name.
	sorted []*section
	// text is what the skeleton has of them, and settings what Config has.
	text     string
	settings map[string]ServerSettings
	// limits are the defaults for sections with a limit of requests that some get their rules from.
	limits []string
	// names are those of the sections that can be used.
	names map[routing.Backend][]string
	// policies, authorities and paths are those that it was made with.
	policies    map[routing.Backend]routing.BackendPolicy
	authorities map[string][]byte
	paths       Paths
}

// BackendName returns the name of the backend section of a Service port, for rules that ask for nothing else.
func BackendName(b routing.Backend) string {
	return quoteName(b.Service) + "_" + itoa(b.Port)
}

// keyOf returns the key of the section that gets what a rule has for a backend, be it requests or connections.
func keyOf(backend routing.Backend, rule *routing.Rule, connections bool) sectionKey {
	key := sectionKey{backend: backend}
	if connections {
		key.suffix = ".tcp"
	} else if rule.Retry != nil || rule.Affinity != nil {
		key.suffix = "." + hashText(ruleLines(rule, backend))
	}
	return key
}

// usable says whether requests or connections can be sent to a backend: its Service exists, no entry of spec.backends may have been meant
// for it, its protocol is one that can be spoken, and with TLS, there is something to verify it by. Nobody looks at what connections speak.
func usable(in Input, backend routing.Backend, connections bool) bool {
	state, policy := in.Backends[backend], in.Table.Policies[backend]
	if !state.Exists || policy.Refused {
		return false
	}
	tls := policy.TLS
	if tls != nil {
		for _, ca := range tls.CAs {
			if len(in.Authorities[ca]) == 0 {
				return false
			}
		}
	}
	if connections {
		return true
	}
	switch state.AppProtocol {
	case "", "http", h2c, "kubernetes.io/ws":
		return true
	case "https", wss:
		return tls != nil
	}
	return false
}

// renderSections returns the sections of everything the table refers to: those of an earlier set that are right still, and others.
func renderSections(in Input, before *sectionSet, change hostChange) *sectionSet {
	if before == nil || in.Paths != before.paths || !maps.EqualFunc(in.Authorities, before.authorities, bytes.Equal) {
		before = &sectionSet{}
	}
	if before == change.before.sections && before.does(change) && before.isUpToDate(in) {
		return before
	}
	all, same := make(map[sectionKey]*section, len(before.byKey)), true
	in.Table.Rules(func(listener *routing.Listener, rule *routing.Rule) {
		for i := range rule.Targets {
			backend, connections := rule.Targets[i].Backend, isConnection(listener)
			key := keyOf(backend, rule, connections)
			if all[key] != nil {
				continue
			}
			source := sourceOf(in, backend)
			all[key] = before.byKey[key]
			if all[key] == nil || !all[key].madeOf.equal(source) {
				all[key], same = renderSection(in, key, rule, connections, source), false
			}
		}
	})
	if same && len(all) == len(before.byKey) && before.byKey != nil {
		return before
	}
	return newSectionSet(in, all)
}

// does says whether the hostnames that changed need all sections that they needed before, and none that is not there.
func (s *sectionSet) does(change hostChange) bool {
	wanted := change.keys(change.added)
	for key := range wanted {
		if s.byKey[key] == nil {
			return false
		}
	}
	for key := range change.keys(change.gone) {
		if !wanted[key] {
			return false
		}
	}
	return true
}

// isUpToDate says whether the Service ports are what the sections were made of.
func (s *sectionSet) isUpToDate(in Input) bool {
	if in.SameBackends && reflect.DeepEqual(in.Table.Policies, s.policies) {
		return true
	}
	return !slices.ContainsFunc(s.sorted, func(section *section) bool { return !section.madeOf.equal(sourceOf(in, section.backend)) })
}

func sourceOf(in Input, backend routing.Backend) sectionSource {
	state := in.Backends[backend]
	return sectionSource{exists: state.Exists, appProtocol: state.AppProtocol, policy: in.Table.Policies[backend]}
}

// serves says whether requests that an earlier set has sections for can be sent there as before.
func (s *sectionSet) serves(before *sectionSet) bool {
	if s == before {
		return true
	}
	for key, section := range before.byKey {
		if now, ok := s.byKey[key]; ok && now.usable != section.usable {
			return false
		}
	}
	return true
}

func (s sectionSource) equal(other sectionSource) bool {
	return s.exists == other.exists && s.appProtocol == other.appProtocol && (s.policy == other.policy || reflect.DeepEqual(s.policy, other.policy))
}

func newSectionSet(in Input, all map[sectionKey]*section) *sectionSet {
	set := &sectionSet{
		byKey: all, sorted: slices.SortedFunc(maps.Values(all), func(a, b *section) int { return strings.Compare(a.name, b.name) }),
		settings: map[string]ServerSettings{}, names: map[routing.Backend][]string{}, policies: in.Table.Policies, authorities: in.Authorities, paths: in.Paths,
	}
	var text strings.Builder
	for _, s := range set.sorted {
		text.WriteString("\n" + s.body)
		if isLimited(s.defaults) && !slices.Contains(set.limits, s.defaults) {
			set.limits = append(set.limits, s.defaults)
		}
		if s.usable {
			set.names[s.backend] = append(set.names[s.backend], s.name)
		}
		if s.settings != (ServerSettings{}) {
			set.settings[s.name] = s.settings
		}
	}
	slices.Sort(set.limits)
	set.text = text.String()
	return set
}

// servers returns the servers of every section; one that cannot be used has none. Where an earlier configuration has the same sections,
// it shares theirs.
func (s *sectionSet) servers(in Input, before Config) ServerSets {
	of := func(section *section) []Server {
		if !section.usable {
			return nil
		}
		return sortServers(in.Backends[section.backend].Servers)
	}
	if s == before.sections && in.SameBackends {
		return before.Servers
	}
	if s == before.sections {
		servers := before.Servers
		for _, section := range s.sorted {
			if have, _ := servers.Of(section.name); !slices.Equal(have, of(section)) {
				servers = servers.with(section.name, of(section))
			}
		}
		return servers
	}
	servers := make(map[string][]Server, len(s.sorted))
	for _, section := range s.sorted {
		servers[section.name] = of(section)
	}
	return NewServerSets(servers)
}

func isConnection(listener *routing.Listener) bool {
	return listener.Protocol == "TCP" || listener.Protocol == "TLS"
}

func renderSection(in Input, key sectionKey, rule *routing.Rule, connections bool, source sectionSource) *section {
	backend, policy := key.backend, source.policy
	s := &section{
		name: BackendName(backend) + key.suffix, backend: backend, usable: usable(in, backend, connections),
		settings: ServerSettings{Options: serverOptions(in, source.appProtocol, policy, connections), Check: policy.Check != nil},
		madeOf:   source,
	}
	var b strings.Builder
	if connections {
		b.WriteString(backendPrefix + s.name + " from connections\n" + balanceLine(policy, true))
	} else {
		s.defaults = defaultsOf(source)
		b.WriteString(backendPrefix + s.name + " from " + s.defaults + "\n" + balanceLine(policy, false))
		b.WriteString(ruleLines(rule, backend))
		if rule.Affinity != nil {
			b.WriteString(keptCookie(rule.Affinity.Cookie(backend)))
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

// ruleLines returns the lines of a backend's section that a rule asks for; "" if it does not.
func ruleLines(rule *routing.Rule, backend routing.Backend) string {
	var b strings.Builder
	if retry := rule.Retry; retry != nil {
		fmt.Fprintf(&b, "    retries %d\n    retry-on conn-failure empty-response", retry.Attempts)
		for _, code := range retry.Codes {
			fmt.Fprintf(&b, " %d", code)
		}
		b.WriteString("\n")
	}
	if affinity := rule.Affinity; affinity != nil {
		fmt.Fprintf(&b, "    cookie %s insert indirect nocache httponly dynamic", quoteName(affinity.Cookie(backend)))
		if affinity.MaxLife > 0 {
			fmt.Fprintf(&b, " maxlife %ds", max(1, int64(affinity.MaxLife/time.Second)))
		}
		// The key is no secret: it makes the proxies of a Gateway give an endpoint the same value.
		fmt.Fprintf(&b, "\n    dynamic-cookie-key %s\n", BackendName(backend))
	}
	return b.String()
}

// keptCookie puts the cookie of a session back where a filter has removed what the client sent, which is in txn.cookies then: HAProxy looks
// for it when all rules are done, and takes it away itself.
func keptCookie(name string) string {
	before := `^(.*[;,])?[\x09\x20]*` + routing.QuoteRegex(name) + "="
	condition := "{ var(txn.cookies) -m reg '" + before + "' }"
	return `    http-request set-var(txn.value) 'var(txn.cookies),regsub("` + before + `",""),regsub("[;,].*$","")' if ` + condition + "\n" +
		`    http-request add-header cookie "` + strings.ReplaceAll(quoteName(name), "%", "%%") + `=%[var(txn.value)]" if ` + condition + "\n"
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
func serverOptions(in Input, appProtocol string, policy routing.BackendPolicy, connections bool) string {
	var options []string
	add := func(format string, args ...any) { options = append(options, fmt.Sprintf(format, args...)) }
	if appProtocol == h2c && policy.TLS == nil && !connections {
		add("proto h2")
	}
	if tls := policy.TLS; tls != nil {
		if authority, ok := authorityFile(in, tls.CAs); ok {
			name := quoteName(tls.ServerName)
			// With sni, HAProxy verifies that name, and would ignore another one in verifyhost.
			add("ssl verify required ca-file %s sni str(%s)", authority, name)
			if !connections {
				add("ssl-min-ver TLSv1.2 %s", tlsProtocols(appProtocol))
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
		// Servers that are added at run time do not check by TLS and with a PROXY header unless they are told to.
		if policy.TLS != nil {
			add("check-ssl")
		}
		if policy.ProxyProtocol != "" {
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
	if appProtocol == wss {
		return "alpn http/1.1"
	}
	return "alpn h2,http/1.1 ws h1"
}
