package filters

import (
	"fmt"
	"maps"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// response answers with a fixed answer. The parameter "response" names it.
//
// Each answer is a rule, so a new one takes a reload: HAProxy takes no status from data, and encodes line breaks and
// what is not ASCII in texts that come from data.
var response = filter{
	mayStay: true,
	names: func(rule *routing.Rule) []string {
		if rule.Response == nil {
			return nil
		}
		return []string{responseName(rule.Response)}
	},
	encode: func(in Input, p *params) {
		if in.Rule.Response != nil {
			p.set("response", responseName(in.Rule.Response))
		}
	},
	rules: func(env Env) Rules {
		lines := map[string]string{}
		for _, rule := range env.Rules {
			response := rule.Response
			if response == nil {
				continue
			}
			content := ""
			if response.Body != "" && response.Status != 204 && response.Status != 304 {
				content = " content-type " + ir.QuoteText(response.ContentType) + " string " + ir.QuoteText(response.Body)
			}
			for _, header := range response.Headers {
				content += fmt.Sprintf(" hdr %s %s", ir.Quote(header.Name, ir.InName), ir.QuoteFormat(header.Values[0]))
			}
			name := responseName(response)
			lines[name] = fmt.Sprintf("http-request return status %d%s if %s", response.Status, content, is("response", name))
		}
		var rules Rules
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			rules.Request = append(rules.Request, lines[name])
		}
		return rules
	},
	answer: func(rule *routing.Rule) string {
		if rule.Response == nil {
			return ""
		}
		return fmt.Sprintf("%d: %s, %d bytes", rule.Response.Status, rule.Response.ContentType, len(rule.Response.Body))
	},
}

func responseName(response *model.Response) string {
	return ir.ContentName(fmt.Sprintf("%d %q %q %#v", response.Status, response.ContentType, response.Body, response.Headers))
}
