package filters

import (
	"fmt"
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

func init() { after(&headers, &headerVariables) }

// headerVariables sends the backend headers with what the proxy knows of a request. The parameter "variables" has the
// names and values that are the same for all requests of the rule and the backend, and "variables.del" the names of
// all headers: both are lists as in the filter headers. "variable.NAME" is the variable of any other header. Each pair
// of a header and a variable has a rule of its own.
var headerVariables = filter{
	mayStay: true,
	isUsed:  func(rule *routing.Rule) bool { return len(rule.HeaderVariables) > 0 },
	names: func(rule *routing.Rule) []string {
		var names []string
		for _, header := range rule.HeaderVariables {
			names = append(names, header.Name+" "+header.Variable)
		}
		return names
	},
	needsClient: func(rule *routing.Rule) bool {
		return slices.ContainsFunc(rule.HeaderVariables, func(v model.HeaderVariable) bool { return v.Variable == "ClientAddress" })
	},
	encode: func(in Input, p *params) {
		var del, set []byte
		for _, header := range in.Rule.HeaderVariables {
			for _, name := range deleted("", header.Name) {
				del = appendText(del, name)
			}
			switch {
			case header.Variable == "Route":
				set = appendText(appendText(set, header.Name), in.Rule.LogName())
			case header.Variable != "BackendService":
				p.set("variable."+ir.Quote(header.Name, ir.InName), header.Variable)
			case in.Target != nil && in.Target.Backend.Service != "":
				set = appendText(appendText(set, header.Name), in.Target.Backend.Name())
			}
		}
		p.setList("variables.del", del, 1)
		p.setList("variables", set, 2)
	},
	rules: func(env Env) Rules {
		lines := []string{"http-request del-headers-bin " + list("variables.del"), "http-request add-headers-bin " + list("variables")}
		used := map[string]bool{}
		for _, rule := range env.Rules {
			for _, header := range rule.HeaderVariables {
				name, variable := "variable."+ir.Quote(header.Name, ir.InName), variables[header.Variable]
				if variable.value != "" {
					used[fmt.Sprintf(`http-request set-header %s "%%[%s]" if %s%s`, name[len("variable."):], variable.value, is(name, header.Variable), variable.condition)] = true
				}
			}
		}
		return Rules{Request: append(lines, slices.Sorted(maps.Keys(used))...)}
	},
	describe: func(rule *routing.Rule) []string {
		var all []string
		for _, header := range rule.HeaderVariables {
			all = append(all, fmt.Sprintf("request header %s: set to the %s", header.Name, header.Variable))
		}
		return all
	},
}

// variables are the values that differ among the requests of a rule, and the conditions for them. A client may send any
// bytes as a server name.
var variables = map[string]struct{ value, condition string }{
	"ClientAddress": {"var(txn.client)", ""},
	"TLSVersion":    {"ssl_fc_protocol", " { ssl_fc }"},
	"TLSServerName": {"ssl_fc_sni,lower", " { ssl_fc_sni -m reg ^[A-Za-z0-9._-]{1,253}$ }"},
	"RequestID":     {"var(txn.id)", ""},
}
