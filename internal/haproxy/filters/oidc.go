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

// loginTime is how long gateway-login may take, which asks the provider, and renewTime how long while there is a
// session.
const loginTime, renewTime = 15 * time.Second, 2 * time.Second

// oidc lets users through who have logged in. The parameter "oidc" is the Secret with the keys of sessions,
// "oidc.binding" is what a session is bound to, in Base64. "oidc.issuer" stands for the provider, "oidc.own" comes
// before the paths that gateway-login answers in any case. "oidc.ask" leads to the question in keys.map: it is long,
// and most requests need none. A session has a token if the backend gets one.
//
// HAProxy decrypts a session by itself, with a key that gateway-keys tells it of, so no program is asked about most
// requests. gateway-login is asked about all others: those without a session that is valid, and those whose session is
// to be renewed. It answers them, or tells HAProxy of a session. What HAProxy decides is what gateway-login would: it
// asks about cookies of an unusual form, and about requests that are not encrypted.
var oidc = filter{
	guard: "OIDC", param: "oidc", mayStay: true,
	isUsed: func(rule *routing.Rule) bool { return rule.OIDC != nil },
	names:  func(rule *routing.Rule) []string { return oidcClaims.names(rule) },
	check: func(rule *routing.Rule) string {
		for _, required := range rule.OIDC.Claims {
			if isMissing(rule, required.Claim) {
				return fmt.Sprintf("oidc.requiredClaims asks for the claim %s, which no session has: remove it", required.Claim)
			}
		}
		for _, header := range rule.OIDC.Headers {
			if isMissing(rule, header.Claim) {
				return fmt.Sprintf("oidc.claimsToHeaders has the claim %s for the header %s, which no session has: remove it", header.Claim, header.Name)
			}
		}
		return ""
	},
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
		lines := []string{"http-request set-timeout server " + param("timeout") + ",add(0)"}
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

// isMissing reports whether users of a rule log in, and their sessions never have a claim: nobody could tell it from
// one that the ID token lacks, so that a rule which denies it would not apply.
func isMissing(rule *routing.Rule, claim string) bool {
	return rule.OIDC != nil && slices.Contains(login.OfTokens, ClaimNames(claim)[0])
}

// oidcClaims are the claims of sessions.
var oidcClaims = claimUse{"oidc", func(rule *routing.Rule) (headers []model.ClaimHeader, required []model.RequiredClaim) {
	if rule.OIDC == nil {
		return nil, nil
	}
	return rule.OIDC.Headers, rule.OIDC.Claims
}}

// loginSends are the headers of a request that gateway-login gets, beside cookies.
const loginSends = "accept,origin,referer,sec-fetch-mode,sec-fetch-site,x-requested-with"

// questionKey is the key of a question, after what "oidc.ask" says.
const questionKey = "/question"

const (
	// needsSession is the condition that the request needs a session, isLive that it has one that is valid and that no
	// question but a renewal is about, isAsked that gateway-login is asked.
	needsSession = "{ var(txn.login_secret) -m found }"
	isLive       = "{ var(txn.login_live) -m bool }"
	isAsked      = "{ var(txn.login_asked) -m bool }"
	// hasCookies is the condition that the request has, or had, cookies of logins or sessions.
	hasCookies = "{ var(txn.login_cookies) -m found }"
)

// TakeCookies returns the lines that take the cookies of logins and sessions out of requests which meet a condition, so
// that no backend, question or copy has them, whatever rule takes the request. Without a rule that has the filter,
// there are none. What there was is in txn.login_cookies, for the filter. Where a question comes before the rule, they
// are taken before it, and never again: its answer may replace the client's cookies.
//
// Of several headers with cookies, not all could be removed. Browsers have one, and so has a request of HTTP/2.
func TakeCookies(env Env, condition string) []ir.Line {
	if !oidc.isNeeded(env) || HasPreRouting(env) && !env.isPreRouting {
		return nil
	}
	const rest = `var(txn.login_cookies),regsub('(?:^|;)[ \t]*+` + login.CookiePrefix + `[^;]*+',,g),regsub('^[; \t]+',)`
	return ir.Lines(ir.ReloadNames,
		"http-request set-var(txn.login_cookies) req.fhdr(cookie) if "+condition+"{ req.fhdr(cookie) -m sub "+login.CookiePrefix+" }",
		"http-request return "+env.Answer(400, "the request has several headers with cookies")+" if "+hasCookies+" { req.fhdr_cnt(cookie) gt 1 }",
		"http-request set-var(txn.login_others) "+inQuotes(rest)+" if "+hasCookies,
		"http-request del-header cookie if "+hasCookies,
		"http-request set-header cookie %[var(txn.login_others)] if { var(txn.login_others) -m len gt 0 }",
	)
}

// GuardCookies returns the line that lets only gateway-login set session cookies: another program's cookie would be
// another session. It comes before authCookies. An empty header sets none.
func GuardCookies(env Env) []ir.Line {
	if !oidc.isNeeded(env) {
		return nil
	}
	return ir.Lines(ir.ReloadNames, `http-after-response replace-header set-cookie '^[= \t]*`+login.CookiePrefix+`.*()$' \1`)
}

// oneSession matches cookies with one session that has the form of what login.Keys.Seal makes: its parts have fixed
// places, so nobody can try a short tag, and one text alone stands for the bytes of each. Semicolons alone separate
// cookies. Of any other form, gateway-login has to make sense.
const (
	otherCookies = `(?![ \t]*` + login.SessionCookie + `[ \t]*(?:[=;]|$))[^;]*+`
	oneSession   = `^(?:` + otherCookies + `;)*+[ \t]*` + login.SessionCookie + `=` +
		`([A-Za-z0-9+/]{8}[.][A-Za-z0-9+/]{16}[.][A-Za-z0-9+/]{21}[AQgw]==[.](?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?)` +
		`(?:;` + otherCookies + `)*+$`
)

func oidcRules(env Env) Rules {
	// isNow is the condition that the time in a field of the session is yet to come.
	isNow := func(field string) string {
		return "{ var(txn.login_text),field(" + field + ",|),sub(txn.login_now) gt 0 }"
	}
	isOwn := func(path string) string {
		return " { var(txn.login_path) -m found } { " + text("oidc.own") + ",concat(" + path + "),strcmp(txn.login_path) eq 0 }"
	}
	remove, add := oidcClaims.headerRules(env.Rules)
	rules := slices.Concat(remove, []string{
		"http-request set-var(txn.login_secret) " + param("oidc"),
		"http-request set-var(txn.login_now) date if " + needsSession,
		"http-request set-var(txn.login_sealed) " + inQuotes("var(txn.login_cookies),regsub('"+oneSession+"','\\1')") + " if " + needsSession +
			" { req.fhdr(x-forwarded-proto,1) -m str https } { var(txn.login_cookies) -m reg '" + oneSession + "' }",
	}, openRules(env, "{ var(txn.login_sealed) -m found }"), []string{
		"http-request set-var(txn.login_path) path,url_dec if " + needsSession + " { path,url_dec -m end " + login.CallbackPath + " " + login.LogoutPath + " }",
		"http-request set-var(txn.login_own) bool(true) if" + isOwn(login.CallbackPath) + " or" + isOwn(login.LogoutPath),
		"http-request set-var(txn.login_live) bool(true) if " + needsSession + " " + isNow("1") + " !{ var(txn.login_own) -m bool }",
		"http-request set-var(txn.login_asked) bool(true) if " + needsSession + " !" + isNow("2") + " or { var(txn.login_own) -m bool }",
	}, askLogin(env), []string{
		"http-request set-var(txn.login_text) req.fhdr(" + login.SessionHeader + "),b64dec if " + isAsked + " { var(txn.authorized) -m bool }",
	}, env.refuse(503, "the session is not valid", "", needsSession+" !"+isNow("1")), []string{
		"http-request del-header " + login.SessionHeader + " if " + needsSession,
		"http-request set-var(txn.jwt_text) var(txn.login_text),field(4,|,0) if " + needsSession,
		"http-request set-var(txn.jwt_iss) " + param("oidc.binding") + " if " + needsSession,
		"http-request set-header authorization " + inQuotes("Bearer %[var(txn.login_text),field(3,|)]") + " if " + needsSession + " !{ var(txn.login_text),field(3,|) -m len 0 }",
	}, oidcClaims.requiredRules(env, ""), add)
	return Rules{Request: rules, AfterResponse: cookieRules(env)}
}

// askLogin asks gateway-login. A session that is still valid does not wait long for another one, and goes on without.
func askLogin(env Env) []string {
	return slices.Concat(teamLines(env, isAsked), []string{
		"http-request set-var(txn.auth) str(" + ir.LoginBackend + ") if " + isAsked,
		"http-request set-var(txn.login_issuer) " + param("oidc.issuer") + " if " + isAsked,
		"http-request set-var(txn.auth_path) " + param("oidc.ask") + ",concat(" + questionKey + "),map_str(" + env.Paths.Map(ir.KeysFile) + ") if " + isAsked,
		"http-request set-var(txn.auth_send) " + inQuotes("str('"+loginSends+"')") + " if " + isAsked,
		"http-request set-var(txn.auth_keep) str(" + login.SessionHeader + ") if " + isAsked,
		fmt.Sprintf("http-request set-var(txn.auth_filters) str(timeout=%d&once=1) if %s", loginTime.Milliseconds(), isAsked),
		fmt.Sprintf("http-request set-var(txn.auth_filters) str(timeout=%d&once=1) if %s %s", renewTime.Milliseconds(), isAsked, isLive),
		"http-request unset-var(txn.authorized) if " + isAsked,
		"http-request lua.auth if " + isAsked,
	}, env.refuse(503, cannotDecide, "", isAsked+" !"+isLive+" !{ var(txn.authorized) -m bool }"))
}

// openRules decrypt txn.login_sealed, where it is there.
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
