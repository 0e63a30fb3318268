package filters

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/login"
	"gateway/internal/model"
	"gateway/internal/routing"
)

func init() { after(&jwt, &oidc) }

// loginTime is how long gateway-login may take, which asks the provider.
const loginTime = 15 * time.Second

// oidc lets users through who have logged in. The parameter "oidc" is the Secret with the keys of sessions,
// "oidc.binding" is what a session is bound to, in Base64. "oidc.issuer" stands for the provider, "oidc.own" comes before the
// paths that gateway-login answers in any case. "oidc.ask" leads to the question in keys.map: it is long, and most requests need none. A session has a
// token if the backend gets one.
//
// HAProxy decrypts a session by itself, with a key that gateway-keys tells it of, so no program is asked about most
// requests. gateway-login is asked about all others: those without a session that is valid, and those whose session is
// to be renewed. It answers them, or tells HAProxy of a session.
var oidc = filter{
	guard: "OIDC", param: "oidc", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return rule.OIDC != nil },
	names:  func(rule *routing.Rule) []string { return oidcClaims.names(rule) },
	encode: func(in Input, p *params) {
		oidc := in.Rule.OIDC
		settings := oidc.Login
		p.set("oidc", settings.Secret)
		p.set("oidc.binding", base64.StdEncoding.EncodeToString([]byte(settings.SessionBinding())))
		oidcClaims.encode(in, p)
		p.set("oidc.issuer", ir.ContentName(settings.Issuer))
		p.set("oidc.own", settings.Path)
		p.set("oidc.ask", in.Content(ir.KeysFile, func() []ir.MapEntry { return []ir.MapEntry{{Key: questionKey, Value: settings.Question()}} }))
	},
	rules: oidcRules,
	add: func(env Env, config *ir.Config) {
		addQuestions(env, config)
		lines := []string{"timeout server " + fmt.Sprint(int(loginTime/time.Second)) + "s"}
		if socket := env.Paths.LoginSocket; socket != "" {
			lines = append(lines, "server login unix@"+socket)
		}
		config.Sections = append(config.Sections, spare(ir.ReloadSettings, "backend "+ir.LoginBackend+" from common", lines...))
	},
	describe: func(rule *routing.Rule) []string {
		claims := ""
		for _, required := range rule.OIDC.Claims {
			claims += "; with " + required.Claim + " of " + strings.Join(required.Values, " or ") + ", else 403"
		}
		return []string{fmt.Sprintf("OIDC: a user who has logged in at %s, else a redirect there, or 401%s", rule.OIDC.Login.Issuer, claims)}
	},
}

// oidcClaims are the claims of sessions.
var oidcClaims = claimUse{"oidc", func(rule *routing.Rule) (headers []model.ClaimHeader, required []model.RequiredClaim) {
	if rule.OIDC == nil {
		return nil, nil
	}
	return rule.OIDC.Headers, rule.OIDC.Claims
}}

// loginSends are the headers of a request that gateway-login gets.
const loginSends = "accept,cookie,sec-fetch-mode,sec-fetch-site,x-requested-with"

// questionKey is the key of a question, after what "oidc.ask" says.
const questionKey = "/question"

const (
	// needsSession is the condition that the request needs a session, hasSession that it has one that is valid, isAsked
	// that gateway-login was asked.
	needsSession = "{ var(txn.login_secret) -m found }"
	hasSession   = "{ var(txn.login_valid) -m bool }"
	isAsked      = "{ var(txn.login_asked) -m bool }"
	// loginCookies are the cookies of logins and sessions, with what comes before each.
	loginCookies = `(?:^|[;,])[ \t]*+__Host-gateway-[^;,]*+`
)

func oidcRules(env Env) Rules {
	const cookie = login.SessionCookie
	// isNow is the condition that the time in a field of the session is yet to come.
	isNow := func(field string) string {
		return "{ var(txn.login_text),field(" + field + ",|),sub(txn.login_now) gt 0 }"
	}
	remove, add := oidcClaims.headerRules(env.Rules)
	rules := slices.Concat(remove, []string{"http-request set-var(txn.login_secret) " + param("oidc")},
		// Of several headers with cookies, not all could be removed. Browsers have one, and so has a request of HTTP/2.
		env.refuse(400, "the request has several headers with cookies", "", needsSession+" { req.fhdr_cnt(cookie) gt 1 }"),
		[]string{
			"http-request set-var(txn.login_now) date if " + needsSession,
			"http-request set-var(txn.login_sealed) req.cook(" + cookie + ") if " + needsSession + " { req.cook_cnt(" + cookie + ") eq 1 }",
		}, openRules(env, "{ var(txn.login_sealed) -m found }"), []string{
			"http-request set-var(txn.login_valid) bool(true) if " + isNow("2"),
			"http-request set-var(txn.login_asked) bool(true) if " + needsSession + " !" + hasSession,
			"http-request set-var(txn.login_path) " + inQuotes("path,regsub('/[a-z]+$','')") + " if " + hasSession + " { path -m end " + login.CallbackPath + " " + login.LogoutPath + " }",
			"http-request set-var(txn.login_asked) bool(true) if { var(txn.login_path) -m found } { " + text("oidc.own") + ",strcmp(txn.login_path) eq 0 }",
			"http-request set-var(txn.auth) str(" + ir.LoginBackend + ") if " + isAsked,
			"http-request set-var(txn.login_issuer) " + param("oidc.issuer") + " if " + isAsked,
			"http-request set-var(txn.auth_path) " + param("oidc.ask") + ",concat(" + questionKey + "),map_str(" + env.Paths.Map(ir.KeysFile) + ") if " + isAsked,
			"http-request set-var(txn.auth_send) " + inQuotes("str('"+loginSends+"')") + " if " + isAsked,
			"http-request set-var(txn.auth_keep) str(" + login.SessionHeader + ") if " + isAsked,
			fmt.Sprintf("http-request set-var(txn.auth_filters) str(timeout=%d&once=1) if %s", loginTime.Milliseconds(), isAsked),
		}, askRules(env, isAsked), []string{
			"http-request unset-var(txn.login_text) if " + isAsked,
			"http-request set-var(txn.login_text) req.fhdr(" + login.SessionHeader + "),b64dec if " + isAsked,
		}, env.refuse(503, "the session is not valid", "", needsSession+" !"+isNow("1")), []string{
			"http-request del-header " + login.SessionHeader + " if " + needsSession,
			"http-request set-var(txn.jwt_text) var(txn.login_text),field(4,|,0) if " + needsSession,
			"http-request set-var(txn.jwt_iss) " + param("oidc.binding") + " if " + needsSession,
			"http-request set-header cookie " + inQuotes("%[req.fhdr(cookie),regsub('"+loginCookies+"',,g),regsub('^[;, ]+',)]") + " if " + needsSession,
			"http-request del-header cookie if " + needsSession + " { req.fhdr(cookie) -m len 0 }",
			"http-request set-header authorization " + inQuotes("Bearer %[var(txn.login_text),field(3,|)]") + " if " + needsSession + " !{ var(txn.login_text),field(3,|) -m len 0 }",
		}, oidcClaims.requiredRules(env, ""), add)
	return Rules{Request: rules, AfterResponse: cookieRules(env)}
}

// openRules decrypt txn.login_sealed, where it is there. Its parts have fixed places, as login.Keys.Seal makes them, so
// nobody can try a short tag: what is in the place of the tag has 16 bytes, or is none.
func openRules(env Env, isThere string) []string {
	part := func(name, expression string) string {
		return "http-request set-var(txn.login_" + name + ") " + expression + " if " + isThere
	}
	return []string{
		part("key", "var(txn.login_sealed),bytes(0,8),concat(/,txn.login_secret),map_str("+env.Paths.SessionKeysMap()+")"),
		part("binding", param("oidc.binding")),
		part("nonce", "var(txn.login_sealed),bytes(9,16)"),
		part("tag", "var(txn.login_sealed),bytes(26,24)"),
		part("text", "var(txn.login_sealed),bytes(51),b64dec,aes_gcm_dec(256,txn.login_nonce,txn.login_key,txn.login_tag,txn.login_binding)"),
	}
}

// cookieRules give the client the cookies of an answer that let its request through, unless auth has such rules.
func cookieRules(env Env) []string {
	if auth.isNeeded(env) {
		return nil
	}
	return []string{authCookies}
}
