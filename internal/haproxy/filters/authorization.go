package filters

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

func init() { after(&jwt, &authz) }

// authz answers 403 to requests that no rule of a list allows. The parameter "authz.rules" names a list of regular
// expressions, and "authz" has a letter for each, "A" for what is allowed. "authz.claim.CLAIM" is there for each claim
// that a rule asks for. The first expression that matches a text counts:
//
//	?LIST
//	METHOD
//	ADDRESS    in hexadecimal, if a rule asks for it
//	CLIENT     its name; empty: not known
//	PATH       in its canonical form
//	CLAIMS     by their names: each a list as JSON has it, empty, or unread, and the byte 1
//
// No line has line breaks, and no claim the byte 1, so none passes for another one. What has another form all the same,
// as where a NUL cuts it, meets the first expression, which denies it. Each expression takes a byte a few times at
// most, so PCRE does not give up.
var authz = filter{
	guard: "Authorization", param: "authz", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return rule.Authorization != nil },
	names: func(rule *routing.Rule) []string {
		var names []string
		for _, claim := range authorizationClaims(rule) {
			names = append(names, "authorization by "+claim)
		}
		return names
	},
	needsClient: func(rule *routing.Rule) bool {
		return rule.Authorization != nil && slices.ContainsFunc(rule.Authorization.Rules, func(one model.AuthorizationRule) bool { return len(one.Addresses) > 0 })
	},
	check: checkAuthorization,
	encode: func(in Input, p *params) {
		claims := authorizationClaims(in.Rule)
		letters, expressions := "D", []string{`\n(?![^\n]*+\n[0-9A-F]*+\n[^\n]*+\n/[^\n]*+\n` + strings.Repeat(anyClaim, len(claims)) + `\z)`}
		for i := range in.Rule.Authorization.Rules {
			rule := &in.Rule.Authorization.Rules[i]
			letters += map[bool]string{true: "A", false: "D"}[rule.Allow]
			expressions = append(expressions, authorizationExpression(rule, claims))
		}
		p.set("authz", letters)
		p.set("authz.rules", in.List(ir.List{Expressions: expressions}))
		for _, claim := range claims {
			p.set(authorizationParam(claim), "1")
		}
	},
	rules: func(env Env) Rules {
		limited := " if " + has("authz")
		lines := append([]string{"http-request set-var(txn.authz_address) var(txn.client),hex" + limited}, readClaims(env)...)
		return Rules{Request: slices.Concat(lines, []string{
			`http-request set-var-fmt(txn.authz) "%[` + param("authz.rules") + `]\n%[method]\n%[var(txn.authz_address)]\n%[var(txn.client_name)]\n%[var(txn.clean)]\n%[var(txn.authz_claims)]"` + limited,
			"http-request set-var(txn.authz_rule) var(txn.authz),map_regm(" + env.Paths.Map(ir.ConditionsFile) + "),add(0)" + limited,
		}, env.refuse(403, "the request is not allowed", "", has("authz")+" !{ "+param("authz")+",bytes(txn.authz_rule,1) -m str A }"))}
	},
	describe: func(rule *routing.Rule) []string {
		texts := make([]string, len(rule.Authorization.Rules))
		for i := range texts {
			texts[i] = authorizationText(&rule.Authorization.Rules[i])
		}
		return []string{"Authorization: " + strings.Join(texts, "; ") + "; else 403"}
	},
}

func authorizationParam(claim string) string { return "authz.claim." + claimWord(claim) }

// authorizationClaims returns the claims that the rules of an Authorization ask for, sorted.
func authorizationClaims(rule *routing.Rule) []string {
	claims := map[string]bool{}
	if rule.Authorization != nil {
		for i := range rule.Authorization.Rules {
			for _, claim := range rule.Authorization.Rules[i].Claims {
				claims[claim.Claim] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(claims))
}

// maxAuthorization is the longest expression for a rule.
const maxAuthorization = 8000

// checkAuthorization returns why an Authorization cannot be carried out, "" if it can.
func checkAuthorization(rule *routing.Rule) string {
	claims := authorizationClaims(rule)
	for i := range rule.Authorization.Rules {
		one := &rule.Authorization.Rules[i]
		isOdd := func(path string) bool { _, ok := routing.CanonicalPath(path); return !ok }
		missing := slices.IndexFunc(one.Claims, func(c model.RequiredClaim) bool { return isMissing(rule, c.Claim) })
		switch {
		case missing >= 0:
			return fmt.Sprintf("authorization.rules[%d] asks for the claim %s, which no session of an OIDC has: remove it", i, one.Claims[missing].Claim)
		case len(one.Claims) > 0 && rule.JWT == nil && rule.OIDC == nil:
			return fmt.Sprintf("authorization.rules[%d] asks for claims, which needs a JWT or an OIDC: add one, or remove claims", i)
		case len(one.Clients) > 0 && !namesClients(rule):
			return fmt.Sprintf("authorization.rules[%d] asks for clients, which needs an APIKey or a BasicAuth: add one, or remove clients", i)
		case slices.ContainsFunc(one.Paths, isOdd):
			return fmt.Sprintf("authorization.rules[%d] has a path that no request can have: remove it", i)
		case len(authorizationExpression(one, claims)) > maxAuthorization:
			return fmt.Sprintf("authorization.rules[%d] is too long: make two of it", i)
		}
	}
	return ""
}

// readClaims add the claims of a token or session to txn.authz_claims. A claim that is neither missing, null nor an
// empty list is unread if it is not a text or a list of texts. Without a valid token or session, all claims are
// unread.
func readClaims(env Env) []string {
	claims := map[string]bool{}
	for _, rule := range env.Rules {
		for _, claim := range authorizationClaims(rule) {
			claims[claim] = true
		}
	}
	var lines []string
	for _, claim := range slices.Sorted(maps.Keys(claims)) {
		limited := " if " + has(authorizationParam(claim))
		lines = append(lines, "http-request unset-var(txn.jwt_has)"+limited)
		lines = append(lines, listRules("has", jsonPath(claim), claimText(claim), limited, false)...)
		lines = append(lines,
			"http-request set-var(txn.jwt_has) str("+unreadClaim+")"+limited+" !{ var(txn.jwt_has) -m found } !{ var(txn.jwt_text) -m reg '"+lacks(ClaimNames(claim))+"' }",
			`http-request set-var-fmt(txn.authz_claims) "%[var(txn.authz_claims)]%[var(txn.jwt_has)]\x01"`+limited,
		)
	}
	return lines
}

// unreadClaim stands for a claim that cannot be read. anyClaim is the expression for the end of one, and all of it.
const (
	unreadClaim = "-"
	anyClaim    = `[^\x01]*+\x01`
)

// authorizationExpression returns the expression for the requests that meet a rule, after the name of the list. A rule
// that denies also matches unknown values, and methods in another case, which some backends take for the same.
func authorizationExpression(rule *model.AuthorizationRule, claims []string) string {
	var b strings.Builder
	b.WriteString(`\n`)
	line := func(texts []string) {
		switch {
		case len(texts) == 0:
			b.WriteString(`[^\n]*+\n`)
		case rule.Allow:
			b.WriteString(`(?:` + strings.Join(texts, "|") + `)\n`)
		default:
			b.WriteString(`(?:` + strings.Join(texts, "|") + `|)\n`)
		}
	}
	methods := quoteAll(rule.Methods)
	if !rule.Allow && len(methods) > 0 {
		methods = []string{"(?i:" + strings.Join(methods, "|") + ")"}
	}
	line(methods)
	var addresses []string
	for _, prefix := range rule.Addresses {
		digits, prefixes := hexPrefixes(prefix.Masked())
		for _, start := range prefixes {
			addresses = append(addresses, fmt.Sprintf("%s[0-9A-F]{%d}", start, digits-len(start)))
		}
	}
	line(addresses)
	line(quoteAll(rule.Clients))
	var paths []string
	for _, path := range rule.Paths {
		paths = append(paths, pathExpression(path, rule.Allow))
	}
	line(paths)
	for _, claim := range claims {
		i := slices.IndexFunc(rule.Claims, func(c model.RequiredClaim) bool { return c.Claim == claim })
		switch {
		case i < 0:
			b.WriteString(anyClaim)
		default:
			b.WriteString(claimExpression(rule.Claims[i].Values, rule.Allow) + anyClaim)
		}
	}
	return b.String()
}

func quoteAll(texts []string) []string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = regex.Quote(text)
	}
	return quoted
}

// pathExpression returns the expression for a path and the paths below it. A denied path is denied with parameters,
// too: some backends drop these, and then join the slashes before and after.
func pathExpression(path string, allow bool) string {
	canonical, _ := routing.CanonicalPath(path)
	before, parameters := `(?:\x2F;[^\x2F\n]*+)*?`, `(?:;[^\x2F\n]*+)?+`
	if allow {
		before, parameters = "", ""
	}
	expression := ""
	for segment := range strings.SplitSeq(strings.Trim(canonical, "/"), "/") {
		if segment != "" {
			expression += before + `\x2F` + regex.Quote(segment) + parameters
		}
	}
	return expression + `(?:\x2F[^\n]*+)?+`
}

// claimExpression returns the expression for the beginning of a claim that is one of some texts, or a list with one. In
// a rule that denies, one that is unread will do, and so does a list without texts, which is read as a text.
func claimExpression(values []string, allow bool) string {
	found := `[^\x01]*?[\x5B,\x09\x0A\x0D\x20]"(?:` + strings.Join(quoteAll(values), "|") + `)"`
	if allow {
		return `(?>` + found + `)`
	}
	return `(?>` + regex.Quote(unreadClaim) + `(?=\x01)|\x5B"\x5B(?![\x20\t\n\r]*\x5D"\x5D)|` + found + `)`
}

// authorizationText describes a rule to users.
func authorizationText(rule *model.AuthorizationRule) string {
	text := map[bool]string{true: "allow", false: "deny"}[rule.Allow]
	add := func(what string, values []string) {
		if len(values) > 0 {
			text += " " + what + strings.Join(values, " or ")
		}
	}
	add("", rule.Methods)
	add("path ", rule.Paths)
	if len(rule.Addresses) > 0 {
		text += " address in " + rangesText(rule.Addresses)
	}
	add("client ", rule.Clients)
	for _, claim := range rule.Claims {
		add("claim "+claim.Claim+" ", claim.Values)
	}
	if !strings.Contains(text, " ") {
		text += " all"
	}
	return text
}

// Facts are the known facts about a request.
type Facts struct {
	Method, Path string
	// Client is not valid if the address of the client is not known.
	Client netip.Addr
	// Name returns the name of the client, Claim the texts of a claim; false: unknown.
	Name  func() (string, bool)
	Claim func(path string) ([]string, bool)
}

// NotAllowed returns why an Authorization is certain to refuse a request; "": it does not, or nobody knows.
func NotAllowed(rule *routing.Rule, facts Facts) string {
	if rule.Authorization == nil {
		return ""
	}
	mayPass := false
	for i := range rule.Authorization.Rules {
		one := &rule.Authorization.Rules[i]
		meets, isKnown := facts.meets(one)
		switch {
		case !isKnown:
			mayPass = mayPass || one.Allow
		case meets && !one.Allow && !mayPass:
			return fmt.Sprintf("rules[%d] denies it", i)
		case meets:
			return ""
		}
	}
	if mayPass {
		return ""
	}
	return "no rule allows it"
}

// meets reports whether a request meets a rule, and whether that is known.
func (f Facts) meets(rule *model.AuthorizationRule) (meets, isKnown bool) {
	isKnown = true
	isMethod := func(method string) bool {
		return method == f.Method || !rule.Allow && strings.EqualFold(method, f.Method)
	}
	if len(rule.Methods) > 0 && !slices.ContainsFunc(rule.Methods, isMethod) {
		return false, true
	}
	if len(rule.Paths) > 0 && !slices.ContainsFunc(rule.Paths, func(path string) bool { return isBelow(f.Path, path, !rule.Allow) }) {
		return false, true
	}
	if len(rule.Addresses) > 0 {
		switch {
		case !f.Client.IsValid():
			isKnown = false
		case !slices.ContainsFunc(rule.Addresses, func(p netip.Prefix) bool { return p.Contains(f.Client) }):
			return false, true
		}
	}
	if len(rule.Clients) > 0 {
		name, known := f.Name()
		if known && !slices.Contains(rule.Clients, name) {
			return false, true
		}
		isKnown = isKnown && known
	}
	for _, claim := range rule.Claims {
		texts, known := f.Claim(claim.Claim)
		if known && !slices.ContainsFunc(texts, func(text string) bool { return slices.Contains(claim.Values, text) }) {
			return false, true
		}
		isKnown = isKnown && known
	}
	return true, isKnown
}

// isBelow reports whether a canonical path is another one, or below it. With parameters, it ignores parameters of
// segments, and segments without anything else.
func isBelow(path, other string, withParameters bool) bool {
	canonical, _ := routing.CanonicalPath(other)
	segments := strings.Split(path, "/")
	for segment := range strings.SplitSeq(strings.TrimRight(canonical, "/"), "/") {
		isIt := func(name string) bool {
			return name == segment || withParameters && strings.HasPrefix(name, segment+";")
		}
		for withParameters && segment != "" && len(segments) > 0 && strings.HasPrefix(segments[0], ";") && !isIt(segments[0]) {
			segments = segments[1:]
		}
		if len(segments) == 0 || !isIt(segments[0]) {
			return false
		}
		segments = segments[1:]
	}
	return true
}
