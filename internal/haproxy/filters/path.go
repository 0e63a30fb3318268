package filters

import (
	"cmp"
	"slices"
	"strconv"

	"gateway/internal/routing"
)

// path computes another path for redirect and rewrite. The parameter "path" is the whole path. "prefix" takes the place
// of the first "cut" bytes.
//
// The rest after the prefix stays as the client sent it. But if the client encoded the prefix, or repeated slashes
// there, the rest is taken from the path that requests are compared by.
var path = filter{
	encode: func(in Input, p *params) {
		change := pathChange(in.Rule, in.Target)
		switch {
		case change == nil:
		case change.Full != "":
			p.set("path", change.Full)
		default:
			p.set("prefix", change.Prefix)
			p.set("cut", strconv.Itoa(in.Cut))
		}
	},
	rules: func(Env) Rules {
		const prefix = "{ var(txn.cut) -m found }"
		return Rules{Request: []string{
			"http-request set-var(txn.newpath) " + text("path") + " if " + has("path"),
			"http-request set-var(txn.cut) " + param("cut") + ",add(0)",
			"http-request set-var(txn.begin) var(txn.clean),bytes(0,txn.cut) if " + prefix,
			"http-request set-var(txn.rest) var(txn.clean),bytes(txn.cut) if " + prefix,
			"http-request set-var(txn.rest) path,bytes(txn.cut) if " + prefix + " { path,bytes(0,txn.cut),strcmp(txn.begin) eq 0 } { path,bytes(txn.cut,1) -m str / }",
			`http-request set-var-fmt(txn.newpath) "%[` + text("prefix") + `]%[var(txn.rest)]" if ` + prefix,
			"http-request set-var(txn.newpath) str(/) if " + prefix + " { var(txn.newpath) -m len 0 }",
		}}
	},
}

// pathChange returns how the path changes of requests for a target of a rule, nil if it does not.
func pathChange(rule *routing.Rule, target *routing.Target) *routing.PathChange {
	if rule.Redirect != nil {
		return rule.Redirect.Path
	}
	return rewriteFor(rule, target).Path
}

// CutsPrefix reports whether a rule replaces the prefix of the path, for one of its targets at least.
func CutsPrefix(rule *routing.Rule) bool {
	return changesPath(rule, func(change *routing.PathChange) bool { return change != nil && change.Full == "" })
}

// changesPath reports whether a change of the path, by a rule or for one of its targets, is such a one.
func changesPath(rule *routing.Rule, isSuch func(*routing.PathChange) bool) bool {
	return isSuch(pathChange(rule, nil)) || slices.ContainsFunc(rule.Targets, func(target routing.Target) bool {
		return isSuch(pathChange(rule, &target))
	})
}

// pathText describes another path to users.
func pathText(change *routing.PathChange) string {
	if change.Full != "" {
		return change.Full
	}
	return cmp.Or(change.Prefix, "/") + " in place of the prefix"
}
