//go:build slow

package schema

// The largest Gateways take the API server up to a minute each.
func init() {
	valid = append(valid, []admitted{
		{"4096 routes that name two of 64 listeners each", "",
			"spec: {listeners: [" + repeat(64, "{name: "+longest+"%03d, port: %[1]d, protocol: HTTP}", 1) + "], routes: [" +
				repeat(4096, "{name: r%d, listeners: ["+longest+"063, "+longest+"064], rules: [{backendRefs: [{name: a, port: 80}]}]}", 1) + "]}"},
		{"512 routes that name 16 of 64 listeners each", "",
			"spec: {listeners: [" + repeat(64, "{name: l%d, port: %[1]d, protocol: HTTP}", 1) + "], routes: [" +
				repeat(512, "{name: r%d, listeners: ["+repeat(16, "l%d", 49)+"], rules: [{}]}", 1) + "]}"},
		{"4096 rules with filters, time limits and retries", "", http + ", routes: [" +
			repeat(256, "{name: r%d, rules: ["+repeat(16, "{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /a}}}], "+
				"timeouts: {request: 9s, backendRequest: 3s}, retry: {}}", 1)+"]}", 1) + "]}"},
		{"64 TCP routes and 256 TLS routes", "", "spec: {listeners: [" + repeat(32, "{name: t%d, port: %[1]d, protocol: TCP}", 1) + ", " +
			repeat(32, "{name: s%d, port: %[1]d, protocol: TLS, tls: {mode: Passthrough}}", 101) + "], tcpRoutes: [" +
			repeat(64, "{name: r%d, listeners: ["+repeat(16, "t%d", 1)+"], rules: [{backendRefs: ["+repeat(16, "{name: b%d, port: 80}", 1)+"]}]}", 1) +
			"], tlsRoutes: [" + repeat(256, "{name: r%d, listeners: [s101], hostnames: ["+repeat(64, "h%d.example.com", 1)+
			"], rules: [{backendRefs: [{name: b, port: 80}]}]}", 1) + "]}"},
	}...)
}
