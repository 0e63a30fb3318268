package filters

import (
	"fmt"
	"slices"

	"gateway/internal/routing"
)

// A guard in shadow decides as usual, but a request that it would refuse goes on. The parameter "PARAM.shadow" of a
// rule switches that on, and txn.shadowing is set while the guard decides. All guards refuse by Env.refuse, which
// notes the first status that a request would have got, in txn.would, in place of the answer. At the end of the guard,
// that is counted, and added to txn.shadow for the access log: {"GUARD":STATUS,...}. If no rule has a guard in shadow,
// haproxy.cfg has none of these lines.
//
// A request that is let through must reach the backend as without the guard: nothing may show that it passed. The
// guards ensure that themselves, by isRefused.

const (
	shadowSuffix = ".shadow"
	// inShadow is the condition that the guard which decides lets requests through, isRefused that it would have refused
	// this one.
	inShadow  = "{ var(txn.shadowing) -m found }"
	isRefused = "{ var(txn.would) -m found }"
)

// ShadowLog is the expression for what guards in shadow would have answered, as JSON.
const ShadowLog = `var(txn.shadow,{})`

// HasShadows reports whether some rule has a guard in shadow.
func HasShadows(env Env) bool {
	return slices.ContainsFunc(env.Rules, func(rule *routing.Rule) bool { return len(rule.Shadow) > 0 })
}

// hasShadow reports whether some rule has this guard in shadow.
func hasShadow(env Env, guard string) bool {
	return slices.ContainsFunc(env.Rules, func(rule *routing.Rule) bool { return rule.Shadows(guard) })
}

// isShadow reports whether a rule has the filter let requests through that it would refuse.
func (f *filter) isShadow(rule *routing.Rule) bool {
	if f.inShadow != nil {
		return f.inShadow(rule)
	}
	return f.guard != "" && rule.Shadows(f.guard)
}

// refuse returns the lines by which a filter refuses requests that meet a condition, with a status, a text for the
// client, and headers.
func (e Env) refuse(status int32, text, headers, condition string) []string {
	refuse := "http-request return " + e.Answer(status, text) + headers + " if " + condition
	if !e.isShadow {
		return []string{refuse}
	}
	return []string{would(fmt.Sprintf("int(%d)", status), condition), refuse + " !" + inShadow}
}

// would returns the line that notes the status that a request would get which meets a condition.
func would(status, condition string) string {
	return "http-request set-var(txn.would) " + status + " if " + inShadow + " !" + isRefused + " " + condition
}

// shadowed returns the lines of a filter that lets requests of some rules through, with what they need around them.
func (f *filter) shadowed(lines []string) []string {
	lines = slices.Concat([]string{"http-request set-var(txn.shadowing) bool(true) if " + has(f.param+shadowSuffix)}, lines)
	if f.guard != "" {
		decides := " { var(txn.guard) -m str " + f.guard + " }"
		if f != order[slices.IndexFunc(order, func(first *filter) bool { return first.guard == f.guard })] {
			// It has refused the request before.
			lines = append(lines, "http-request unset-var(txn.would) if { var(txn.shadow) -m sub "+f.guard+" }")
		}
		lines = append(lines, shadowLines("http-request", f.guard, " if "+isRefused+decides)...)
		lines = append(lines, "http-request unset-var(txn.would) if"+decides)
	}
	return append(lines, "http-request unset-var(txn.shadowing)")
}

// shadowLines count and note what a guard would have done to a request, whose status is in txn.would then.
func shadowLines(directive, guard, refused string) []string {
	counter := shadowCounter(slices.Index(Guards(), guard))
	return []string{
		fmt.Sprintf("%s sc-inc-gpc(%d,%d)%s !{ var(txn.would) -m int ge 500 }", directive, counter, decisionsCounter, refused),
		fmt.Sprintf("%s sc-inc-gpc(%d,%d)%s { var(txn.would) -m int ge 500 }", directive, counter+1, decisionsCounter, refused),
		fmt.Sprintf(`%s set-var-fmt(txn.refusals) "%%[var(txn.refusals)],\"%s\":%%[var(txn.would)]"%s`, directive, guard, refused),
		directive + ` set-var-fmt(txn.shadow) "{%[var(txn.refusals),bytes(1)]}"` + refused,
	}
}

// shadowCounter returns the number of the first counter of a guard in shadow, by its index.
func shadowCounter(guard int) int { return 1 + 2*len(Guards()) + 2*guard }

// drops encodes the names of headers that a guard in shadow takes out of requests that it would have refused.
func drops(p *params, name string, headers []string) {
	var list []byte
	for _, header := range headers {
		list = appendText(list, header)
	}
	p.setList(name+".drop", list, 1)
}
