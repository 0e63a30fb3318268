// Package filters holds everything that a rule can do with its requests besides choosing a backend: one file for each
// filter.
//
// A filter encodes its settings as parameters. All parameters of a rule are one value of filters.map, in the form of a
// query string:
//
//	timeout=5000&once=1&add.x-tenant.0=one
//
// And a filter has the rules of haproxy.cfg that carry them out. They find the value in the variable txn.filters, and
// extract a parameter with HAProxy's converter "param".
package filters

import (
	"cmp"
	_ "embed" // for exchangeProgram
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Rules are lines of haproxy.cfg.
type Rules struct {
	// Request, Response and AfterResponse are in the section of all frontends. They only see requests whose rule has
	// filters.
	Request, Response, AfterResponse []string
	// Frontend are in the section of each frontend, and come after Request and Response.
	Frontend []string
	// Backend are in the sections that backends take their settings from. They see all requests.
	Backend []string
}

// Input is a rule whose settings are encoded.
type Input struct {
	Rule *routing.Rule
	// Target is the one that gets the requests; nil: none does.
	Target *routing.Target
	// Cut is how many bytes a prefix has that is replaced.
	Cut int
	// List adds a list of regular expressions to the conditions, and returns its name.
	List func(list ir.List) string
	// Content adds entries of a map, whose keys begin with a "/", and returns what comes before that.
	Content func(file string, entries func() []ir.MapEntry) string
	// BackendFor returns the name of the backend for requests to a Service port; "" if there can be none.
	BackendFor func(routing.Backend) string
}

// filter is one of the filters.
type filter struct {
	// guard is how users call what may refuse requests; "": the filter does not. param is a parameter of all rules with
	// it. See guard.go.
	guard, param string
	// inShadow reports whether a rule has the filter let requests through that it would refuse. nil: if the rule shadows
	// the guard. See shadow.go.
	inShadow func(rule *routing.Rule) bool
	// mayStay reports whether all rules but those in frontends do nothing without a parameter, so whether they may stay
	// when no rule has it any more.
	mayStay bool
	// isUsed reports whether a rule has the filter. Without such a rule there are no lines, and nothing is added, so the
	// first one takes a reload. nil: the lines are always there. Only of rules that have the filter, names, check, encode
	// and describe are asked.
	isUsed func(rule *routing.Rule) bool
	// names are what the lines have of a rule: those for rules with the same names are the same. nil: nothing.
	names func(rule *routing.Rule) []string
	// needsClient reports whether a rule has to know the client's address, which is in txn.client then; nil: it has not.
	needsClient func(rule *routing.Rule) bool
	// check returns the part of a rule that cannot be carried out, "" if there is none. It may be nil.
	check func(rule *routing.Rule) string
	// encode adds the parameters of a rule; nil: there are none.
	encode func(in Input, p *params)
	// rules returns the lines for all rules. Those of common filters are always there, so that the first rule that uses
	// one takes no reload.
	rules func(env Env) Rules
	// add adds what the rules need: files, programs, tables and other sections; nil: nothing.
	add func(env Env, config *ir.Config)
	// describe returns what the filter does with requests on their way to a backend, for users. answer returns how it
	// answers them in place of a backend; "": it does not.
	describe func(rule *routing.Rule) []string
	answer   func(rule *routing.Rule) string
}

// isIn reports whether a rule may have the filter.
func (f *filter) isIn(rule *routing.Rule) bool { return f.isUsed == nil || f.isUsed(rule) }

// isNeeded reports whether the lines of the filter are needed.
func (f *filter) isNeeded(env Env) bool {
	return f.isUsed == nil || slices.ContainsFunc(env.Rules, f.isUsed)
}

// Needs returns a key for what a rule needs in haproxy.cfg, "" if nothing. Rules with the same key need the same
// lines.
func Needs(rule *routing.Rule) string {
	var needs []string
	for _, f := range order {
		if f.isUsed != nil && f.isUsed(rule) {
			needs = append(needs, strconv.Itoa(slices.Index(order, f)))
		}
		if f.names != nil && f.isIn(rule) {
			needs = append(needs, f.names(rule)...)
		}
		if f.isShadow(rule) {
			needs = append(needs, f.param+shadowSuffix)
		}
	}
	return strings.Join(needs, "\n")
}

// Env is what rules are made for.
type Env struct {
	Table routing.Table
	// Rules are some of the table's, at least one for all that have the same Needs.
	Rules []*routing.Rule
	// Paths are where HAProxy finds its files.
	Paths ir.Paths
	// guards are those with rules.
	guards []string
	// isShadow reports whether the filter whose rules are made has to let requests of some rules through.
	isShadow bool
	// isPreRouting says that no rule is chosen yet.
	isPreRouting bool
	// KeySets are the keys of tokens that rules name the source of.
	KeySets map[routing.KeySource][]routing.JWTKey
}

// order is the order in which HAProxy carries the filters out: CORS first, so that a browser may read every other
// response, and before the wait for a body. A copy is the request that the backend gets. A stored response needs no
// more rules for responses.
var order = []*filter{
	&cache, &cors, &arrive, &client, &clients, &limit, &basic, &jwt, &userLimit, &body, &path, &keepSession, &auth, &pass,
	&redirect, &response, &timeout, &rewrite, &headers, &session, &mirror,
}

// after adds a filter to the order. It is for the init of the filter's file.
func after(other, f *filter) { order = slices.Insert(order, slices.Index(order, other)+1, f) }

// Encode returns the value of a rule in filters.map; "" if it does nothing but choose a backend.
func Encode(in Input) string {
	var p params
	first := ""
	for _, f := range order {
		before := len(p)
		if f.encode != nil && f.isIn(in.Rule) {
			f.encode(in, &p)
		}
		if len(p) > before {
			first = cmp.Or(first, f.guard)
			if f.isShadow(in.Rule) {
				p.set(f.param+shadowSuffix, "1")
			}
		}
	}
	if first != "" {
		p.set("guard", first)
	}
	return strings.Join(p, "&")
}

// maxSize is the longest value of a rule: the command that adds it must fit HAProxy's buffer.
const maxSize = 10000

// Problem returns the parts of a rule's filters that cannot be carried out, "" if there are none.
func Problem(rule *routing.Rule) string {
	for _, f := range order {
		if f.check == nil || !f.isIn(rule) {
			continue
		}
		if problem := f.check(rule); problem != "" {
			return problem
		}
	}
	size := max(len(Encode(sizing(rule, nil))), len(EncodePreRouting(sizing(rule, nil))))
	for i := range rule.Targets {
		size = max(size, len(Encode(sizing(rule, &rule.Targets[i]))))
	}
	if size > maxSize {
		return fmt.Sprintf("its filters have %d bytes where %d are allowed", size, maxSize)
	}
	return ""
}

// sizing returns an Input whose value is as long as any for the rule and target.
func sizing(rule *routing.Rule, target *routing.Target) Input {
	name := ir.ContentName("")
	return Input{
		Rule: rule, Target: target,
		List:    func(ir.List) string { return "?" + name },
		Content: func(string, func() []ir.MapEntry) string { return name },
		BackendFor: func(backend routing.Backend) string {
			return fmt.Sprintf("%s_%s_%d.%s", backend.Namespace, backend.Service, backend.Port, name)
		},
	}
}

// AllRules are the rules of all filters.
type AllRules struct {
	Request, Response, AfterResponse []ir.Line
	Frontend, Backend                []string
}

// All returns the rules of all filters.
func All(env Env) AllRules {
	env.guards = guardsOf(func(f *filter) bool { return f.isNeeded(env) })
	var all AllRules
	for _, f := range order {
		if f.rules == nil || !f.isNeeded(env) {
			continue
		}
		env.isShadow = slices.ContainsFunc(env.Rules, f.isShadow)
		rules, reason := f.rules(env), ""
		if f.mayStay {
			reason = ir.ReloadNames
		}
		if f.guard != "" && len(rules.Request) > 0 {
			all.Request = append(all.Request, ir.Line{Text: "http-request set-var(txn.guard) str(" + f.guard + ") if " + has(f.param), Reason: reason})
		}
		if env.isShadow {
			rules.Request = f.shadowed(rules.Request)
		}
		all.Request = append(all.Request, ir.Lines(reason, rules.Request...)...)
		all.Response = append(all.Response, ir.Lines(reason, rules.Response...)...)
		all.AfterResponse = append(all.AfterResponse, ir.Lines(reason, rules.AfterResponse...)...)
		all.Frontend = append(all.Frontend, rules.Frontend...)
		all.Backend = append(all.Backend, rules.Backend...)
	}
	all.AfterResponse = append(all.AfterResponse, ir.Lines(ir.ReloadNames, refusedLines(env.guards)...)...)
	return all
}

// Add adds what the rules of all filters need: files, programs, tables and other sections.
func Add(env Env, config *ir.Config) {
	for _, f := range order {
		if f.add != nil && f.isNeeded(env) {
			f.add(env, config)
		}
	}
	if len(guardsOf(func(f *filter) bool { return f.isNeeded(env) })) > 0 {
		config.Sections = append(config.Sections, decisionsSection(env))
	}
}

// spare returns a section that may stay once no rule needs it any more.
func spare(reason, header string, lines ...string) ir.Section {
	return ir.Section{Header: header, Reason: reason, MayStay: true, Lines: ir.Lines("", lines...)}
}

// addProgram adds a program in Lua with its sections, once. Headers of its own keep what programs need out of sections
// that may not change. What follows the file are the arguments of the program.
//
// The programs can do nothing but what their libraries let them, and have so much memory. Each thread has its own state
// of them.
func addProgram(env Env, config *ir.Config, name, file string, program []byte, arguments string, sections ...ir.Section) {
	if config.Files[file] != nil {
		return
	}
	all := spare(ir.ReloadSettings, "global # programs",
		"tune.lua.bool-sample-conversion normal",
		"tune.lua.openlibs string,table,utf8",
		"tune.lua.maxmem 128",
		"tune.lua.log.loggers off",
	)
	if !slices.ContainsFunc(config.Sections, func(s ir.Section) bool { return s.Header == all.Header }) {
		config.Sections = append(config.Sections, all)
	}
	config.Files[file] = program
	config.Sections = append(config.Sections, spare(ir.ReloadSettings, "global # "+name, "lua-load-per-thread "+env.Paths.Map(file)+arguments))
	config.Sections = append(config.Sections, sections...)
}

// exchangeProgram sends the requests of other programs. It contains no user input.
//
//go:embed exchange.lua
var exchangeProgram []byte

// addExchange adds it. It comes before programs that use it.
func addExchange(env Env, config *ir.Config) {
	addProgram(env, config, "requests of programs", ir.ExchangeFile, exchangeProgram, "")
}

// Describe returns what the filters of a rule do with requests on their way to a backend, in the order in which HAProxy
// carries them out. A filter that answers is the last one.
func Describe(rule *routing.Rule) []string {
	var all []string
	for _, f := range order {
		if f.answer != nil && f.answer(rule) != "" {
			break
		}
		if f.describe == nil || !f.isIn(rule) {
			continue
		}
		for _, text := range f.describe(rule) {
			if f.isShadow(rule) {
				text += " (shadow: it goes on)"
			}
			all = append(all, text)
		}
	}
	return all
}

// Answer returns how a filter of a rule answers requests in place of a backend; "": none does.
func Answer(rule *routing.Rule) string {
	for _, f := range order {
		if f.answer == nil {
			continue
		}
		if answer := f.answer(rule); answer != "" {
			return answer
		}
	}
	return ""
}

// params are NAME=VALUE.
type params []string

// set adds a parameter with any value.
func (p *params) set(name, value string) {
	*p = append(*p, name+"="+ir.Quote(value, "%&+"))
}

// param returns the expression for a parameter as it is encoded, which numbers and words are not.
func param(name string) string { return "var(txn.filters),param(" + name + ")" }

// text returns the expression for a parameter that is a text.
func text(name string) string { return param(name) + ",url_dec" }

// has returns the condition that the rule has a parameter.
func has(name string) string { return "{ " + param(name) + " -m found }" }

// is returns the condition that a parameter has a value. One that begins with "-" would be an option.
func is(name, value string) string {
	if strings.HasPrefix(value, "-") {
		value = "-- " + value
	}
	return "{ " + param(name) + " -m str " + value + " }"
}
