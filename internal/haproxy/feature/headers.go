package feature

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

// headers removes and adds headers. The parameter "del.NAME" removes request headers, "add.NAME.I" adds one; I counts
// from 0. "rdel" and "radd" do it for the answer.
//
// Each name has rules of its own, so the first change of a header of a name takes a reload: HAProxy takes no names of
// headers from data.
var headers = feature{
	mayStay: true,
	encode: func(in Input, p *params) {
		changes := changesFor(in.Rule, in.Target)
		encodeHeaders(p, "", changes.Request)
		encodeHeaders(p, "r", changes.Response)
		if affinity := in.Rule.Affinity; affinity != nil && in.Target != nil && clears(changes.Request, cookie) {
			p.set("keep."+affinity.Cookie(in.Target.Backend), "1")
		}
	},
	rules: func(env Env) Rules {
		request, response, cookies := headerNames(env.Table)
		rules := Rules{Request: headerRules("", "http-request", request), Response: headerRules("r", "http-response", response)}
		for _, name := range slices.Sorted(maps.Keys(cookies)) {
			rules.Request = append(rules.Request, keepCookie(name)...)
		}
		return rules
	},
}

const cookie = "cookie"

// changesFor returns the changes of headers of a rule and then those of the target that gets the request, nil if none
// does.
func changesFor(rule *routing.Rule, target *routing.Target) routing.HeaderChanges {
	if target == nil {
		return rule.Headers
	}
	return routing.HeaderChanges{
		Request:  model.Then(rule.Headers.Request, target.Headers.Request...),
		Response: model.Then(rule.Headers.Response, target.Headers.Response...),
	}
}

func encodeHeaders(p *params, side string, changes []routing.HeaderChange) {
	for _, change := range changes {
		name := ir.Quote(change.Name, ir.InName)
		if change.Clear {
			p.set(side+"del."+name, "1")
		}
		for i, value := range change.Values {
			p.set(side+"add."+name+"."+strconv.Itoa(i), value)
		}
	}
}

func clears(changes []routing.HeaderChange, name string) bool {
	return slices.ContainsFunc(changes, func(c routing.HeaderChange) bool { return c.Name == name && c.Clear })
}

// headerNames returns how many values each header gets at most that some rule changes, and the cookies of sessions
// whose header is removed.
func headerNames(table routing.Table) (request, response map[string]int, cookies map[string]bool) {
	request, response, cookies = map[string]int{}, map[string]int{}, map[string]bool{}
	note := func(names map[string]int, changes []routing.HeaderChange) {
		for _, change := range changes {
			names[change.Name] = max(names[change.Name], len(change.Values))
		}
	}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		note(request, rule.Headers.Request)
		note(response, rule.Headers.Response)
		for _, target := range rule.Targets {
			changes := changesFor(rule, &target)
			note(request, changes.Request)
			note(response, changes.Response)
			if rule.Affinity != nil && clears(changes.Request, cookie) {
				cookies[rule.Affinity.Cookie(target.Backend)] = true
			}
		}
	})
	return request, response, cookies
}

// headerRules returns the rules for the headers of requests or of answers: all that remove, then all that add.
func headerRules(side, directive string, names map[string]int) []string {
	var del, add []string
	for _, header := range slices.Sorted(maps.Keys(names)) {
		name := ir.Quote(header, ir.InName)
		if side == "" && header == cookie {
			del = append(del, "http-request set-var(txn.cookies) req.fhdr(cookie) if "+has("del.cookie"))
		}
		del = append(del, fmt.Sprintf("%s del-header %s if %s", directive, deleted(side, header), has(side+"del."+name)))
		for i := range names[header] {
			value := side + "add." + name + "." + strconv.Itoa(i)
			add = append(add, fmt.Sprintf("%s add-header %s \"%%[%s]\" if %s", directive, name, text(value), has(value)))
		}
	}
	return append(del, add...)
}

var notPlain = regexp.MustCompile(`[^a-z0-9-]`)

// deleted returns what del-header removes. If a request header is set whose name has another character than letters,
// digits and "-", some backends take what a client sends with "-" for the same.
func deleted(side, header string) string {
	if variants := notPlain.ReplaceAllString(header, "[^a-z0-9]"); side == "" && variants != header {
		return "^" + variants + "$ -m reg"
	}
	return ir.Quote(header, ir.InName)
}

// keepCookie puts the cookie of a session back where a filter has removed the header: HAProxy looks for it when all
// rules are done, and takes it away itself.
func keepCookie(name string) []string {
	before := `^(.*[;,])?[\x09\x20]*` + regex.Quote(name) + "="
	condition := has("keep."+name) + " { var(txn.cookies) -m reg '" + before + "' }"
	return []string{
		`http-request set-var(txn.value) 'var(txn.cookies),regsub("` + before + `",""),regsub("[;,].*$","")' if ` + condition,
		`http-request add-header cookie "` + ir.Quote(name, ir.InName) + `=%[var(txn.value)]" if ` + condition,
	}
}
