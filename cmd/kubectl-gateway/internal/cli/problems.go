package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gateway/internal/agent"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/operator/status"
	"gateway/internal/passwords"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
)

// Compile returns the table of the Gateway, and the problems of refused parts.
func (s *Site) Compile() (routing.Table, []model.Problem) {
	return routing.Compile(s.Model(), filters.Problem)
}

// AttachedProblems returns the problems of the Gateway API objects that belong to the Gateway. Problems of a Gateway
// of our own are in its status.
func (s *Site) AttachedProblems() []model.Problem {
	_, problems := s.Compile()
	return slices.DeleteFunc(problems, func(p model.Problem) bool { return p.Origin.Kind == "Gateway" && proxypod.Parent(s.Gateway) == "" })
}

// Problems returns what the proxies do not serve, as far as known: refused parts, and unusable Services, Secrets and
// ConfigMaps.
func (s *Site) Problems(table routing.Table, refused []model.Problem) []model.Problem {
	problems := s.references(table, refused)
	for _, problem := range s.usable(table).Problems {
		of := problem.Origin
		problems = append(problems, model.Problem{Origin: model.Origin{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}, Message: problem.Message})
	}
	_, _, broken := s.keySets(table, true)
	return append(problems, problemsOf(broken)...)
}

// problemsOf are problems without a known place.
func problemsOf(messages []string) []model.Problem {
	all := make([]model.Problem, len(messages))
	for i := range messages {
		all[i].Message = messages[i]
	}
	return all
}

// Messages returns what problems say.
func Messages(problems []model.Problem) []string {
	all := make([]string, len(problems))
	for i := range problems {
		all[i] = problems[i].Message
	}
	return all
}

// references returns the unusable references of a Gateway and its routes, after their refused parts.
func (s *Site) references(table routing.Table, refused []model.Problem) []model.Problem {
	all := slices.Clone(refused)
	if !s.IsGatewayAPI {
		service := func(name string) (*corev1.Service, bool) { return s.service(s.Gateway.Namespace, name) }
		all = append(all, status.RefProblems(s.Gateway, service)...)
	}
	for _, backend := range table.Backends() {
		why := table.Policies[backend].Refused
		isSaid := func(problem model.Problem) bool { return strings.Contains(problem.Message, why) }
		if why != "" && !slices.ContainsFunc(all, isSaid) {
			all = append(all, model.Problem{Message: fmt.Sprintf("requests for %s:%d are answered with 500: %s", backend.Object(), backend.Port, why)})
		}
	}
	return all
}

// BackendProblem returns why requests of a route of a Gateway of our own cannot be sent to a Service port; "" if they
// can, or nobody knows. Those of the Gateway API have no such backends.
func (s *Site) BackendProblem(rule *routing.Rule, backend routing.Backend, tls bool) string {
	service, known := s.service(backend.Namespace, backend.Service)
	if !known {
		return ""
	}
	_, message := status.CheckRef(model.Reference{Kind: rule.Kind, Route: rule.Route, Backend: backend}, service, tls)
	return message
}

// LacksUsers reports whether a Secret of the files has no users: nobody can log in with it.
func (s *Site) LacksUsers(secret string) bool {
	files, isThere := s.secrets[secret]
	users, _ := passwords.Parse(files[certificates.UsersFile])
	return isThere && users.IsEmpty()
}

// LacksKeys reports whether a Secret of the files has no API keys.
func (s *Site) LacksKeys(secret string) bool {
	files, isThere := s.secrets[secret]
	keys, _ := passwords.ParseKeys(files[certificates.APIKeysFile])
	return isThere && len(keys) == 0
}

// usable returns the certificates of a table that can be used. Those that the files do not have are taken to exist.
func (s *Site) usable(table routing.Table) agent.Usable {
	configMaps := agent.Files{}
	if s.Live {
		for _, name := range slices.Concat(AuthorityNames(table), RuleSetNames(table)) {
			configMaps[name] = nil
		}
	}
	for name, data := range s.configMaps {
		configMaps[name] = map[string][]byte{}
		for file, content := range data {
			configMaps[name][file] = []byte(content)
		}
	}
	return agent.CheckFiles(&table, s.Gateway.Namespace, s.secrets, configMaps, time.Now())
}
