package filters

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

// cors implements the CORS protocol (Fetch standard, section 3.3). CORS headers of backends are replaced.
//
// The parameter "cors" is "*" or the name of a list of the allowed origins. An origin that is not allowed gets no
// header, so the browser refuses it the answer. Where every origin is allowed, an answer has the header even if the
// request names no origin, as for an image: a cache may give it to a script. Browsers take "*" literally in answers to
// requests with credentials, so these repeat what the request asks for: a list has any origin where there may be
// credentials, and "?" stands for all methods or headers then. Exposed headers have no such word.
var cors = filter{
	encode: func(in Input, p *params) {
		cors := in.Rule.CORS
		if cors == nil {
			return
		}
		switch {
		case slices.Contains(cors.Origins, "*") && cors.Credentials:
			p.set("cors", in.List(ir.List{Expressions: []string{`\n[^\n]*\n`}}))
		case slices.Contains(cors.Origins, "*"):
			p.set("cors", "*")
		default:
			p.set("cors", in.List(ir.List{Expressions: originExpressions(cors.Origins)}))
		}
		p.set("cors.max-age", strconv.Itoa(int(cors.MaxAge)))
		every, expose := "*", cors.Expose
		if cors.Credentials {
			p.set("cors.credentials", "1")
			every = asked
			expose = slices.DeleteFunc(slices.Clone(expose), func(name string) bool { return name == "*" })
		}
		setNames(p, "cors.methods", cors.Methods, every)
		setNames(p, "cors.headers", cors.Headers, every)
		setNames(p, "cors.expose", expose, every)
	},
	rules: func(env Env) Rules {
		const (
			preflight = "{ var(txn.preflight) -m found }"
			allowed   = "{ var(txn.allowed) -m found }"
			// No origin that a rule can name is longer.
			oneOrigin = "{ req.fhdr_cnt(origin) eq 1 } { req.fhdr(origin) -m len lt 400 }"
		)
		cors, credentials := has("cors"), has("cors.credentials")
		return Rules{
			Request: []string{
				"http-request set-var(txn.cors) " + param("cors"),
				"http-request set-var(txn.allowed) str(*) if { var(txn.cors) -m str * }",
				`http-request set-var-fmt(txn.origin) "%[var(txn.cors)]\n%[req.fhdr(origin)]\n" if { var(txn.cors) -m beg ? } ` + oneOrigin,
				"http-request set-var(txn.allowed) req.fhdr(origin) if { var(txn.origin),map_regm(" + env.Paths.Map(ir.ConditionsFile) + ") -m found }",
				"http-request set-var(txn.preflight) bool(true) if { var(txn.cors) -m found } { method OPTIONS } { req.fhdr_cnt(origin) gt 0 } { req.fhdr_cnt(access-control-request-method) gt 0 }",
				"http-request set-var(txn.methods) " + text("cors.methods") + " if " + preflight + " !" + is("cors.methods", asked),
				"http-request set-var(txn.methods) req.fhdr(access-control-request-method) if " + preflight + " " + is("cors.methods", asked),
				"http-request set-var(txn.headers) " + text("cors.headers") + " if " + preflight + " !" + is("cors.headers", asked),
				"http-request set-var(txn.headers) req.fhdr(access-control-request-headers) if " + preflight + " " + is("cors.headers", asked),
				"http-request return status 204 if " + preflight,
			},
			Response: []string{"http-response del-header access-control- -m beg if " + cors},
			AfterResponse: []string{
				`http-after-response set-header access-control-allow-origin "%[var(txn.allowed)]" if ` + allowed,
				"http-after-response set-header access-control-allow-credentials true if " + allowed + " " + credentials,
				`http-after-response set-header access-control-allow-methods "%[var(txn.methods)]" if ` + allowed + " { var(txn.methods) -m found }",
				`http-after-response set-header access-control-allow-headers "%[var(txn.headers)]" if ` + allowed + " { var(txn.headers) -m found }",
				`http-after-response set-header access-control-max-age "%[` + param("cors.max-age") + `]" if ` + allowed + " " + preflight,
				`http-after-response set-header access-control-expose-headers "%[` + text("cors.expose") + `]" if ` + allowed + " " + has("cors.expose"),
				"http-after-response add-header vary Origin if { " + param("cors") + " -m beg ? }",
			},
		}
	},
	describe: func(rule *routing.Rule) []string {
		if rule.CORS == nil {
			return nil
		}
		text := fmt.Sprintf("CORS: pages of %s may use it", strings.Join(rule.CORS.Origins, ", "))
		if rule.CORS.Credentials {
			text += ", with cookies"
		}
		return []string{text}
	},
}

// asked stands for the methods and headers that a request asks for.
const asked = "?"

// setNames sets a parameter to names, or to every where "*" is one of them.
func setNames(p *params, parameter string, names []string, every string) {
	switch {
	case slices.Contains(names, "*"):
		p.set(parameter, every)
	case len(names) > 0:
		p.set(parameter, strings.Join(names, ", "))
	}
}

// originsPerExpression keeps an expression within a line of a map.
const originsPerExpression = 5

// originExpressions returns the list that finds an allowed origin, which is the one line after the name of the list.
func originExpressions(origins []string) []string {
	var expressions []string
	for chunk := range slices.Chunk(origins, originsPerExpression) {
		alternatives := make([]string, len(chunk))
		for i, origin := range chunk {
			alternatives[i] = originExpression(origin)
		}
		expressions = append(expressions, `\n(?:`+strings.Join(alternatives, "|")+`)\n`)
	}
	return expressions
}

// originExpression has the default port of the scheme with or without its number. Browsers leave it out.
func originExpression(origin string) string {
	scheme, host, _ := strings.Cut(origin, "://")
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	expression := regex.Quote(scheme + "://")
	if suffix, ok := strings.CutPrefix(host, "*."); ok {
		expression += `[a-z0-9\x2D\x2E]+`
		host = "." + suffix
	}
	named, isDefault := strings.CutSuffix(host, port)
	expression += regex.Quote(named)
	if isDefault || !strings.Contains(host, ":") {
		expression += "(?:" + regex.Quote(port) + ")?"
	}
	return expression
}
