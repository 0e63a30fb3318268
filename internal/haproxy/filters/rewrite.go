package filters

import (
	"cmp"

	"gateway/internal/model"
	"gateway/internal/routing"
)

// rewrite gives the backend another host, by the parameter "host", or the path that the filter path has computed.
var rewrite = filter{
	encode: func(in Input, p *params) {
		if hostname := rewriteFor(in.Rule, in.Target).Hostname; hostname != "" {
			p.set("host", hostname)
		}
	},
	rules: func(Env) Rules {
		return Rules{Request: []string{
			`http-request set-header Host "%[` + text("host") + `]" if ` + has("host"),
			`http-request set-path "%[var(txn.newpath)]" if { var(txn.newpath) -m found }`,
		}}
	},
	describe: func(rule *routing.Rule) []string { return describeRewrite(rule.Rewrite) },
}

// rewriteFor returns the host and path that requests for a target of a rule get.
func rewriteFor(rule *routing.Rule, target *routing.Target) model.Rewrite {
	var changes model.Rewrite
	if rule.Rewrite != nil {
		changes = *rule.Rewrite
	}
	if target != nil && target.Rewrite != nil {
		changes.Hostname = cmp.Or(target.Rewrite.Hostname, changes.Hostname)
		changes.Path = cmp.Or(target.Rewrite.Path, changes.Path)
	}
	return changes
}

// describeRewrite describes another host or path to users; nil: none.
func describeRewrite(rewrite *model.Rewrite) []string {
	var all []string
	if rewrite != nil && rewrite.Hostname != "" {
		all = append(all, "host for the backend: "+rewrite.Hostname)
	}
	if rewrite != nil && rewrite.Path != nil {
		all = append(all, "path for the backend: "+pathText(rewrite.Path))
	}
	return all
}
