package filters

import (
	"fmt"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// cacheName is the section of HAProxy's stored responses.
const cacheName = "responses"

// cache answers requests from what backends answered before. The parameter "cache" says that a rule wants it.
//
// HAProxy's key is the Host and the URI. So while it looks, Host is a hash of whatever else decides about an answer:
// the port, the rule with its filters and its backend, the Host, and what proxies said about the request, which
// backends put into links. A client without Accept-Encoding gets nothing that is stored for one with it.
//
// HAProxy looks when all filters are done. It stores what it would send, and an answer that comes from there is not
// changed again by filters. These rules are in frontends: backends that are added while it runs could not have them,
// and HAProxy 3.4.7 crashed with rules elsewhere.
//
// HAProxy alone would store more: responses with cookies, those with nothing but an ETag, public ones to requests with
// Authorization, private ones that are called public after that, and ages like 00. It ignores bodies of requests. For
// methods other than GET and HEAD, it only marks the stored response as outdated.
//
// From the answer of another cache, HAProxy 3.4.7 takes the Age away, and keeps the answer as long as a new one. So it
// gets one without Age and with what is left of its lifetime, by a last s-maxage. The Age is beside that, and clients
// get both headers as they were, with the time here added to the Age.
var cache = filter{
	mayStay: true,
	isUsed:  func(rule *routing.Rule) bool { return rule.Cache },
	check: func(rule *routing.Rule) string {
		if rule.KnowsUsers() {
			return "Cache would answer all users alike: remove it from the rule, or BasicAuth, APIKey, JWT, OIDC and ExternalAuth"
		}
		return ""
	},
	encode: func(_ Input, p *params) {
		p.set("cache", "1")
	},
	rules: func(Env) Rules {
		const (
			asked  = " if { var(txn.cache) -m found }"
			read   = asked + " { method GET HEAD }"
			answer = asked + " { method GET }"
			shared = "{ res.hdr(cache-control) -i -m reg ^s-maxage=[1-9] }"
			aged   = answer + " { var(txn.age) -m found }"
			known  = " if { var(txn.cache) -m found } { var(txn.age) -m found }"
		)
		lifetime := func(name string) string {
			return `http-response set-var(txn.left) 'res.hdrs,regsub("(?s)^(?:.*\x0A)?cache-control:[^\x0A]*[ ,:]` + name + `=([0-9]+).*$","\1",i)'` + aged
		}
		return Rules{
			Response: []string{"http-response allow if { res.cache_hit }"},
			AfterResponse: []string{
				"http-after-response set-var(txn.age) res.hdr(cache-control),field(2,=)" + asked + " { res.hdr(cache-control,-1) -m beg gateway-age= }",
				"http-after-response replace-header Cache-Control '(.*), s-maxage=[0-9]+, gateway-age=[0-9]+' '\\1'" + known,
				"http-after-response set-var(txn.age) res.fhdr(age),add(txn.age)" + known + " { res.fhdr_cnt(age) gt 0 }",
				"http-after-response set-header Age %[var(txn.age)]" + known,
			},
			Frontend: []string{
				`http-request set-var-fmt(txn.cache) "\n%[req.hdrs]" if ` + has("cache") + " { req.fhdr(host) -m len gt 0 } !{ req.fhdr_cnt(forwarded) gt 1 }",
				"http-request unset-var(txn.cache)" + read + ` { var(txn.cache) -i -m reg '\x0A(?:(?:authorization|upgrade):|cache-control:[^\x0A]*no-store)' }`,
				"http-request wait-for-body time 10s at-least 1" + read,
				"http-request unset-var(txn.cache)" + read + " { req.body_len gt 0 }",
				`http-request set-var(txn.cache) 'var(txn.cache),regsub("\x0A(?!x-forwarded-(?!for:)|front-end-https:|x-(?:url-)?scheme:)[^\x0A]*","",g)'` + asked,
				`http-request set-var-fmt(txn.cache) "%[fe_name]\n%[var(txn.hit)]\n%[req.fhdr(host)]\n%[req.fhdr_cnt(accept-encoding)]%[var(txn.cache)]"` + asked,
				"http-request set-var(txn.cache) var(txn.cache),sha2(256),hex" + asked,
				"http-request set-var(txn.to) req.fhdr(host)" + asked,
				"http-request set-header Host %[var(txn.cache)]" + asked,
				"http-request cache-use " + cacheName + asked,
				"http-request set-header Host %[var(txn.to)]" + asked,
				"http-response unset-var(txn.cache)" + answer + " { res.fhdr_cnt(set-cookie) gt 0 }",
				"http-response unset-var(txn.cache)" + answer + " { res.hdr(cache-control) -i -m reg '^(?:private|no-store|no-cache|s-maxage=(?![1-9]))' }",
				"http-response unset-var(txn.cache)" + answer + " !" + shared + " !{ res.hdr(cache-control) -i public }",
				"http-response unset-var(txn.cache)" + answer + " !" + shared + " !{ res.hdr(cache-control) -i -m reg ^max-age=[1-9] }",
				"http-response set-var(txn.age) res.fhdr(age,1)" + answer + " { res.fhdr_cnt(age) gt 0 }",
				"http-response unset-var(txn.cache)" + aged + " !{ var(txn.age) -m reg ^[0-9]{1,9}$ }",
				lifetime("max-age"),
				lifetime("s-maxage") + " " + shared,
				"http-response set-var(txn.left) var(txn.left),sub(txn.age)" + aged,
				"http-response unset-var(txn.cache)" + aged + " !{ var(txn.left) -m int gt 0 }",
				`http-response replace-header Cache-Control (.*) "\\1, s-maxage=%[var(txn.left)], gateway-age=%[var(txn.age)]"` + aged,
				"http-response del-header Age" + aged,
				"http-response cache-store " + cacheName + asked,
			},
		}
	},
	// HAProxy shares what it stores among threads, and not with another process. Vary may have Accept-Encoding, Origin and
	// Referer; HAProxy stores no answer with another.
	add: func(env Env, config *ir.Config) {
		cache := env.Table.Cache
		config.Sections = append(config.Sections, ir.Section{Header: "cache " + cacheName, Reason: ir.ReloadCache, Lines: ir.Lines("",
			fmt.Sprintf("total-max-size %d", cache.SizeMiB),
			fmt.Sprintf("max-object-size %d", cache.MaxObjectBytes),
			fmt.Sprintf("max-age %d", cache.MaxAgeSeconds),
			"process-vary on",
		)})
	},
	describe: func(*routing.Rule) []string {
		return []string{"Cache: answers are stored if they say that they are for all users, and used for requests without Authorization"}
	},
}
