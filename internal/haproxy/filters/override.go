package filters

import (
	_ "embed" // for overrideProgram
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

func init() { after(&cors, &override) }

// overrideProgram asks a Service for an answer. It contains no user input.
//
//go:embed override.lua
var overrideProgram []byte

// longestOverride is the longest body of an answer in place of an error, in bytes.
const longestOverride = 15 << 10

// override replaces errors of backends. The parameter "override" names entries of a map: "/STATUS" leads to the name of
// a text, or to "STATUS|BACKEND" for the answer of a Service.
//
// Each text is a rule, as in response.go. What the Service has to know of the request is noted before other filters
// change it. These rules for responses do not see what the proxy answers by itself.
var override = filter{
	mayStay: true,
	isUsed:  func(rule *routing.Rule) bool { return len(rule.Overrides) > 0 },
	names: func(rule *routing.Rule) []string {
		return slices.Sorted(maps.Keys(overrideTexts(rule)))
	},
	encode: func(in Input, p *params) {
		if entries := overrideEntries(in); len(entries) > 0 {
			p.set("override", in.Content(ir.FiltersFile, func() []ir.MapEntry { return entries }))
		}
	},
	rules: func(env Env) Rules {
		const asks = " if { var(txn.override_to) -m found }"
		wants := " if " + has("override")
		found := "var(txn.override),map_str(" + env.Paths.Map(ir.FiltersFile) + ")"
		rules := Rules{
			Request: slices.Concat([]string{"http-request set-var(txn.override_format) req.fhdr(accept)" + wants}, teamLines(env, has("override")), originalURI(env, wants)),
			Response: []string{
				`http-response set-var-fmt(txn.override) "%[` + param("override") + `]/%[status]"` + wants + " { status ge 400 }",
				"http-response set-var(txn.overridden) " + found + " if { var(txn.override) -m found }",
				"http-response set-var(txn.override_to) var(txn.overridden),field(2,|) if { var(txn.overridden) -m sub | }",
				"http-response set-var(txn.override_status) var(txn.overridden),field(1,|)" + asks,
				"http-response set-var(txn.override_code) status" + asks,
				"http-response lua.override_ask" + asks,
				"http-response lua.override_give if { var(txn.overriding) -m bool }",
				"http-response lua.override_note if { var(txn.overridden) -m found } !{ var(txn.override_to) -m found }",
			},
			AfterResponse: []string{"http-after-response lua.override_keep if { var(txn.override_kept) -m found }"},
		}
		texts := map[string]string{}
		for _, rule := range env.Rules {
			maps.Copy(texts, overrideTexts(rule))
		}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			rules.Response = append(rules.Response, "http-response return "+texts[name]+" if { var(txn.overridden) -m str "+name+" }")
		}
		return rules
	},
	add: func(env Env, config *ir.Config) {
		addProgram(env, config, "answers in place of errors", ir.OverrideFile, overrideProgram, " "+env.Paths.OverrideSocket(), overrideSection(env))
	},
	describe: func(rule *routing.Rule) []string {
		var all []string
		for _, o := range rule.Overrides {
			from, to := strings.Trim(fmt.Sprint(o.Statuses), "[]"), "that status"
			if o.Status != 0 {
				to = strconv.Itoa(int(o.Status))
			}
			by := fmt.Sprintf("%s, %d bytes", o.ContentType, len(o.Body))
			if o.Backend != (routing.Backend{}) {
				by = fmt.Sprintf("the answer of Service %s", o.Backend)
			}
			all = append(all, fmt.Sprintf("answers of the backend with %s: replaced by %s, with %s", from, by, to))
		}
		return all
	},
}

// originalURI sets txn.override_uri to the URI of requests that meet a condition, without keys and tokens.
func originalURI(env Env, wants string) []string {
	lines := []string{"http-request set-var(txn.override_uri) path" + wants, "http-request set-var(txn.override_query) query" + wants}
	places := secretPlaces(env.Rules)
	for _, param := range slices.Sorted(maps.Keys(places)) {
		if places[param].In == model.InQuery {
			lines = append(lines, "http-request set-var(txn.override_query) "+inQuotes("var(txn.override_query),"+partOf(places[param]).without())+wants+" "+has(param))
		}
	}
	return append(lines, `http-request set-var-fmt(txn.override_uri) "%[var(txn.override_uri)]?%[var(txn.override_query)]" if { var(txn.override_query) -m len gt 0 }`)
}

// eachOverride calls f for each status of an error, with what clients get.
func eachOverride(rule *routing.Rule, f func(code, status int32, override *model.Override)) {
	seen := map[int32]bool{}
	for i := range rule.Overrides {
		override := &rule.Overrides[i]
		for _, code := range override.Statuses {
			status := override.Status
			if status == 0 {
				status = code
			}
			if !seen[code] {
				f(code, status, override)
			}
			seen[code] = true
		}
	}
}

// overrideEntries returns the entries of a rule. A Service without a backend replaces nothing.
func overrideEntries(in Input) []ir.MapEntry {
	var entries []ir.MapEntry
	eachOverride(in.Rule, func(code, status int32, override *model.Override) {
		key, value := fmt.Sprintf("/%d", code), overrideText(status, override)
		if override.Backend == (routing.Backend{}) {
			entries = append(entries, ir.MapEntry{Key: key, Value: ir.ContentName(value)})
		} else if backend := in.BackendFor(override.Backend); backend != "" {
			entries = append(entries, ir.MapEntry{Key: key, Value: fmt.Sprintf("%d|%s", status, backend)})
		}
	})
	return entries
}

// overrideTexts returns the texts of a rule by their names, as they follow "return".
func overrideTexts(rule *routing.Rule) map[string]string {
	texts := map[string]string{}
	eachOverride(rule, func(_, status int32, override *model.Override) {
		if override.Backend == (routing.Backend{}) {
			text := overrideText(status, override)
			texts[ir.ContentName(text)] = text
		}
	})
	return texts
}

func overrideText(status int32, override *model.Override) string {
	return fmt.Sprintf("status %d content-type %s string %s", status, ir.QuoteText(override.ContentType), ir.QuoteText(override.Body))
}

// overrideSection leads to the Services that answer. Rules for responses see only answers of these there. The header
// marks them, so that other sections know them from the proxy's own answers.
func overrideSection(env Env) ir.Section {
	return spare(ir.ReloadSettings, "listen overrides from common", slices.Concat([]string{
		"bind " + env.Paths.OverrideSocket() + " mode 600",
	}, roomLines(env, "str(pages)", "req.fhdr(gateway-override-backend,1)", "req.fhdr(gateway-override-team,1)"), []string{
		"http-request set-var(txn.backend) req.fhdr(gateway-override-backend,1)",
		"http-request set-var(txn.filters) str(timeout=10000&once=1)",
		"http-request set-header Host %[req.fhdr(gateway-override-host,1)]",
		"http-request del-header gateway-override- -m beg",
		"http-request del-header accept",
		"http-request del-header user-agent",
		"http-response wait-for-body time 10s at-least " + strconv.Itoa(longestOverride+1),
		"http-response deny deny_status 502 if { res.body_size gt " + strconv.Itoa(longestOverride) + " }",
		"http-response set-header gateway-override-answer 1",
		"use_backend %[var(txn.backend)]",
	})...)
}
