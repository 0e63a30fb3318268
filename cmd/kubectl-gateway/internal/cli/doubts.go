package cli

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gateway/internal/haproxy/filters"
	"gateway/internal/login"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// Doubts returns what the Gateway asks for and hardly means, as far as the proxies would do it.
func (s *Site) Doubts(table routing.Table) []model.Problem {
	return slices.Concat(s.missingServices(table), s.unreachable(), s.ruleDoubts(), problemsOf(s.Model().WithoutHTTP3()), s.lostCallbacks(&table))
}

// missingServices names Services that the files lack, though they have others of that namespace.
func (s *Site) missingServices(table routing.Table) []model.Problem {
	named := table.Backends()
	for _, policy := range table.Policies {
		named = append(named, policy.Backup)
	}
	slices.SortFunc(named, model.CompareBackends)
	var all []model.Problem
	for i, backend := range named {
		isNamed := i > 0 && named[i-1].Namespace == backend.Namespace && named[i-1].Service == backend.Service
		if _, known := s.service(backend.Namespace, backend.Service); known || isNamed || backend == (model.Backend{}) {
			continue
		}
		if len(validation.IsDNS1123Label(backend.Name())) > 0 {
			message := fmt.Sprintf("there can be no Service %q: a name has lower-case letters, digits and - alone, and the namespace is a field of its own", backend.Name())
			all = append(all, wants(s.documents, backend.Namespace, backend.Name(), message))
			continue
		}
		var others []string
		for name := range s.services {
			if name.Namespace == backend.Namespace {
				others = append(others, name.Name)
			}
		}
		slices.Sort(others)
		if near := Nearest(backend.Service, others); near != "" {
			message := fmt.Sprintf("%s is not in the files, though others of its namespace are (there is %s/%s): "+
				"correct the name or add it, else its requests are answered with 500",
				backend.Object(), backend.Namespace, model.Backend{Service: near}.Name())
			all = append(all, wants(s.documents, backend.Namespace, backend.Name(), message))
		}
	}
	return all
}

// Compiler returns one that has compiled the Gateway.
func (s *Site) Compiler() *routing.Compiler {
	compiler := &routing.Compiler{Check: filters.Problem}
	compiler.Problems(s.Model())
	return compiler
}

// unreachable names the rules that get no requests.
func (s *Site) unreachable() []model.Problem {
	all := slices.Clone(s.Compiler().Unreachable())
	for i := range all {
		of := model.Route{Origin: all[i].Origin, Kind: all[i].RouteKind, Name: all[i].Route}
		all[i].Message = called(&of) + ": " + all[i].Message
	}
	return all
}

// ruleDoubts are about what rules say, whatever else there is.
func (s *Site) ruleDoubts() []model.Problem {
	var all []model.Problem
	for route := range s.Model().Routes.Values() {
		for i := range route.Rules {
			rule := &route.Rules[i]
			doubt := func(format string, args ...any) {
				all = append(all, aboutRule(route, i, fmt.Sprintf("%s: rules[%d]"+format, append([]any{called(route), i}, args...)...)))
			}
			for _, match := range rule.Matches {
				if below, ok := strings.CutSuffix(match.Path, "/*"); ok && match.PathType != model.Regex {
					doubt(": * is no wildcard in the path %s: PathPrefix %s matches all paths below it", match.Path, cmp.Or(below, "/"))
				}
			}
			if HasNoWeight(rule) {
				doubt(": the weights of all backends are 0, so its requests are answered with 500")
			}
			if len(rule.Backends) == 0 && rule.Refused == "" && rule.Redirect == nil && rule.Response == nil && !s.hasProblem(route, i) {
				doubt(" has no backendRefs, so its requests are answered with 500")
			}
			if rule.CORS != nil && rule.CORS.Credentials && slices.Contains(rule.CORS.Origins, "*") {
				doubt(": CORS has the origin * with credentials, so a page of any origin can act for the user: name the origins")
			}
		}
	}
	return all
}

// hasProblem reports whether a part of a rule of a route is left out.
func (s *Site) hasProblem(route *model.Route, index int) bool {
	return slices.ContainsFunc(s.Model().Problems, func(p model.Problem) bool {
		return p.RouteKind == route.Kind && p.Route == route.Name && strings.HasPrefix(p.Field, fmt.Sprintf("rules[%d]", index))
	})
}

// aboutRule returns a problem of a rule of a route.
func aboutRule(route *model.Route, index int, message string) model.Problem {
	return model.Problem{
		Origin: route.Origin, RouteKind: route.Kind, Route: route.Name, Field: fmt.Sprintf("rules[%d]", index), Message: message,
	}
}

// called names a route.
func called(route *model.Route) string {
	if route.Origin.Kind == "Gateway" {
		return fmt.Sprintf("route %q", route.Name)
	}
	return route.Kind + " " + route.Name
}

// HasNoWeight reports whether a rule has backends, of which none gets a request.
func HasNoWeight(rule *model.Rule) bool {
	return len(rule.Backends) > 0 && rule.Refused == "" && rule.Redirect == nil && rule.Response == nil &&
		!slices.ContainsFunc(rule.Backends, func(t model.Target) bool { return t.Weight > 0 })
}

// lostCallbacks names the rules with an OIDC whose logins end at a path that leads to no rule with the same OIDC.
func (s *Site) lostCallbacks(table *routing.Table) []model.Problem {
	var all []model.Problem
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		if listener.Protocol != model.ProtocolHTTPS {
			continue
		}
		for _, host := range listener.ByPrecedence() {
			asked := map[string]bool{}
			for j := range host.Entries {
				rule := host.Entries[j].Rule
				if rule.OIDC == nil || asked[rule.OIDC.Login.Question()] {
					continue
				}
				asked[rule.OIDC.Login.Question()] = true
				lost := s.aboutRuleOf(rule, lostCallback(table, listener, host, rule))
				if lost.Message != "" && !slices.Contains(all, lost) {
					all = append(all, lost)
				}
			}
		}
	}
	return all
}

// aboutRuleOf returns a problem of a rule of the table.
func (s *Site) aboutRuleOf(rule *routing.Rule, message string) model.Problem {
	for route := range s.Model().Routes.Values() {
		if route.Kind == rule.Kind && route.Name == rule.Route {
			return aboutRule(route, rule.Index, message)
		}
	}
	return model.Problem{Message: message}
}

// lostCallback says that a login for a rule at a host ends nowhere, "" if it does not.
func lostCallback(table *routing.Table, listener *routing.Listener, host *routing.Host, rule *routing.Rule) string {
	hostname := host.Name
	if model.HostnameMatches(hostname, listener.Hostname) {
		hostname = listener.Hostname
	}
	// A host that has no routes of its own.
	some := cmp.Or(strings.Replace(hostname, "*", "any-other-host", 1), "any-other-host")
	settings := rule.OIDC.Login
	callback := routing.Request{Port: listener.Port, Host: some, Path: settings.Path + login.CallbackPath, Method: http.MethodGet}
	match, ok := table.Match(callback)
	if ok && (match.Rule.OIDC != nil && match.Rule.OIDC.Login.Question() == settings.Question()) || table.ListenerFor(listener.Port, some) != listener {
		return ""
	}
	return fmt.Sprintf("route %s rules[%d]: logins for the host %s fail: no rule with this OIDC has the path %s, where they end: add it to such a rule",
		rule.Route, rule.Index, cmp.Or(hostname, "*"), settings.Path)
}

// wideRanges names ranges of addresses that contain more than their text seems to say, such as 10.1.2.3/8.
func wideRanges(documents []Document) []string {
	var all []string
	for _, d := range documents {
		if !isOurs(d.Object.GroupVersionKind().Group) {
			continue
		}
		walk(d.Object.Object["spec"], "spec", func(path, text string) {
			if prefix, err := netip.ParsePrefix(text); err == nil && prefix != prefix.Masked() {
				all = append(all, fmt.Sprintf("%s: %s: %s is %s, which has all addresses of %s: write that, or %s/%d for one address",
					d.At(path), d, path, text, prefix.Masked(), prefix.Addr(), prefix.Addr().BitLen()))
			}
		})
	}
	return all
}

// walk calls f with each text in a value, and its path.
func walk(value any, path string, f func(path, text string)) {
	switch value := value.(type) {
	case string:
		f(path, value)
	case []any:
		for i, element := range value {
			walk(element, fmt.Sprintf("%s[%d]", path, i), f)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			walk(value[name], path+"."+name, f)
		}
	}
}
