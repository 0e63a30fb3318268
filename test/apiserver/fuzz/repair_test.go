package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// repair makes the fields of a spec fit each other, which chance alone does not.
func (g *generator) repair(spec object) {
	g.repairListeners(spec)
	for _, route := range elements(spec["routes"]) {
		g.refer(spec, route, "HTTP", "HTTPS")
		for _, rule := range elements(route["rules"]) {
			g.repairRule(rule)
		}
	}
	for _, route := range elements(spec["tcpRoutes"]) {
		g.refer(spec, route, "TCP", "TLS")
	}
	for _, route := range elements(spec["tlsRoutes"]) {
		g.refer(spec, route, "TLS")
	}
	for _, backend := range elements(spec["backends"]) {
		g.repairBackend(backend)
	}
	g.repairDuration(spec, "drainTimeout")
	g.repairDuration(at(spec, "pods"), "stopDelay")
	repairErrorPages(spec)
	g.shareBackends(spec)
}

// repairErrorPages: no status has two pages.
func repairErrorPages(spec object) {
	kept, taken := []any{}, map[any]bool{}
	for _, page := range elements(spec["errorPages"]) {
		statuses := []any{}
		for _, status := range page["statuses"].([]any) {
			if !taken[status] {
				taken[status] = true
				statuses = append(statuses, status)
			}
		}
		if page["statuses"] = statuses; len(statuses) > 0 {
			kept = append(kept, page)
		}
	}
	spec["errorPages"] = kept
}

// elements returns the elements of a list that may not be there.
func elements(list any) []object {
	items, _ := list.([]any)
	var all []object
	for _, item := range items {
		all = append(all, item.(object))
	}
	return all
}

// repairListeners: what listeners of one port have to share and what not, and what goes with which protocol.
func (g *generator) repairListeners(spec object) {
	byPort := map[int64]object{}
	taken := map[string]bool{}
	secure := false
	var kept []any
	for _, listener := range elements(spec["listeners"]) {
		if g.chance(60) {
			listener["port"] = pick[int64](g, 80, 443, 8080)
		}
		port := listener["port"].(int64)
		if port == 8404 || port == 8405 {
			continue
		}
		if other, ok := byPort[port]; ok {
			listener["protocol"] = other["protocol"]
			delete(listener, "proxyProtocol")
			if other["proxyProtocol"] != nil {
				listener["proxyProtocol"] = other["proxyProtocol"]
			}
		}
		if trusted, _ := spec["trustedProxies"].([]any); len(trusted) == 0 {
			delete(listener, "proxyProtocol")
		}
		byPort[port] = listener
		g.repairProtocol(listener)
		hostname, _ := listener["hostname"].(string)
		if id := identity([]any{port, hostname}, nil); taken[id] {
			continue
		} else {
			taken[id] = true
		}
		secure = secure || listener["protocol"] == "HTTPS"
		kept = append(kept, listener)
	}
	if len(kept) == 0 {
		kept = []any{object{"name": "http", "port": int64(80), "protocol": "HTTP"}}
	}
	for _, listener := range elements(kept) {
		if !secure {
			delete(listener, "httpsRedirect")
		}
	}
	spec["listeners"] = kept
}

// repairListenerFilters: only HTTP and HTTPS listeners have filters, of some types and one of those that exclude each
// other, and limits of bodies.
func repairListenerFilters(listener object) {
	var kept []any
	secured := false
	for _, filter := range elements(listener["filters"]) {
		repairFilter(filter)
		kind := fmt.Sprint(filter["type"])
		if slices.Contains([]string{"RequestRedirect", "URLRewrite", "PathRegexRewrite", "DirectResponse", "RequestMirror", "Cache", "ResponseOverride", "ResponseRewrite", "BandwidthLimit"}, kind) {
			continue
		}
		if kind == "BasicAuth" || kind == "APIKey" || kind == "JWT" || kind == "OIDC" {
			if secured {
				continue
			}
			secured = true
		}
		kept = append(kept, filter)
	}
	listener["filters"] = kept
	forRequests := listener["protocol"] == "HTTP" || listener["protocol"] == "HTTPS"
	if len(kept) == 0 || !forRequests {
		delete(listener, "filters")
	}
	if !forRequests {
		delete(listener, "maxRequestBytes")
	}
	repairShadow(listener)
}

// repairShadow: only what a listener has can be in shadow, or mandatory.
func repairShadow(listener object) {
	for field, nameOf := range map[string]func(any) any{
		"shadow":    func(one any) any { return one },
		"mandatory": func(one any) any { return one.(object)["type"] },
	} {
		var kept []any
		all, _ := listener[field].([]any)
		for _, one := range all {
			name := nameOf(one)
			isFilter := slices.ContainsFunc(elements(listener["filters"]), func(filter object) bool { return filter["type"] == name })
			if isFilter || name == "maxRequestBytes" && listener["maxRequestBytes"] != nil {
				kept = append(kept, one)
			}
		}
		if listener[field] = kept; len(kept) == 0 {
			delete(listener, field)
		}
	}
}

// repairFilter: a RateLimit has limits, concurrent or both, and an issuer of a JWT has its keys in one place.
func repairFilter(filter object) {
	if limit, ok := filter["rateLimit"].(object); ok && len(limit) == 0 {
		limit["concurrent"] = object{"requests": 1}
	}
	for _, response := range elements(at(filter, "responseOverride", "responses")) {
		if delete(response, "backendRef"); response["body"] == nil {
			delete(response, "body")
			response["backendRef"] = object{"name": "echo", "port": int64(80)}
		}
	}
	for _, issuer := range elements(at(filter, "jwt", "issuers")) {
		keys, _ := issuer["keys"].(object)
		for i, place := range sortedKeys(keys) {
			if i > 0 {
				delete(keys, place)
			}
		}
	}
}

func (g *generator) repairProtocol(listener object) {
	if listener["protocol"] != "HTTP" {
		delete(listener, "httpsRedirect")
	}
	if listener["protocol"] == "TCP" {
		delete(listener, "hostname")
	}
	repairListenerFilters(listener)
	tls, _ := listener["tls"].(object)
	if tls == nil {
		tls = object{}
	}
	delete(tls, "mode")
	if tls["certificateRefs"] == nil {
		tls["certificateRefs"] = []any{object{"name": "shop-tls"}}
	}
	switch protocol, port := listener["protocol"], listener["port"].(int64); {
	case protocol == "TLS" && port%2 == 0: // all listeners of a port have one mode
		tls = object{"mode": "Passthrough"}
	case protocol == "TLS":
		delete(tls, "hsts")
	}
	if listener["tls"] = tls; listener["protocol"] == "HTTP" || listener["protocol"] == "TCP" {
		delete(listener, "tls")
	}
}

// refer makes a route name listeners that exist, mostly of its kind, or none.
func (g *generator) refer(spec, route object, protocols ...string) {
	if _, ok := route["listeners"]; !ok {
		return
	}
	names := []any{}
	for _, listener := range elements(spec["listeners"]) {
		if g.chance(10) || strings.Contains(strings.Join(protocols, " ")+" ", listener["protocol"].(string)+" ") {
			names = append(names, listener["name"])
		}
	}
	names = names[:min(len(names), 16)]
	switch {
	case len(names) > 0:
		route["listeners"] = names
	case protocols[0] == "TCP":
		route["listeners"] = []any{at(pick(g, spec["listeners"].([]any)...), "name")} // it has to name one, and may name any
	default:
		delete(route, "listeners")
	}
}

func (g *generator) repairRule(rule object) {
	for _, match := range elements(rule["matches"]) {
		g.repairMatch(match)
	}
	var kept []any
	answered, prefix, personal := false, false, false
	filters := elements(rule["filters"])
	for _, filter := range filters {
		repairFilter(filter)
		for _, kind := range []string{"requestRedirect", "urlRewrite"} {
			if path, ok := at(filter, kind, "path").(object); ok {
				prefix = prefix || path["type"] == "ReplacePrefixMatch"
			}
		}
		answered = answered || filter["requestRedirect"] != nil || filter["directResponse"] != nil
		personal = personal || filter["basicAuth"] != nil || filter["apiKey"] != nil || filter["jwt"] != nil || filter["oidc"] != nil || filter["externalAuth"] != nil
	}
	answers, secured := 0, false
	for _, filter := range filters {
		if filter["cache"] != nil && personal {
			continue
		}
		if filter["basicAuth"] != nil || filter["apiKey"] != nil || filter["jwt"] != nil || filter["oidc"] != nil {
			if secured {
				continue
			}
			secured = true
		}
		answer := filter["requestRedirect"] != nil || filter["directResponse"] != nil
		if answer {
			answers++
		}
		if !answered || answer && answers == 1 || filter["cors"] != nil {
			kept = append(kept, filter)
		}
	}
	if len(kept) > 0 {
		rule["filters"] = kept
	}
	if answered {
		delete(rule, "backendRefs")
	}
	for _, ref := range elements(rule["backendRefs"]) {
		for _, filter := range elements(ref["filters"]) {
			for _, kind := range []string{"requestHeaderModifier", "responseHeaderModifier"} {
				if !strings.EqualFold(kind, fmt.Sprint(filter["type"])) {
					delete(filter, kind)
				}
			}
		}
	}
	if prefix {
		rule["matches"] = []any{object{"path": object{"type": "PathPrefix", "value": pick(g, "/", "/api", "/a/b/", "/%61/"+strings.Repeat("a/", 100))}}}
	}
	g.repairTimes(rule)
}

// at returns what is at a place below, or nil.
func at(value any, fields ...string) any {
	for _, field := range fields {
		m, _ := value.(object)
		value = m[field]
	}
	return value
}

// repairMatch makes most regular expressions some, where the schema knows only characters.
func (g *generator) repairMatch(match object) {
	if path, ok := match["path"].(object); ok && path["type"] == "RegularExpression" && g.chance(70) {
		path["value"] = limited(expression(g.r, 5))
	}
	for _, list := range []string{"headers", "queryParams"} {
		for _, condition := range elements(match[list]) {
			if condition["type"] == "RegularExpression" && g.chance(70) {
				value := limited(expression(g.r, 4))
				if list == "queryParams" {
					value = strings.ReplaceAll(value, " ", "")
				}
				if value = strings.TrimSpace(value); value != "" {
					condition["value"] = value
				}
			}
		}
	}
}

func limited(s string) string { return s[:min(len(s), 1024)] }

// repairTimes makes limits of time fit each other.
func (g *generator) repairTimes(rule object) {
	timeouts, ok := rule["timeouts"].(object)
	if !ok {
		return
	}
	if g.chance(50) {
		for field := range timeouts {
			timeouts[field] = pick(g, "0s", "1ms", "10s", "1h", "99999h", "600h", "99999h99999h99999h99999h")
		}
	}
	request, _ := timeouts["request"].(string)
	attempt, _ := timeouts["backendRequest"].(string)
	longest, err := time.ParseDuration(request)
	if each, err2 := time.ParseDuration(attempt); err == nil && err2 == nil && longest != 0 && each > longest {
		timeouts["backendRequest"] = request
	}
}

func (g *generator) repairBackend(backend object) {
	check, ok := backend["healthCheck"].(object)
	if ok && check["path"] == nil {
		delete(check, "hostname")
	}
	if !ok {
		delete(backend, "outlierDetection")
	}
	if balancing, ok := backend["loadBalancing"].(object); ok && !slices.Contains([]any{"SourceIP", "URI", "Header"}, balancing["algorithm"]) {
		delete(balancing, "hashBalanceFactor")
	}
	g.repairDuration(at(backend, "waitForEndpoint"), "timeout")
	g.repairDuration(at(backend, "loadBalancing"), "slowStart")
}

// repairDuration makes most durations ones that are neither too short nor too long.
func (g *generator) repairDuration(in any, field string) {
	if values, ok := in.(object); ok && values[field] != nil && g.chance(90) {
		values[field] = pick(g, "1s", "2m30s", "1500ms", "0h4m")
	}
}

// shareBackends makes routes refer to the ports that spec.backends is about.
func (g *generator) shareBackends(spec object) {
	ports := map[string]any{}
	for _, backend := range elements(spec["backends"]) {
		ports[backend["name"].(string)] = backend["port"]
	}
	for _, kind := range []string{"routes", "tcpRoutes", "tlsRoutes"} {
		for _, route := range elements(spec[kind]) {
			for _, rule := range elements(route["rules"]) {
				for _, ref := range elements(rule["backendRefs"]) {
					if port, ok := ports[ref["name"].(string)]; ok && g.chance(80) {
						ref["port"] = port
					}
				}
			}
		}
	}
}
