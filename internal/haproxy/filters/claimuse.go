package filters

import (
	"fmt"
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// claimUse is what a filter does with the claims in txn.jwt_text: it sends some to the backend in headers, and refuses
// requests without required ones. The parameter "FILTER.has.CLAIM" names the list for a claim. "FILTER.to.HEADER" is
// the claim for a header. Each header with its claim has rules of its own, as in other filters.
type claimUse struct {
	filter string
	of     func(rule *routing.Rule) (headers []model.ClaimHeader, required []model.RequiredClaim)
}

func (u claimUse) requiredParam(claim string) string { return u.filter + ".has." + claimWord(claim) }

func (u claimUse) headerParam(header string) string {
	return u.filter + ".to." + ir.Quote(header, ir.InName)
}

// names are what the lines have of a rule.
func (u claimUse) names(rule *routing.Rule) []string {
	var names []string
	headers, required := u.of(rule)
	for _, header := range headers {
		names = append(names, fmt.Sprintf("%s %q", u.filter, header))
	}
	for _, claim := range required {
		names = append(names, u.filter+" has "+claim.Claim)
	}
	return names
}

func (u claimUse) encode(in Input, p *params) {
	headers, required := u.of(in.Rule)
	for _, claim := range required {
		p.set(u.requiredParam(claim.Claim), in.List(ir.List{Expressions: anyOf(claim.Values)}))
	}
	for _, header := range headers {
		p.set(u.headerParam(header.Name), claimWord(header.Claim))
	}
}

// requiredRules let only requests pass whose claims are what rules require. Those without a valid token are refused
// before. An answer has these headers.
func (u claimUse) requiredRules(env Env, headers string) []string {
	claims := map[string]bool{}
	for _, rule := range env.Rules {
		_, required := u.of(rule)
		for _, claim := range required {
			claims[claim.Claim] = true
		}
	}
	var rules []string
	for _, path := range slices.Sorted(maps.Keys(claims)) {
		required := has(u.requiredParam(path))
		rules = append(rules, "http-request unset-var(txn.jwt_has) if "+required)
		rules = append(rules, listRules("has", jsonPath(path), claimText(path), " if "+required, false)...)
		rules = append(rules, `http-request set-var-fmt(txn.jwt_has) "%[`+param(u.requiredParam(path))+`]\n%[var(txn.jwt_has)]" if `+required)
		rules = append(rules, env.refuse(403, "the token lacks a claim", headers,
			required+" !{ var(txn.jwt_has),map_regm("+env.Paths.Map(ir.ConditionsFile)+") -m found }")...)
	}
	return rules
}

// headerRules remove the headers for claims from requests, and add them.
func (u claimUse) headerRules(rules []*routing.Rule) (remove, add []string) {
	claims := map[string]map[string]bool{}
	for _, rule := range rules {
		headers, _ := u.of(rule)
		for _, header := range headers {
			if claims[header.Name] == nil {
				claims[header.Name] = map[string]bool{}
			}
			claims[header.Name][header.Claim] = true
		}
	}
	for _, header := range slices.Sorted(maps.Keys(claims)) {
		name := ir.Quote(header, ir.InName)
		remove = append(remove, "http-request del-header "+name+" if "+has(u.headerParam(header)))
		for _, path := range slices.Sorted(maps.Keys(claims[header])) {
			limited := " if " + is(u.headerParam(header), claimWord(path)) + " { " + inQuotes(claim(jsonPath(path))) + " -m found }"
			add = append(add, "http-request set-header "+name+" "+inQuotes("%["+claimText(path)+"]")+limited)
		}
	}
	return remove, add
}
