package filters

import (
	"fmt"
	"strconv"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

func init() { after(&path, &pathRegex) }

// pathRegex computes another path for redirect and rewrite, by a regular expression. The parameter "regex" names the
// list with the expression, and has the lines that come before the path: see regex.Replacement. "regex.longest" is how
// long a path may be.
//
// The expression is compared with the path that requests are matched by. So no way to write a path passes it by. A path
// with groups in other places may not be what backends disagree about.
var pathRegex = filter{
	mayStay: true,
	isUsed:  func(rule *routing.Rule) bool { return rule.PathRegex != nil },
	check: func(rule *routing.Rule) string {
		isChange := func(change *routing.PathChange) bool { return change != nil }
		if changesPath(rule, isChange) {
			return "pathRegexRewrite and the path of its URLRewrite or RequestRedirect both change the path: remove one of them"
		}
		return ""
	},
	encode: func(in Input, p *params) {
		change := in.Rule.PathRegex
		r, err := regex.NewReplacement(change.Pattern, change.Substitution)
		if err != nil {
			return // The rule is refused.
		}
		list := in.List(ir.List{Expressions: []string{`\n` + r.Expression}, Value: r.Value})
		p.set("regex", strings.Join(append([]string{list}, r.Lines...), "\n"))
		p.set("regex.longest", strconv.Itoa(r.Longest))
	},
	rules: func(env Env) Rules {
		const changed = "{ var(txn.regex) -m found }"
		tooLong := env.Answer(400, "the path is too long to be changed")
		return Rules{Request: []string{
			"http-request set-var(txn.longest) " + param("regex.longest") + ",add(0) if " + has("regex"),
			"http-request return " + tooLong + " if " + has("regex") + " { var(txn.clean),length,sub(txn.longest) gt 0 }",
			`http-request set-var-fmt(txn.regex) "%[` + text("regex") + `]\n%[var(txn.clean)]\n" if ` + has("regex"),
			"http-request set-var(txn.newpath) var(txn.regex),map_regm(" + env.Paths.Map(ir.ConditionsFile) + ") if " + changed,
			`http-request set-var-fmt(txn.newpath) "/%[var(txn.newpath)]" if ` + changed + " { var(txn.newpath) -m found } !{ var(txn.newpath) -m beg / }",
			"http-request return " + env.Answer(400, "the new path is ambiguous") + " if " + changed + ` { var(txn.newpath) -m reg '` + ambiguousPath + `' }`,
		}}
	},
	describe: func(rule *routing.Rule) []string {
		return []string{fmt.Sprintf("path: %s is replaced by %s", rule.PathRegex.Pattern, rule.PathRegex.Substitution)}
	},
}

// ambiguousPath is an expression for a path with a segment of one or two dots, encoded or not, an encoded NUL or
// backslash, or an incomplete percent-encoding.
const ambiguousPath = `(/|%2[Ff])(\.|%2[Ee]){1,2}(;[^/]*)?(/|%2[Ff]|$)|%(?![0-9A-Fa-f]{2})|%00|%5[Cc]`
