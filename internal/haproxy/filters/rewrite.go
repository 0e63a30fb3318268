package filters

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
}
