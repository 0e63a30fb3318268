package explain

import (
	"fmt"
	"net/http"
	"slices"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// Backend is a Service port with its share of the requests.
type Backend struct {
	// Service is empty if the reference cannot be resolved. It has its namespace if that is not the Gateway's.
	Service string `json:"service"`
	Port    int32  `json:"port"`
	// Percent is the probability that it gets the request.
	Percent float64 `json:"percent"`
	// Ready are the endpoints that take requests now; nil if that is not known.
	Ready []string `json:"ready,omitempty"`
	// Backup are the endpoints of its backup, which take requests while none of the others does.
	Backup []string `json:"backup,omitempty"`
	// Settings are from these objects: BackendPolicies and BackendTLSPolicies.
	Settings []string `json:"settings,omitempty"`
	// Filters are what happens to requests for this backend only.
	Filters []string `json:"filters,omitempty"`
	// Answer is what the proxy answers in place of the backend; "" if that can be asked.
	Answer string `json:"answer,omitempty"`
}

// follow describes what a rule does with a matching request.
func (e *Explanation) follow(site *cli.Site, input render.Input, listener *routing.Listener, rule *routing.Rule, problems []model.Problem, r request) {
	if listener.TLS != nil && listener.TLS.ClientRequired {
		e.Filters = append(e.Filters, "client: has to show a certificate")
	}
	e.Filters = append(e.Filters, steps(rule, r)...)
	refused, answer := "", filters.Answer(rule)
	for _, refusal := range refusals(site, rule, r) {
		if !rule.Shadows(refusal.filter) {
			refused = refusal.answer
			break
		}
		e.Filters = append(e.Filters, "shadow: would refuse with "+refusal.answer)
	}
	switch {
	case rule.CORS != nil && isPreflight(r.Request):
		e.Answer = "204: the proxy answers CORS preflight requests"
	case refused != "":
		e.refuse("%s", refused)
	case answer != "":
		e.Answer = answer
	case len(rule.Targets) == 0 && e.Listener.Protocol == "HTTP", len(rule.Targets) == 0 && e.Listener.Protocol == "HTTPS":
		e.refuse("500: %s", withoutBackend(site, rule, problems))
	case len(rule.Targets) == 0:
		e.refuse("the connection is closed: the route has no backend")
	default:
		e.share(site, input, listener, rule)
	}
}

// withoutBackend returns why a rule has no backend: it names none, or none with a weight, or its route has a part that
// cannot be carried out.
func withoutBackend(site *cli.Site, rule *routing.Rule, problems []model.Problem) string {
	for route := range site.Model().Routes.Values() {
		if route.Kind == rule.Kind && route.Name == rule.Route && cli.HasNoWeight(&route.Rules[rule.Index]) {
			return "the weights of all backends of the rule are 0"
		}
	}
	isOfRoute := func(p model.Problem) bool { return p.RouteKind == rule.Kind && p.Route == rule.Route }
	if slices.ContainsFunc(problems, isOfRoute) {
		return "the rule cannot be carried out: see the warnings"
	}
	return "the rule has no backend"
}

// isPreflight reports whether it is a CORS preflight request.
func isPreflight(r routing.Request) bool {
	return r.Method == http.MethodOptions && r.Header["origin"] != nil && r.Header["access-control-request-method"] != nil
}

// share adds the backends of a rule with their shares.
func (e *Explanation) share(site *cli.Site, input render.Input, listener *routing.Listener, rule *routing.Rule) {
	sum := 0.0
	for _, target := range rule.Targets {
		sum += float64(target.Weight)
	}
	for _, target := range rule.Targets {
		state := input.Backends[target.Backend]
		backend := Backend{
			Service: serviceName(site, target.Backend), Port: target.Backend.Port, Percent: 100 * float64(target.Weight) / sum,
			Filters: filters.DescribeTarget(rule, &target), Settings: input.Table.Policies[target.Backend].From,
			Answer: cannot(site, input, listener, rule, target),
		}
		for _, server := range state.Servers {
			if server.Backup {
				backend.Backup = append(backend.Backup, ir.ServerAddress(server))
			} else {
				backend.Ready = append(backend.Ready, ir.ServerAddress(server))
			}
		}
		e.Backends = append(e.Backends, backend)
	}
	e.Refused = !slices.ContainsFunc(e.Backends, func(b Backend) bool { return b.Answer == "" })
}

// serviceName names a Service, or what stands for a ServiceImport: with its namespace if that is not the Gateway's.
func serviceName(site *cli.Site, backend routing.Backend) string {
	if backend.Namespace == site.Gateway.Namespace || backend.Service == "" {
		return backend.Service
	}
	return backend.Namespace + "/" + backend.Service
}

// cannot returns why a backend cannot be asked.
func cannot(site *cli.Site, input render.Input, listener *routing.Listener, rule *routing.Rule, target routing.Target) string {
	backend := target.Backend
	if backend == (routing.Backend{}) {
		return "500: " + target.Refused
	}
	state, policy := input.Backends[backend], input.Table.Policies[backend]
	problem := site.BackendProblem(rule, backend, policy.TLS != nil)
	connections := listener.Protocol == "TCP" || listener.Protocol == "TLS"
	switch {
	case problem != "":
		return "500: " + problem
	case policy.Refused != "":
		return "500: " + policy.Refused
	case !render.Usable(input, backend, rule.Kind, connections):
		return "500: no certificate can verify its TLS: see the warnings"
	case site.Knows(backend.Namespace) && len(state.Servers) == 0 && policy.WaitTimeout > 0 && !connections:
		return fmt.Sprintf("503 after a wait of %s: no endpoint is ready", policy.WaitTimeout)
	case site.Knows(backend.Namespace) && len(state.Servers) == 0:
		return "503: no endpoint is ready"
	}
	return ""
}
