package filters

import (
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// EncodePreRouting returns the value in filters.map of what happens to the requests of a rule's listener before a rule
// is chosen; "": nothing does. Its parameters are the ones of the filter auth, and "auth.team" is the namespace of the
// listener.
func EncodePreRouting(in Input) string {
	from := in.Rule.PreRouting
	if from == nil {
		return ""
	}
	var p params
	encodeAuth(Input{Rule: &routing.Rule{Action: &routing.Action{}}, BackendFor: in.BackendFor}, &from.ExternalAuth, &p)
	p.set("auth.team", from.Namespace)
	return strings.Join(p, "&")
}

// HasPreRouting reports whether something happens to requests before a rule is chosen.
func HasPreRouting(env Env) bool {
	return slices.ContainsFunc(env.Rules, func(rule *routing.Rule) bool { return rule.PreRouting != nil })
}

// PreRouting returns the lines that ask about requests before a rule is chosen; nil: no listener has a question. name
// is the expression for the name of the question in filters.map; if it is empty, the listener has none. A request
// passes only if the entry is found. For the filters of its rule, it is as if there had been no question.
func PreRouting(env Env, name string) []ir.Line {
	if !HasPreRouting(env) {
		return nil
	}
	const asks = "{ var(txn.prerouting) -m len gt 0 }"
	env.isShadow, env.isPreRouting = false, true
	return slices.Concat(TakeCookies(env, ""), ir.Lines("", slices.Concat([]string{
		"http-request set-var(txn.prerouting) " + name,
		"http-request set-var(txn.filters) var(txn.prerouting),map_str(" + env.Paths.Map(ir.FiltersFile) + ") if " + asks,
		"http-request deny deny_status 500 if " + asks + " !" + has("auth"),
		"http-request set-var(txn.guard) str(" + auth.guard + ") if " + asks,
	}, auth.rules(env).Request, []string{
		"http-request unset-var(txn.guard)",
		"http-request unset-var(txn.auth_repeat)",
		"http-request unset-var(txn.auth_body)",
		"http-request unset-var(" + team + ")",
		"http-request unset-var(txn.filters)",
	})...))
}

// AfterPreRouting returns the lines that give the client the cookies of answers, also if its rule has no filters.
func AfterPreRouting(env Env) []string {
	if !HasPreRouting(env) {
		return nil
	}
	return []string{authCookies, "http-after-response unset-var(txn.auth_cookies)"}
}
