// Package routetrace lets a team see the requests of its own routes, without rights in the namespace of the Gateway. An
// annotation of a route asks for those that are under way, or for the next ones that end. Each agent answers by Events
// in the namespace of the route. So who may edit the route may ask, and who may read the namespace's Events reads the
// answers.
package routetrace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/render"
	"gateway/internal/proxyconfig"
	"gateway/internal/routing"
)

const (
	// Annotation of an HTTPRoute or a GRPCRoute has a Question.
	Annotation = appv1.GroupName + "/trace"
	// Reason of an Event says that its message is an Answer.
	Reason = "Trace"
	// MaxTime is how long a question counts at most, and maxSkew how far clocks of who asks may be ahead.
	MaxTime, maxSkew = time.Minute, 10 * time.Second
	// MaxRequests bounds an answer, maxText the bytes of a text in it, and maxQuestion the bytes of a question.
	MaxRequests = 20
	maxText     = 256
	maxQuestion = 4096
)

// Question asks for the requests of a route that are under way, or for the next ones.
type Question struct {
	// ID is the ID of the answers.
	ID string `json:"id"`
	// Until is when nobody waits for answers any more.
	Until time.Time `json:"until"`
	// OlderSeconds is the age from which a request counts.
	OlderSeconds int32 `json:"olderSeconds,omitempty"`
	// Next is how many requests that end are asked for, and Wanted which; 0: those under way are.
	Next int `json:"next,omitempty"`
	Wanted
}

// Answer is what a pod tells.
type Answer struct {
	ID  string `json:"id"`
	Pod string `json:"pod"`
	// Requests are the oldest ones, and More is how many others there are.
	Requests []Request `json:"requests"`
	More     int       `json:"more,omitempty"`
	// Ended are lines of the access log, of requests that have ended since the answer before. Looked is how many requests
	// the pod has compared with the question, once it compares no more.
	Ended  []json.RawMessage `json:"ended,omitempty"`
	Looked int               `json:"looked,omitempty"`
}

// Request is one that is under way.
type Request struct {
	proxyconfig.Request
	// Rules are the rules that may have taken it, such as team/web[0].
	Rules []string `json:"rules"`
}

// Parse reads the value of an Annotation.
func Parse(value string) (Question, error) {
	var q Question
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return q, fmt.Errorf("failed to read it: %w", err)
	}
	if len(value) > maxQuestion || q.ID == "" || len(q.ID) > 64 || q.Until.IsZero() || q.OlderSeconds < 0 || q.Next < 0 || q.Next > MaxRequests {
		return q, errors.New("it is too long, has no id of up to 64 bytes, no time, a negative age, or asks for too many requests")
	}
	return q, nil
}

// Counts reports whether somebody waits for an answer.
func (q Question) Counts(now time.Time) bool {
	return now.Before(q.Until) && q.Until.Sub(now) <= MaxTime+maxSkew
}

// Rules returns the rules that may have taken a request: by its port, path and method, by the host if it is known, and
// by the backend if one was chosen.
func Rules(table routing.Table, request proxyconfig.Request) []*routing.Rule {
	host, _ := routing.NormalizeHost(request.Host)
	candidates := table.Candidates(routing.Request{Port: request.Port, Host: host, Path: request.Path, Method: request.Method})
	return slices.DeleteFunc(slices.Clone(candidates), func(rule *routing.Rule) bool {
		return request.Backend != "" && !slices.ContainsFunc(rule.Targets, func(target routing.Target) bool { return isBackend(target.Backend, request.Backend) })
	})
}

// isBackend reports whether a section of haproxy.cfg is for a Service port.
func isBackend(backend routing.Backend, section string) bool {
	name := render.BackendName(backend)
	return section == name || strings.HasPrefix(section, name+".")
}

// isBackendOf is isBackend for a Service of a namespace. own is the namespace of the Gateway.
func isBackendOf(backend routing.Backend, namespace, own, section string) bool {
	return cmp.Or(backend.Namespace, own) == namespace && isBackend(backend, section)
}

// Names returns what rules are called, such as team/web[0].
func Names(rules []*routing.Rule) []string {
	names := []string{}
	for _, rule := range rules {
		if name := fmt.Sprintf("%s[%d]", rule.LogName(), rule.Index); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Has reports whether a table has rules of a route, as the access log names it.
func Has(table routing.Table, route string) bool {
	for i := range table.Listeners {
		for host := range table.Listeners[i].Hosts.Values() {
			if slices.ContainsFunc(host.Entries, func(entry routing.Entry) bool { return entry.Rule.LogName() == route }) {
				return true
			}
		}
	}
	return false
}

// Of returns the requests that belong to a route without doubt: they go to a Service of its namespace, and only rules
// of that namespace may have taken them. HAProxy does not show which rule took a request, and the table is the current
// one. So a request without a backend is left out.
func Of(table routing.Table, namespace, own, route string, all []proxyconfig.Request) []Request {
	var found []Request
	for _, request := range all {
		rules := Rules(table, request)
		isOthers := func(rule *routing.Rule) bool {
			return routing.NamespaceOf(rule.LogName(), own) != namespace || !slices.ContainsFunc(rule.Targets, func(target routing.Target) bool {
				return isBackendOf(target.Backend, namespace, own, request.Backend)
			})
		}
		isOfRoute := func(rule *routing.Rule) bool { return rule.LogName() == route }
		if request.Backend != "" && slices.ContainsFunc(rules, isOfRoute) && !slices.ContainsFunc(rules, isOthers) {
			request.Path = request.Path[:min(len(request.Path), maxText)]
			found = append(found, Request{request, Names(rules)})
		}
	}
	return found
}
