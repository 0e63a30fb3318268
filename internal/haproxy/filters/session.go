package filters

import (
	"slices"

	"gateway/internal/model"
	"gateway/internal/routing"
)

// keepSession notes the cookie of a session before other filters remove the header. The parameter "keep" is its name.
// session puts it back when all headers are changed. HAProxy looks for it when all rules are done, and takes it away
// itself.
var keepSession, session = filter{
	encode: func(in Input, p *params) {
		if affinity := in.Rule.Affinity; affinity != nil && in.Target != nil && clearsCookies(in.Rule, in.Target) {
			p.set("keep", affinity.Cookie(in.Target.Backend))
		}
	},
	rules: func(Env) Rules {
		return Rules{Request: []string{
			`http-request set-var-fmt(txn.cookies) "%[` + text("keep") + `]=\n%[req.fhdr(cookie)]" if ` + has("keep"),
			`http-request set-var(txn.cookies) 'var(txn.cookies),regsub("^([^\x0A]+)\x0A(?:.*[;,])?[\x09\x20]*+\1([^;,]*).*$","\1\2")'` + isKept,
		}}
	},
}, filter{
	rules: func(Env) Rules {
		return Rules{Request: []string{`http-request add-header cookie "%[var(txn.cookies)]"` + isKept + ` !{ var(txn.cookies) -m sub "\n" }`}}
	},
}

const isKept = " if { var(txn.cookies) -m found }"

// clearsCookies reports whether the filters of a rule or of a target may remove the header of cookies.
func clearsCookies(rule *routing.Rule, target *routing.Target) bool {
	const cookie = "cookie"
	auth := rule.ExternalAuth
	return slices.ContainsFunc(changesFor(rule, target).Request, func(c routing.HeaderChange) bool { return c.Name == cookie && c.Clear }) ||
		slices.ContainsFunc(rule.HeaderVariables, func(v model.HeaderVariable) bool { return v.Name == cookie }) ||
		auth != nil && (auth.Repeat && len(auth.ResponseHeaders) == 0 || slices.Contains(auth.ResponseHeaders, cookie))
}
