package filters

import (
	"net/url"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// passwordTime is how long a password check may take while others are being checked.
const passwordTime = 10 * time.Second

// basic asks for a user and a password. gateway-keys checks them, like a Service that decides about requests. The
// backend does not get the password.
var basic = filter{
	guard: "BasicAuth", param: "basic", mayStay: true,
	encode: func(in Input, p *params) {
		basic := in.Rule.BasicAuth
		if basic == nil {
			return
		}
		keep := []string{basic.UserHeader}
		if basic.UserHeader == "" {
			keep = nil
		}
		path := "/?" + url.Values{ir.SecretParameter: {basic.Secret}, ir.RealmParameter: {basic.Realm}, ir.HeaderParameter: {basic.UserHeader}}.Encode()
		question{ir.UsersBackend, path, []string{"authorization"}, keep, passwordTime}.encode("basic", p)
	},
	rules: func(env Env) Rules {
		if !HasBasic(env.Table) {
			return Rules{}
		}
		refuse := "http-request return " + env.Answer(401, "the request needs a user and a password") +
			` hdr www-authenticate "%[var(txn.challenge)]" if ` + has("basic") + " { var(txn.challenge) -m found }"
		return Rules{Request: append(questionRules(env, "basic", refuse), "http-request del-header authorization if "+has("basic"))}
	},
}

// HasBasic reports whether any rule asks for a user and a password.
func HasBasic(table routing.Table) bool {
	found := false
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) { found = found || rule.BasicAuth != nil })
	return found
}
