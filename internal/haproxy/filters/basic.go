package filters

import (
	"fmt"
	"net/url"
	"slices"
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
	isUsed: hasBasic,
	encode: func(in Input, p *params) {
		basic := in.Rule.BasicAuth
		keep := []string{basic.ClientHeader}
		if basic.ClientHeader == "" {
			keep = nil
		}
		if in.Rule.Shadows("BasicAuth") {
			drops(p, "basic", keep)
		}
		path := "/?" + url.Values{ir.SecretParameter: {basic.Secret}, ir.RealmParameter: {basic.Realm}}.Encode()
		question{ir.UsersBackend, path, []string{"authorization"}, keep, passwordTime}.encode("basic", p)
	},
	rules: func(env Env) Rules {
		refuse := env.refuse(401, "the request needs a user and a password", ` hdr www-authenticate "%[var(txn.challenge)]"`,
			has("basic")+" { var(txn.challenge) -m found }")
		// In shadow, the backend gets what the client sent: it may know the user by that, as before.
		forget := "http-request del-header authorization if " + has("basic")
		if env.isShadow {
			forget += " !" + inShadow
		}
		return Rules{Request: slices.Concat(askerLines(), questionRules(env, "basic", refuse...), []string{forget})}
	},
	add: func(env Env, config *ir.Config) {
		addQuestions(env, config)
		config.Sections = append(config.Sections, usersSection(env.Paths))
	},
	describe: func(rule *routing.Rule) []string {
		return []string{fmt.Sprintf("BasicAuth: a user of Secret %s, else 401", rule.BasicAuth.Secret)}
	},
}

// askerLines note whose question it is, by networks of 64 bits: the client, or the one that a proxy in front of the
// gateway names. Nobody knows whether that proxy is trusted, so this decides nothing but who takes others' places.
func askerLines() []string {
	const client, before = "req.hdr_ip(x-forwarded-for,-1)", "req.hdr_ip(x-forwarded-for,-2)"
	return []string{
		"http-request set-var(txn.asker) " + client + ",ipmask(32,64) if " + has("basic"),
		"http-request set-var(txn.asker) " + before + ",ipmask(32,64) if " + has("basic") + " { " + before + " -m found }",
	}
}

// usersSection is where gateway-keys is asked about users. In a pod that does not mount their Secret yet, it does not
// run.
func usersSection(paths ir.Paths) ir.Section {
	lines := []string{"timeout server 10s"}
	if socket := paths.UsersSocket; socket != "" {
		lines = append(lines, "server keys unix@"+socket)
	}
	return spare(ir.ReloadSettings, "backend "+ir.UsersBackend+" from common", lines...)
}

func hasBasic(rule *routing.Rule) bool { return rule.BasicAuth != nil }
