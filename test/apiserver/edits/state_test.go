package edits

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
)

// tagHeader is set by each rule, in requests and answers, to what names the rule and its version.
const tagHeader = "X-Tag"

// state is what requests are answered by. It is not changed once it is written.
type state struct {
	spec      appv1.GatewaySpec
	exists    map[string]bool
	endpoints map[string]string // servers, by slot
	table     routing.Table
	rules     map[string][]appv1.RouteRule // by route
	// next is the state after it, if that was written already.
	next atomic.Pointer[state]
}

// newState returns what is wished for.
func (s *site) newState() *state {
	n := &state{spec: s.spec(), exists: maps.Clone(s.wish.exists), endpoints: maps.Clone(s.wish.endpoints), rules: map[string][]appv1.RouteRule{}}
	n.table, _ = routing.Compile(source.Translate(&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: n.spec}), filters.Problem)
	for _, route := range n.spec.Routes {
		n.rules[string(route.Name)] = route.Rules
	}
	return n
}

// judge returns the problems of an answer for each state from this one on, or "" if one of them gives it.
func (n *state) judge(r routingtest.Request, got answer) string {
	var wrong []string
	for ; n != nil; n = n.next.Load() {
		message := n.judgeOne(r, got)
		if message == "" {
			return ""
		}
		wrong = append(wrong, message)
	}
	return strings.Join(wrong, "; or ")
}

func (n *state) judgeOne(r routingtest.Request, got answer) string {
	host, ok := routing.NormalizeHost(r.Host)
	if _, canonical := routing.CanonicalPath(r.Path); !ok || !canonical {
		return expect(got.outcome(), "400")
	}
	r.Host = host
	match, ok := n.table.Match(r.Request)
	switch {
	case match.TooLong:
		return expect(got.outcome(), "400")
	case !ok:
		return expect(got.outcome(), "404")
	}
	tag, answers := "", ""
	for _, filter := range n.rules[match.Rule.Route][match.Rule.Index].Filters {
		switch {
		case filter.RequestRedirect != nil:
			answers = "302 to " + string(filter.RequestRedirect.Hostname)
		case filter.DirectResponse != nil:
			answers = "418 " + filter.DirectResponse.Body
		case filter.ResponseHeaderModifier != nil:
			tag = filter.ResponseHeaderModifier.Set[0].Value
		}
	}
	if answers != "" && len(match.Rule.Targets) == 0 && (match.Rule.Redirect != nil || match.Rule.Response != nil) {
		return expect(got.outcome(), answers)
	}
	allowed := []string{}
	for _, target := range match.Rule.Targets {
		allowed = append(allowed, n.outcomes(target.Backend, tag)...)
	}
	if len(match.Rule.Targets) == 0 {
		allowed = append(allowed, "500")
	}
	return expect(got.outcome(), allowed...)
}

// outcomes returns what requests for a Service end in.
func (n *state) outcomes(backend routing.Backend, tag string) []string {
	if !n.exists[backend.Service] {
		return []string{"500"}
	}
	var all []string
	for i := range perService {
		if server, ok := n.endpoints[slot(backend.Service, i)]; ok {
			all = append(all, fmt.Sprintf("200 from %s by %s, which heard of %s", server, tag, tag))
		}
	}
	if len(all) == 0 {
		return []string{"503"}
	}
	return all
}

// outcome is the answer in the words of outcomes.
func (a answer) outcome() string {
	switch a.Status {
	case 200:
		var backend said
		if err := json.Unmarshal([]byte(a.Body), &backend); err != nil {
			return "200 with " + a.Body
		}
		return fmt.Sprintf("200 from %s by %s, which heard of %s", backend.Server, a.Header.Get(tagHeader), backend.Tag)
	case 302:
		_, location, _ := strings.Cut(a.Header.Get("Location"), "://")
		host, _, _ := strings.Cut(location, "/")
		host, _, _ = strings.Cut(host, ":")
		return "302 to " + host
	case 418:
		return "418 " + a.Body
	default:
		return fmt.Sprint(a.Status)
	}
}

func expect(got string, allowed ...string) string {
	if slices.Contains(allowed, got) {
		return ""
	}
	return fmt.Sprintf("%s, want one of %q", got, allowed)
}
