package filters

import (
	_ "embed" // for responseRewriteProgram
	"fmt"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

func init() { after(&override, &responseRewrite) }

// responseRewriteProgram changes headers of answers. It contains no user input.
//
//go:embed responserewrite.lua
var responseRewriteProgram []byte

// responseRewrite replaces what answers of backends say about addresses. The parameters "answer.location",
// "answer.domain" and "answer.path" have what is replaced, and those with ".to" what takes its place.
//
// A program does it, for an answer with one of the headers. Expressions of HAProxy are fixed, so that each value would
// be a rule and take a reload, and there may be several cookies.
var responseRewrite = filter{
	mayStay: true,
	isUsed:  func(rule *routing.Rule) bool { return rule.Answers != nil },
	encode: func(in Input, p *params) {
		for _, part := range rewrittenParts(in.Rule) {
			if part.From != "" {
				p.set("answer."+part.name, part.From)
				p.set("answer."+part.name+".to", part.To)
			}
		}
	},
	rules: func(Env) Rules {
		leads, cookies := has("answer.location"), "{ res.fhdr_cnt(set-cookie) gt 0 } "
		return Rules{Response: []string{
			"http-response lua.rewrite_response if " + leads + " { res.fhdr_cnt(location) gt 0 } or " + leads + " { res.fhdr_cnt(refresh) gt 0 }" +
				" or " + cookies + has("answer.domain") + " or " + cookies + has("answer.path"),
		}}
	},
	add: func(env Env, config *ir.Config) {
		addProgram(env, config, "addresses in answers", "rewrite.lua", responseRewriteProgram, "")
	},
	describe: func(rule *routing.Rule) []string {
		var all []string
		for _, part := range rewrittenParts(rule) {
			if part.From != "" {
				all = append(all, fmt.Sprintf("answer's %s: %s is replaced by %s", part.text, part.From, part.To))
			}
		}
		return all
	},
}

// rewrittenPart is what is replaced of answers. name is part of its parameters, text how users call it.
type rewrittenPart struct {
	name, text string
	model.Replacement
}

func rewrittenParts(rule *routing.Rule) []rewrittenPart {
	return []rewrittenPart{
		{"location", "header location", rule.Answers.Location},
		{"domain", "cookie domain", rule.Answers.CookieDomain},
		{"path", "cookie path", rule.Answers.CookiePath},
	}
}
