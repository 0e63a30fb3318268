package filters

import "gateway/internal/routing"

// rewrite gives the backend another host, by the parameter "host", or the path that the filter path has computed.
var rewrite = filter{
	encode: func(in Input, p *params) {
		if rewrite := in.Rule.Rewrite; rewrite != nil && rewrite.Hostname != "" {
			p.set("host", rewrite.Hostname)
		}
	},
	rules: func(Env) Rules {
		return Rules{Request: []string{
			`http-request set-header Host "%[` + text("host") + `]" if ` + has("host"),
			`http-request set-path "%[var(txn.newpath)]" if { var(txn.newpath) -m found }`,
		}}
	},
	describe: func(rule *routing.Rule) []string {
		var all []string
		if rewrite := rule.Rewrite; rewrite != nil {
			if rewrite.Hostname != "" {
				all = append(all, "host for the backend: "+rewrite.Hostname)
			}
			if rewrite.Path != nil {
				all = append(all, "path for the backend: "+pathText(rewrite.Path))
			}
		}
		return all
	},
}
