package feature

import (
	"cmp"
	_ "embed" // for AuthProgram
	"strconv"
	"strings"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// AuthProgram is what asks a Service about requests. Nothing of users is in it.
//
//go:embed auth.lua
var AuthProgram []byte

// The headers by which AuthProgram says which backend is asked, what its parameters are, and for which host.
const (
	AuthBackendHeader = "gateway-auth-backend"
	AuthFiltersHeader = "gateway-auth-filters"
	AuthHostHeader    = "gateway-auth-host"
)

// auth has a Service decide about requests. The parameter "auth" is its backend, "-" if there is none. "auth.path" is
// where it is asked, "auth.send" and "auth.keep" are the names of headers that it gets and gives, separated by commas,
// and "auth.timeout" is in milliseconds.
//
// Only the program lets a request pass. What the client sends in headers that the Service gives goes either way.
var auth = feature{
	encode: func(in Input, p *params) {
		auth := in.Rule.ExternalAuth
		if auth == nil {
			return
		}
		limit := auth.Timeout
		if limit <= 0 || limit > longest {
			limit = longest
		}
		p.set("auth", cmp.Or(in.BackendFor(auth.Backend), "-"))
		p.set("auth.path", auth.Path)
		p.set("auth.send", strings.Join(auth.RequestHeaders, ","))
		p.set("auth.keep", strings.Join(auth.ResponseHeaders, ","))
		p.set("auth.timeout", strconv.FormatInt(max(1, int64(limit/time.Millisecond)), 10))
	},
	rules: func(env Env) Rules {
		if !HasAuth(env.Table) {
			return Rules{}
		}
		asked := " if " + has("auth")
		return Rules{Request: []string{
			"http-request set-var(txn.auth) " + text("auth") + asked,
			"http-request set-var(txn.auth_path) " + text("auth.path") + asked,
			"http-request set-var(txn.auth_send) " + text("auth.send") + asked,
			"http-request set-var(txn.auth_keep) " + text("auth.keep") + asked,
			`http-request set-var-fmt(txn.auth_filters) "timeout=%[` + param("auth.timeout") + `]&once=1"` + asked,
			"http-request lua.auth" + asked,
			"http-request return " + ir.TextAnswer("503", "nobody could say whether the request may pass") + asked + " !{ var(txn.authorized) -m bool }",
		}}
	},
}

// HasAuth says whether any rule has a Service decide about its requests.
func HasAuth(table routing.Table) bool {
	found := false
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) { found = found || rule.ExternalAuth != nil })
	return found
}
