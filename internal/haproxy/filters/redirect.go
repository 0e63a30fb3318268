package filters

import (
	"fmt"
	"strconv"
	"strings"

	"gateway/internal/routing"
)

// redirect answers with a redirect (Gateway API, HTTPRequestRedirectFilter). The parameters are "redirect", the
// status, and "redirect.scheme", "redirect.host" and "redirect.port". The port is "listener" for the port of the
// listener.
//
// The default port of the scheme is not named. Scheme and port come from the connection, unless a trusted proxy names
// others in X-Forwarded-Proto and -Port.
var redirect = filter{
	encode: func(in Input, p *params) {
		redirect := in.Rule.Redirect
		if redirect == nil {
			return
		}
		p.set("redirect", strconv.Itoa(int(redirect.Status)))
		if redirect.Scheme != "" {
			p.set("redirect.scheme", redirect.Scheme)
		}
		if redirect.Hostname != "" {
			p.set("redirect.host", redirect.Hostname)
		}
		if redirect.Port != 0 {
			p.set("redirect.port", strconv.Itoa(int(redirect.Port)))
		} else if redirect.Scheme == "" {
			p.set("redirect.port", "listener")
		}
	},
	rules: func(Env) Rules {
		// Most rules have no redirect. To find that out once costs less than for each line.
		redirect, ofListener := "{ var(txn.redirect) -m found }", is("redirect.port", "listener")
		set := func(variable, value, condition string) string {
			return "http-request set-var(txn." + variable + ") " + value + " if " + redirect + " " + condition
		}
		lines := []string{
			"http-request set-var(txn.redirect) " + param("redirect"),
			set("scheme", text("redirect.scheme"), ""),
			set("scheme", "req.fhdr(x-forwarded-proto,-1),lower", "!{ var(txn.scheme) -m found } { req.fhdr(x-forwarded-proto,-1) -i http https }"),
			set("scheme", "var(sess.scheme)", "!{ var(txn.scheme) -m found }"),
			set("authority", "var(txn.host)", ""),
			set("authority", text("redirect.host"), ""),
			"http-request deny deny_status 400 if " + redirect + " !{ var(txn.authority) -m len gt 0 }",
			set("port", param("redirect.port"), "!"+ofListener),
			set("port", "fe_name", ofListener),
			set("port", "req.fhdr(x-forwarded-port,-1)", ofListener+" { req.fhdr(x-forwarded-port,-1) -m reg ^[1-9][0-9]{0,4}$ }"),
			"http-request unset-var(txn.port) if { var(txn.scheme) -m str http } { var(txn.port) -m str 80 } or { var(txn.scheme) -m str https } { var(txn.port) -m str 443 }",
			`http-request set-var-fmt(txn.authority) "%[var(txn.authority)]:%[var(txn.port)]" if ` + redirect + " { var(txn.port) -m found }",
			set("newpath", "path", "!{ var(txn.newpath) -m found }"),
			`http-request set-var-fmt(txn.newpath) "%[var(txn.newpath,/)]?%[query]" if ` + redirect + " { query -m found }",
		}
		for _, status := range []string{"301", "302", "303", "307", "308"} {
			lines = append(lines, `http-request redirect location "%[var(txn.scheme)]://%[var(txn.authority)]%[var(txn.newpath,/)]" code `+status+" if { var(txn.redirect) -m str "+status+" }")
		}
		return Rules{Request: lines}
	},
	answer: func(rule *routing.Rule) string {
		redirect := rule.Redirect
		if redirect == nil {
			return ""
		}
		var parts []string
		if redirect.Scheme != "" {
			parts = append(parts, "scheme "+redirect.Scheme)
		}
		if redirect.Hostname != "" {
			parts = append(parts, "host "+redirect.Hostname)
		}
		if redirect.Port != 0 {
			parts = append(parts, fmt.Sprintf("port %d", redirect.Port))
		}
		if redirect.Path != nil {
			parts = append(parts, "path "+pathText(redirect.Path))
		}
		return fmt.Sprintf("%d: redirect to %s", redirect.Status, strings.Join(parts, ", "))
	},
}
