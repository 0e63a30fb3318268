package routing

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
)

// compileRule returns what happens to the requests of a rule.
func compileRule(route string, index int, spec *appv1.RouteRule) *Rule {
	rule := &Rule{Route: route, Index: index, MaxBody: -1}
	for i := range spec.Filters {
		addFilter(rule, &spec.Filters[i], spec.Matches)
	}
	for i := range spec.BackendRefs {
		if target := compileTarget(&spec.BackendRefs[i]); target.Weight > 0 {
			rule.Targets = append(rule.Targets, target)
		}
	}
	if timeouts := spec.Timeouts; timeouts != nil {
		rule.Timeout = shorter(timeouts.Request, timeouts.BackendRequest)
		rule.Once = duration(timeouts.Request) > 0 && spec.Retry == nil
	}
	if retry := spec.Retry; retry != nil {
		rule.Retry = &Retry{Attempts: or(retry.Attempts, 3)}
		for _, code := range retry.Codes {
			rule.Retry.Codes = append(rule.Retry.Codes, int32(code))
		}
		slices.Sort(rule.Retry.Codes)
		limitAttempts(rule, spec.Timeouts)
	}
	if session := spec.SessionPersistence; session != nil {
		rule.Affinity = &Affinity{Name: cmp.Or(session.SessionName, "gateway-session"), MaxLife: duration(session.AbsoluteTimeout)}
	}
	if spec.MaxRequestBytes != nil {
		rule.MaxBody = *spec.MaxRequestBytes
	}
	return rule
}

// compileTarget returns a backend of a rule. Its weight may be zero.
func compileTarget(ref *appv1.BackendRef) Target {
	target := Target{Backend: Backend{Service: ref.Name, Port: ref.Port}, Weight: or(ref.Weight, 1)}
	for _, filter := range ref.Filters {
		addHeaderFilter(&target.Headers, filter.RequestHeaderModifier, filter.ResponseHeaderModifier)
	}
	return target
}

// limitAttempts keeps all attempts together within the time for the request.
func limitAttempts(rule *Rule, timeouts *appv1.RouteTimeouts) {
	if timeouts == nil || duration(timeouts.Request) == 0 || timeouts.BackendRequest == "" {
		return
	}
	fit := int64(duration(timeouts.Request)/rule.Timeout) - 1
	rule.Retry.Attempts = int32(max(0, min(int64(rule.Retry.Attempts), fit))) //nolint:gosec // not more than it was
}

// shorter returns the shorter of two limits: 0 if none is given, negative if those given are no limit.
func shorter(limits ...appv1.Duration) time.Duration {
	var shortest time.Duration
	for _, limit := range limits {
		switch d := duration(limit); {
		case limit == "":
		case d == 0:
			shortest = cmp.Or(shortest, -1)
		case shortest <= 0 || d < shortest:
			shortest = d
		}
	}
	return shortest
}

// duration returns 0 for what is no duration, which the schema does not admit.
func duration(d appv1.Duration) time.Duration {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return parsed
}

// defaultDrainTimeout is the schema's default.
const defaultDrainTimeout = time.Minute

// The schema's defaults of spec.clientLimits.
const (
	defaultMaxConnections = 10_000
	defaultMaxPerAddress  = 2_500
)

// DrainTimeout returns how long the connections of a Gateway may keep a process that is to end from ending.
func DrainTimeout(spec *appv1.GatewaySpec) time.Duration {
	return cmp.Or(duration(spec.DrainTimeout), defaultDrainTimeout)
}

func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func addFilter(rule *Rule, filter *appv1.RouteFilter, matches []appv1.RouteMatch) {
	addHeaderFilter(&rule.Headers, filter.RequestHeaderModifier, filter.ResponseHeaderModifier)
	if redirect := filter.RequestRedirect; redirect != nil {
		rule.Redirect = &Redirect{
			Status: or(redirect.StatusCode, 302), Scheme: redirect.Scheme, Hostname: string(redirect.Hostname),
			Port: or(redirect.Port, 0), Path: compilePath(redirect.Path, matches),
		}
	}
	if rewrite := filter.URLRewrite; rewrite != nil {
		rule.Rewrite = &Rewrite{Hostname: string(rewrite.Hostname), Path: compilePath(rewrite.Path, matches)}
	}
	if response := filter.DirectResponse; response != nil {
		rule.Response = &Response{
			Status: or(response.StatusCode, 200), Body: response.Body,
			ContentType: cmp.Or(response.ContentType, "text/plain; charset=utf-8"),
		}
	}
	if cors := filter.CORS; cors != nil {
		rule.CORS = &CORS{
			Origins: texts(cors.AllowOrigins), Credentials: cors.AllowCredentials, Methods: texts(cors.AllowMethods),
			Headers: texts(cors.AllowHeaders), Expose: texts(cors.ExposeHeaders), MaxAge: or(cors.MaxAge, 5),
		}
	}
}

func texts[T ~string](from []T) []string {
	var all []string
	for _, s := range from {
		all = append(all, string(s))
	}
	return all
}

// compilePath returns another path. Depth is that of the rule's only match, which is of type PathPrefix where a prefix is
// replaced.
func compilePath(path *appv1.PathModifier, matches []appv1.RouteMatch) *PathChange {
	switch {
	case path == nil:
		return nil
	case path.Type == appv1.PathModifierReplaceFullPath:
		return &PathChange{Full: string(path.ReplaceFullPath)}
	default:
		change := &PathChange{Prefix: strings.TrimRight(string(path.ReplacePrefixMatch), "/")}
		if len(matches) == 1 {
			prefix, _ := CanonicalPath(matches[0].Path.Value)
			change.Depth = strings.Count(strings.TrimRight(prefix, "/"), "/")
		}
		return change
	}
}

// addHeaderFilter adds the filter's changes to those there are: removing, then setting, then adding.
func addHeaderFilter(changes *HeaderChanges, request, response *appv1.HeaderFilter) {
	for _, side := range []struct {
		list   *[]HeaderChange
		filter *appv1.HeaderFilter
	}{{&changes.Request, request}, {&changes.Response, response}} {
		if side.filter == nil {
			continue
		}
		for _, name := range side.filter.Remove {
			*side.list = Then(*side.list, HeaderChange{Name: strings.ToLower(string(name)), Clear: true})
		}
		for _, header := range side.filter.Set {
			*side.list = Then(*side.list, HeaderChange{Name: strings.ToLower(string(header.Name)), Clear: true, Values: []string{header.Value}})
		}
		for _, header := range side.filter.Add {
			*side.list = Then(*side.list, HeaderChange{Name: strings.ToLower(string(header.Name)), Values: []string{header.Value}})
		}
	}
}

// Then returns the changes, sorted by name, followed by others.
func Then(changes []HeaderChange, others ...HeaderChange) []HeaderChange {
	changes = slices.Clone(changes)
	for _, other := range others {
		i, found := slices.BinarySearchFunc(changes, other.Name, func(c HeaderChange, name string) int { return cmp.Compare(c.Name, name) })
		switch {
		case !found:
			changes = slices.Insert(changes, i, other)
		case other.Clear:
			changes[i] = other
		default:
			changes[i].Values = slices.Concat(changes[i].Values, other.Values)
		}
	}
	return changes
}

// redirectEntries are all that a listener has that redirects to HTTPS: an entry for each hostname that an HTTPS listener has, and one for
// all others. Where they are the same, it is one.
func redirectEntries(spec *appv1.GatewaySpec) []Entry {
	hostnames, ports := []string{""}, map[int32]bool{}
	for _, listener := range spec.Listeners {
		if hostname := string(listener.Hostname); listener.Protocol == appv1.ProtocolHTTPS && !slices.Contains(hostnames, hostname) {
			hostnames = append(hostnames, hostname)
		}
	}
	var entries []Entry
	for _, hostname := range hostnames {
		port := httpsPort(spec, hostname)
		ports[port] = true
		rule := &Rule{MaxBody: -1, Redirect: &Redirect{Status: 301, Scheme: "https", Port: port}}
		entries = append(entries, Entry{Hostname: hostname, PathType: Prefix, Path: "/", Rule: rule})
	}
	if len(ports) == 1 {
		return entries[:1]
	}
	return entries
}

// httpsPort returns the port of the first HTTPS listener that takes a hostname, or of the first, if none does; but the well-known one if it
// is among them.
func httpsPort(spec *appv1.GatewaySpec, hostname string) int32 {
	var taking, others int32
	for _, listener := range spec.Listeners {
		port := &others
		if hostMatches(string(listener.Hostname), hostname) {
			port = &taking
		}
		if listener.Protocol == appv1.ProtocolHTTPS && (*port == 0 || listener.Port == 443) {
			*port = listener.Port
		}
	}
	return cmp.Or(taking, others)
}

// connectionEntries returns the one entry of a route for connections.
func connectionEntries(route appv1.Name, rules []appv1.ConnectionRule) []Entry {
	rule := &Rule{Route: string(route), MaxBody: -1}
	for _, spec := range rules {
		for _, ref := range spec.BackendRefs {
			if weight := or(ref.Weight, 1); weight > 0 {
				rule.Targets = append(rule.Targets, Target{Backend: Backend{Service: ref.Name, Port: ref.Port}, Weight: weight})
			}
		}
	}
	return []Entry{{PathType: Prefix, Path: "/", Rule: rule}}
}

func compileListener(spec *appv1.Listener) Listener {
	listener := Listener{
		Name: string(spec.Name), Port: spec.Port, Protocol: cmp.Or(string(spec.Protocol), string(appv1.ProtocolHTTP)), Hostname: string(spec.Hostname),
		ProxyProtocol: spec.ProxyProtocol,
	}
	if spec.TLS == nil {
		return listener
	}
	listener.TLS = &TLS{MinVersion: cmp.Or(string(spec.TLS.MinVersion), string(appv1.TLSVersion12))}
	if spec.TLS.CipherProfile == appv1.CipherProfileModern {
		listener.TLS.MinVersion = string(appv1.TLSVersion13)
	}
	for _, ref := range spec.TLS.CertificateRefs {
		listener.TLS.Secrets = append(listener.TLS.Secrets, ref.Name)
	}
	if validation := spec.TLS.ClientValidation; validation != nil {
		listener.TLS.ClientRequired = validation.Mode != appv1.ClientValidationOptional
		listener.TLS.ClientCAs = references(validation.CACertificateRefs)
	}
	if hsts := spec.TLS.HSTS; hsts != nil {
		listener.TLS.HSTS = "max-age=" + strconv.Itoa(int(or(hsts.MaxAgeSeconds, 31536000)))
		if hsts.IncludeSubDomains {
			listener.TLS.HSTS += "; includeSubDomains"
		}
		if hsts.Preload {
			listener.TLS.HSTS += "; preload"
		}
	}
	return listener
}

func references(refs []appv1.ObjectReference) []string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.Name)
	}
	return names
}

func compilePolicies(backends []appv1.Backend) map[Backend]BackendPolicy {
	policies := map[Backend]BackendPolicy{}
	for i := range backends {
		spec := &backends[i]
		policy := BackendPolicy{ProxyProtocol: string(spec.ProxyProtocol)}
		if tls := spec.TLS; tls != nil {
			policy.TLS = &BackendTLS{CAs: references(tls.CACertificateRefs), ServerName: string(tls.Hostname)}
		}
		if balancing := spec.LoadBalancing; balancing != nil {
			policy.Algorithm, policy.Header = string(balancing.Algorithm), strings.ToLower(string(balancing.Header))
		}
		if check := spec.HealthCheck; check != nil {
			policy.Check = &HealthCheck{
				Path: string(check.Path), Hostname: cmp.Or(string(check.Hostname), spec.Name),
				Interval: cmp.Or(duration(check.Interval), 5*time.Second), Timeout: cmp.Or(duration(check.Timeout), 2*time.Second),
				Fall: or(check.UnhealthyThreshold, 3), Rise: or(check.HealthyThreshold, 2),
			}
		}
		if outliers := spec.OutlierDetection; outliers != nil && spec.HealthCheck != nil {
			policy.MaxErrors = or(outliers.ConsecutiveErrors, 5)
		}
		if connections := spec.Connections; connections != nil {
			policy.MaxConnections, policy.MaxQueue = connections.MaxPerEndpoint, or(connections.MaxQueue, 0)
			policy.QueueTimeout = cmp.Or(duration(connections.QueueTimeout), 10*time.Second)
		}
		policies[Backend{Service: spec.Name, Port: spec.Port}] = policy
	}
	return policies
}

// maxFilters is how long the filters of a rule may be, with those of one of its backendRefs: HAProxy has to hold them in one
// line.
const maxFilters = 6500

// filtersSize returns how many bytes the filters of a rule take at most, with those of one of its targets.
func filtersSize(rule *Rule) int {
	size, largest := headersSize(rule.Headers), 0
	for _, target := range rule.Targets {
		largest = max(largest, headersSize(target.Headers))
	}
	for _, path := range []*PathChange{rewritePath(rule.Rewrite), redirectPath(rule.Redirect)} {
		if path != nil {
			size += encodedSize(path.Full) + encodedSize(path.Prefix)
		}
	}
	if cors := rule.CORS; cors != nil {
		for _, name := range slices.Concat(cors.Methods, cors.Headers, cors.Expose) {
			size += len(name) + len(", ")*3
		}
	}
	return size + largest
}

func rewritePath(rewrite *Rewrite) *PathChange {
	if rewrite == nil {
		return nil
	}
	return rewrite.Path
}

func redirectPath(redirect *Redirect) *PathChange {
	if redirect == nil {
		return nil
	}
	return redirect.Path
}

func headersSize(changes HeaderChanges) int {
	size := 0
	for _, change := range slices.Concat(changes.Request, changes.Response) {
		size += len(change.Name) + len("q-|")
		for _, value := range change.Values {
			size += len(change.Name) + encodedSize(value) + len("q+.0=|")
		}
	}
	return size
}

// encodedSize is how long a text is where some signs are percent-encoded.
func encodedSize(s string) int {
	size := len(s)
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' || c == '|' || c == '+' || c == '#' {
			size += 2
		}
	}
	return size
}
