package waf

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// RulesFile is the key of a ConfigMap with rules of a user, and the name of its file.
	RulesFile = "rules.conf"
	// MaxRuleSets is how many ConfigMaps gateway-waf reads: each takes up to some MiB.
	MaxRuleSets = 16

	// MaxRules is how many rules a file may have, maxRulesSize the longest file, and maxLine the longest directive.
	MaxRules     = 256
	maxRulesSize = 64 << 10
	maxLine      = 8 << 10
	// maxRuleID is the highest ID of a user's rule. Those above are for sets of rules.
	maxRuleID = 99999
)

// RuleSet is what a ConfigMap has.
type RuleSet struct {
	Directives []Directive
	// Problem is why they cannot be used; "" if they can.
	Problem string
}

// ParseRuleSets returns the rules of ConfigMaps, by name, from what these have in RulesFile. Of too many, those that
// come first by name can be used.
func ParseRuleSets(contents map[string]string) map[string]RuleSet {
	sets := map[string]RuleSet{}
	for i, name := range slices.Sorted(maps.Keys(contents)) {
		directives, err := ParseRules(contents[name])
		if i >= MaxRuleSets {
			directives, err = nil, fmt.Errorf("more than %d ConfigMaps have it: use fewer", MaxRuleSets)
		}
		set := RuleSet{Directives: directives}
		if err != nil {
			set.Problem = RulesFile + ": " + err.Error()
		}
		sets[name] = set
	}
	return sets
}

// Directive is one of SecLang.
type Directive struct {
	// Line is where it begins.
	Line int
	// Text is the directive, on one line. It has only what was understood here, and nothing else.
	Text string
}

// ParseRules returns the directives of a user's rules. The error names the first line that has anything but rules for
// requests: nothing of the file may be used then.
//
// A rule must do what its text means. It must not reach out of the request that it looks at, or take unbounded time or
// memory. ParseRules refuses everything else, and everything that is not known here.
func ParseRules(content string) ([]Directive, error) {
	if len(content) > maxRulesSize {
		return nil, fmt.Errorf("it has %d bytes, and may have %d: use fewer rules", len(content), maxRulesSize)
	}
	lines, err := splitDirectives(content)
	if err != nil {
		return nil, err
	}
	p := ruleParser{ids: map[string]bool{}}
	for i := range lines {
		p.line = lines[i].Line
		if lines[i].Text, err = p.directive(lines[i].Text); err != nil {
			return nil, fmt.Errorf("line %d: %w", lines[i].Line, err)
		}
	}
	switch {
	case p.isChained:
		return nil, fmt.Errorf("line %d: the last rule of a chain has the action chain: remove it, or add a SecRule", p.line)
	case len(p.jumps) > 0:
		return nil, fmt.Errorf("line %d: skipAfter:%s leads nowhere: add SecMarker %[2]s further down", p.jumps[0].Line, p.jumps[0].Text)
	}
	return lines, nil
}

// splitDirectives joins lines that end with a backslash with the next ones, without comments and empty lines, as Coraza
// does.
func splitDirectives(content string) (all []Directive, err error) {
	var open Directive
	for i, line := range strings.Split(content, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		isOdd := func(r rune) bool { return unicode.IsControl(r) && r != '\t' }
		if !utf8.ValidString(line) || strings.ContainsFunc(line, isOdd) {
			return nil, fmt.Errorf("line %d: it has bytes that are not UTF-8, or control characters", i+1)
		}
		if open.Line == 0 {
			open.Line = i + 1
		}
		part, goesOn := strings.CutSuffix(line, `\`)
		open.Text += part
		switch {
		case len(open.Text) > maxLine:
			return nil, fmt.Errorf("line %d: the directive has more than %d bytes", open.Line, maxLine)
		case !goesOn:
			all, open = append(all, open), Directive{}
		}
	}
	if open.Line != 0 {
		return nil, fmt.Errorf("line %d: nothing follows the backslash at the end of the directive", open.Line)
	}
	return all, nil
}

// ruleParser reads directives one after the other.
type ruleParser struct {
	// ids are the ids of the rules so far, and line is the line of the last directive.
	ids  map[string]bool
	line int
	// rules, steps and words count rules, steps of regular expressions, and bytes of words that are looked for.
	rules, steps, words int
	// isChained reports whether the next rule belongs to the last one, and isApart whether the rule looks at something
	// that is another thing for each rule: a count, or what was matched.
	isChained, isApart bool
	// jumps are the markers that skipAfter names and that did not come yet.
	jumps []Directive
}

var (
	directivePattern = regexp.MustCompile(`^(\S+)\s*(.*)$`)
	rulePattern      = regexp.MustCompile(`^([^\s"]+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"([^"]*)")?$`)
	quotedPattern    = regexp.MustCompile(`^"([^"]*)"$`)
	apartPattern     = regexp.MustCompile(`(?i)&|\bMATCHED_`)
	markerPattern    = regexp.MustCompile(`^"?([A-Za-z0-9_-]+)"?$`)
)

// remedies are what to use in place of directives.
var remedies = map[string]string{
	"secruleremovebyid": "use excludedRules of the filter, or ctl:ruleRemoveById", "secruleremovebytag": "use ctl:ruleRemoveByTag",
	"secruleupdatetargetbyid": "use excludedRules of the filter, or ctl:ruleRemoveTargetById", "secruleengine": "use shadow to let requests through",
	"secrequestbodylimit": "use maxBodyBytes of the filter", "secdefaultaction": "give each rule its actions",
}

// directive returns a directive as Coraza gets it.
func (p *ruleParser) directive(text string) (string, error) {
	parts := directivePattern.FindStringSubmatch(text)
	name, rest := strings.ToLower(parts[1]), parts[2]
	if p.isChained && name != "secrule" {
		return "", errors.New("the rule before has the action chain: a SecRule must follow")
	}
	switch name {
	case "secmarker":
		marker := markerPattern.FindStringSubmatch(rest)
		if marker == nil {
			return "", errors.New("a SecMarker needs a name of letters, digits, - and _")
		}
		p.jumps = slices.DeleteFunc(p.jumps, func(jump Directive) bool { return jump.Text == marker[1] })
		return "SecMarker " + marker[1], nil
	case "secaction":
		quoted := quotedPattern.FindStringSubmatch(rest)
		if quoted == nil {
			return "", errors.New(`a SecAction needs its actions in double quotes, and no others in them: SecAction "id:1000,phase:1,pass"`)
		}
		actions, err := p.actions(quoted[1])
		return "SecAction " + actions, err
	case "secrule":
		return p.rule(rest)
	}
	if remedy := remedies[name]; remedy != "" {
		return "", fmt.Errorf("%s is not allowed: %s", parts[1], remedy)
	}
	return "", fmt.Errorf("%q is not allowed: use SecRule, SecAction and SecMarker", parts[1])
}

func (p *ruleParser) rule(text string) (string, error) {
	parts := rulePattern.FindStringSubmatch(text)
	if parts == nil {
		return "", errors.New(`a SecRule needs its operator and its actions in double quotes, and no others in the actions: ` +
			`SecRule ARGS:name "@streq bad" "id:1000,phase:2,deny"`)
	}
	variables, err := parseVariables(parts[1])
	if err != nil {
		return "", err
	}
	operator, err := p.operator(parts[2])
	if err != nil {
		return "", err
	}
	p.isApart = apartPattern.MatchString(variables)
	actions, err := p.actions(parts[3])
	p.isApart = false
	return strings.TrimSuffix("SecRule "+variables+` "`+operator+`" `+actions, " "), err
}

// action is one of a rule, without the quotes of its value. The name is in lower case.
type action struct{ name, value string }

// actionPattern matches an action and the comma after it. Nothing is escaped: Coraza takes a backslash before a quote
// or comma for an escape, but keeps it.
var actionPattern = regexp.MustCompile(`^\s*([A-Za-z]+)\s*(?::\s*(?:'([^'\\]*)'|([^',\\]*)))?\s*(?:,|$)`)

func splitActions(text string) (all []action, err error) {
	for rest := text; rest != "" || strings.HasSuffix(text, ","); {
		found := actionPattern.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf(`the actions cannot be read from %q on: they are NAME or NAME:VALUE with commas between, `+
				`single quotes around values with commas, and no backslash`, rest)
		}
		all = append(all, action{strings.ToLower(found[1]), found[2] + strings.TrimSpace(found[3])})
		rest = rest[len(found[0]):]
	}
	return all, nil
}

// actions returns the actions of a rule as Coraza gets them, in double quotes: those that do something.
func (p *ruleParser) actions(text string) (string, error) {
	all, err := splitActions(text)
	if err != nil {
		return "", err
	}
	isStart := !p.isChained
	p.isChained = false
	var kept []string
	counts := map[string]int{}
	for _, a := range all {
		known, ok := knownActions[a.name]
		switch {
		case !ok:
			return "", fmt.Errorf("the action %s is not allowed", a.name)
		case known.startOnly && !isStart:
			return "", fmt.Errorf("the action %s must be in the first rule of the chain", a.name)
		}
		if err := known.check(p, a); err != nil {
			return "", fmt.Errorf("the action %s: %w", a.name, err)
		}
		counts[known.group]++
		if known.group != "" && counts[known.group] > known.most {
			return "", fmt.Errorf("the action %s: a rule may have at most %d of its kind", a.name, known.most)
		}
		if a.name == "t" && p.isApart {
			kept = append(kept, "t:'"+Apart(p.rules)+"'")
		}
		if !known.isSilent {
			kept = append(kept, strings.TrimSuffix(a.name+":'"+a.value+"'", ":''"))
		}
	}
	p.rules++
	switch {
	case isStart && counts["id"] == 0:
		return "", fmt.Errorf("the rule needs an id from 1 to %d", maxRuleID)
	case p.rules > MaxRules:
		return "", fmt.Errorf("there are more than %d rules", MaxRules)
	case len(kept) == 0:
		return "", nil
	}
	return `"` + strings.Join(kept, ",") + `"`, nil
}

// Apart is the name of a transformation that changes nothing, and that no other rule of a file has. Coraza remembers
// what transformations made of a value by their names and the value's, whatever the value was for the rule before.
func Apart(rule int) string { return fmt.Sprint("apart", rule) }

// parseID returns an ID in a range.
func parseID(text string, least, most int) (int, error) {
	if id, err := strconv.Atoi(text); err == nil && id >= least && id <= most && text[0] != '+' {
		return id, nil
	}
	return 0, fmt.Errorf("%q is not an ID from %d to %d", text, least, most)
}
