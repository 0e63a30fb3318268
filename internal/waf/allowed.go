package waf

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSteps is how large the regular expressions of a file may be together, maxWords how many bytes the words of its
	// @pm: Coraza needs up to some hundred bytes for a step, and some KiB for a byte of a word.
	maxSteps = 50_000
	maxWords = 4 << 10
	// maxTransformations is how many a rule may have.
	maxTransformations = 12
	// firstCRS and lastCRS are the IDs of the Core Rule Set that may be left out, as in the schema of excludedRules.
	firstCRS, lastCRS = 911000, 944999
)

// variables are the parts of requests that rules may look at, and whether they have names. Others are about responses,
// the machine, or sessions that nobody keeps.
var variables = map[string]bool{
	"ARGS": true, "ARGS_GET": true, "ARGS_POST": true, "ARGS_NAMES": false, "ARGS_GET_NAMES": false, "ARGS_POST_NAMES": false, "ARGS_COMBINED_SIZE": false,
	"REQUEST_COOKIES": true, "REQUEST_COOKIES_NAMES": false, "REQUEST_HEADERS": true, "REQUEST_HEADERS_NAMES": false,
	"QUERY_STRING": false, "REMOTE_ADDR": false, "SERVER_NAME": false,
	"REQUEST_BASENAME": false, "REQUEST_FILENAME": false, "REQUEST_LINE": false, "REQUEST_METHOD": false, "REQUEST_PROTOCOL": false,
	"REQUEST_URI": false, "REQUEST_URI_RAW": false, "REQUEST_BODY": false, "REQUEST_BODY_LENGTH": false, "REQBODY_PROCESSOR": false,
	"FILES": true, "FILES_NAMES": false, "FILES_COMBINED_SIZE": false, "MULTIPART_PART_HEADERS": false,
	"MATCHED_VAR": false, "MATCHED_VAR_NAME": false, "MATCHED_VARS": false, "MATCHED_VARS_NAMES": false, "TX": true,
}

// partPattern matches the name of a part, as excludedRules takes it but for what SecLang has another meaning for.
const partPattern = `[!#-&(-.0-[\]-{}~][!#-&(-[\]-{}~]{0,127}`

var (
	variablePattern = regexp.MustCompile(`^([!&]?([A-Za-z_]+))(?::(` + partPattern + `))?$`)
	plainPattern    = regexp.MustCompile(`^[A-Za-z0-9_.$-]*$`)
	macroPattern    = regexp.MustCompile(`%\{([A-Za-z_]+)(?:\.([A-Za-z0-9_-]+))?\}`)
)

// parseVariables returns what a rule looks at as Coraza gets it.
func parseVariables(text string) (string, error) {
	parts := strings.Split(text, "|")
	for i, part := range parts {
		if part == "XML:/*" || part == "XML://@*" {
			continue
		}
		found := variablePattern.FindStringSubmatch(part)
		if found == nil {
			return "", fmt.Errorf("%q is not NAME or NAME:PART, where PART has up to 128 characters of ASCII, no space, quote, | or \\, and does not begin with /", part)
		}
		if err := checkVariable(found[2], found[3]); err != nil {
			return "", err
		}
		if !plainPattern.MatchString(found[3]) {
			// Coraza would take a slash in a name for the begin of an expression.
			parts[i] = found[1] + ":/(?i)^" + strings.ReplaceAll(regexp.QuoteMeta(found[3]), "/", `\/`) + "$/"
		}
		if i == 0 && part[0] == '!' {
			return "", fmt.Errorf("%q takes something from nothing: write first what to look at", part)
		}
	}
	return strings.Join(parts, "|"), nil
}

// checkVariable checks the name of something that a rule may look at, and of a part of it; "": all.
func checkVariable(name, part string) error {
	hasParts, ok := variables[strings.ToUpper(name)]
	switch {
	case !ok:
		return fmt.Errorf("%s is not allowed: rules look at requests", name)
	case part != "" && !hasParts:
		return fmt.Errorf("%s has no parts such as %s", name, part)
	case strings.Contains(part, "%{"):
		return fmt.Errorf("the part %s has a %%{...}: write a name", part)
	}
	return nil
}

// checkMacros checks the %{...} of a text, which may have as many.
func checkMacros(text string, most int) error {
	macros := macroPattern.FindAllStringSubmatch(text, -1)
	switch {
	case len(macros) > most:
		return fmt.Errorf("%q has more than %d of %%{...}", text, most)
	case strings.Count(text, "%{") != len(macros):
		return fmt.Errorf("%q has a %%{...} that is not NAME or NAME.PART", text)
	}
	for _, macro := range macros {
		if err := checkVariable(macro[1], macro[2]); err != nil {
			return fmt.Errorf("%s: %w", macro[0], err)
		}
		if variables[strings.ToUpper(macro[1])] && macro[2] == "" {
			return fmt.Errorf("%s lacks which: write %%{%s.NAME}", macro[0], macro[1])
		}
	}
	return nil
}

// operators check the arguments of operators. Others read files, ask other servers, or need data that nobody has.
var operators = map[string]func(p *ruleParser, argument string) error{
	"rx": (*ruleParser).addExpression, "pm": (*ruleParser).addWords,
	"beginsWith": textOperator, "contains": textOperator, "endsWith": textOperator, "streq": textOperator, "strmatch": textOperator, "within": textOperator,
	"eq": numberOperator, "ge": numberOperator, "gt": numberOperator, "le": numberOperator, "lt": numberOperator,
	"ipMatch": addressOperator, "validateByteRange": bytesOperator,
	"detectSQLi": noArgument, "detectXSS": noArgument, "validateUrlEncoding": noArgument, "validateUtf8Encoding": noArgument,
	"unconditionalMatch": noArgument, "noMatch": noArgument,
}

var operatorPattern = regexp.MustCompile(`^(!?@)([A-Za-z0-9]+)(?: (.*))?$`)

// operator returns an operator as Coraza gets it, without its quotes. Without a name, it is a regular expression.
func (p *ruleParser) operator(text string) (string, error) {
	found := operatorPattern.FindStringSubmatch(text)
	switch {
	case strings.HasPrefix(text, "@"), strings.HasPrefix(text, "!@"):
		if found == nil {
			return "", fmt.Errorf("the operator %q is not @NAME or @NAME ARGUMENT", text)
		}
	case strings.HasPrefix(text, "!"):
		found = []string{"", "!@", "rx", text[1:]}
	default:
		found = []string{"", "@", "rx", text}
	}
	check, ok := operators[found[2]]
	if !ok {
		return "", fmt.Errorf("the operator @%s is not allowed, or is written in another way", found[2])
	}
	raw := strings.TrimSpace(found[3])
	argument := strings.ReplaceAll(raw, `\"`, `"`)
	if err := check(p, argument); err != nil {
		return "", fmt.Errorf("the operator @%s: %w", found[2], err)
	}
	if found[2] == "pm" {
		// Coraza keeps what it compiles by its text alone, and the Core Rule Set has expressions that could be words.
		words := strings.Fields(raw)
		raw = strings.Join(append(words, words[0]), " ")
	}
	return strings.TrimSpace(found[1] + found[2] + " " + raw), nil
}

// addExpression checks a regular expression as Coraza reads it.
func (p *ruleParser) addExpression(expression string) error {
	parsed, err := syntax.Parse("(?sm)"+expression, syntax.Perl)
	if err != nil {
		return err
	}
	if p.steps += steps(parsed); p.steps > maxSteps {
		return fmt.Errorf("the regular expressions of the file have more than %d steps together: use fewer repetitions", maxSteps)
	}
	return nil
}

// steps returns about how large an expression becomes.
func steps(expression *syntax.Regexp) int {
	sum := 1 + len(expression.Rune)
	for _, sub := range expression.Sub {
		sum += steps(sub)
	}
	if expression.Op == syntax.OpRepeat {
		sum *= max(expression.Min, expression.Max, 1)
	}
	return sum
}

func (p *ruleParser) addWords(words string) error {
	p.words += len(words)
	switch {
	case len(strings.Fields(words)) == 0:
		return errors.New("it needs words")
	case strings.Contains(words, "|"):
		return errors.New("words may not have |")
	case p.words > maxWords:
		return fmt.Errorf("the words of all @pm have more than %d bytes", maxWords)
	}
	return nil
}

func textOperator(_ *ruleParser, text string) error {
	if text == "" {
		return errors.New("it needs a text")
	}
	return checkMacros(text, 4)
}

func numberOperator(_ *ruleParser, number string) error {
	if _, err := strconv.Atoi(number); err == nil {
		return nil
	}
	if macroPattern.FindString(number) != number || number == "" {
		return fmt.Errorf("%q is neither a number nor one %%{...}", number)
	}
	return checkMacros(number, 1)
}

func addressOperator(_ *ruleParser, addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimSpace(address)
		_, err := netip.ParsePrefix(address)
		if one, err2 := netip.ParseAddr(address); err != nil && (err2 != nil || one.Zone() != "") {
			return fmt.Errorf("%q is neither an address nor a range of addresses, such as 10.0.0.0/8", address)
		}
	}
	return nil
}

func bytesOperator(_ *ruleParser, ranges string) error {
	for one := range strings.SplitSeq(ranges, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(one), "-")
		first, err := strconv.ParseUint(from, 10, 8)
		last, err2 := first, error(nil)
		if isRange {
			last, err2 = strconv.ParseUint(to, 10, 8)
		}
		if err != nil || err2 != nil || last < first {
			return fmt.Errorf("%q is not a number from 0 to 255 or a range of them, such as 32-126", one)
		}
	}
	return nil
}

func noArgument(_ *ruleParser, argument string) error {
	if argument != "" {
		return errors.New("it has no argument")
	}
	return nil
}

// knownAction is an action that is allowed.
type knownAction struct {
	check func(p *ruleParser, a action) error
	// group names the directives of which a rule may have most together; "": there is no bound.
	group string
	most  int
	// startOnly reports whether only the first rule of a chain may have it. isSilent reports whether it does nothing: it
	// is for logs that nobody writes.
	startOnly, isSilent bool
}

var knownActions = map[string]knownAction{
	"id": {check: (*ruleParser).addID, group: "id", most: 1, startOnly: true}, "phase": {check: checkPhase, group: "phase", most: 1, startOnly: true},
	"deny": {check: noValue, group: "verdict", most: 1, startOnly: true}, "block": {check: noValue, group: "verdict", most: 1, startOnly: true},
	"pass": {check: noValue, group: "verdict", most: 1, startOnly: true}, "allow": {check: checkAllow, group: "verdict", most: 1, startOnly: true},
	"status": {check: checkStatus, group: "status", most: 1, startOnly: true, isSilent: true},
	"chain":  {check: (*ruleParser).chain, group: "chain", most: 1}, "skipafter": {check: (*ruleParser).skipAfter, group: "skipafter", most: 1, startOnly: true},
	"t": {check: checkTransformation, group: "t", most: maxTransformations}, "capture": {check: noValue}, "multimatch": {check: noValue},
	"setvar": {check: checkSetvar, group: "setvar", most: 16}, "ctl": {check: checkCtl, group: "ctl", most: 64},
	"tag": {check: checkTag}, "log": {check: noValue}, "nolog": {check: noValue}, "severity": {check: anyValue, isSilent: true},
	"msg": {check: anyValue, isSilent: true}, "logdata": {check: anyValue, isSilent: true}, "rev": {check: anyValue, isSilent: true}, "ver": {check: anyValue, isSilent: true},
	"maturity": {check: anyValue, isSilent: true}, "accuracy": {check: anyValue, isSilent: true}, "auditlog": {check: noValue, isSilent: true}, "noauditlog": {check: noValue, isSilent: true},
}

func anyValue(*ruleParser, action) error { return nil }

func noValue(_ *ruleParser, a action) error {
	if a.value != "" {
		return errors.New("it has no value")
	}
	return nil
}

func (p *ruleParser) addID(a action) error {
	if _, err := parseID(a.value, 1, maxRuleID); err != nil {
		return fmt.Errorf("%w, which rules of your own have", err)
	}
	id := strings.TrimLeft(a.value, "0")
	if p.ids[id] {
		return fmt.Errorf("another rule has %s, too", id)
	}
	p.ids[id] = true
	return nil
}

func checkPhase(_ *ruleParser, a action) error {
	if !slices.Contains([]string{"1", "2", "request"}, a.value) {
		return fmt.Errorf("%q is neither 1, for headers, nor 2, for bodies: responses are not looked at", a.value)
	}
	return nil
}

func checkAllow(_ *ruleParser, a action) error {
	if !slices.Contains([]string{"", "phase", "request"}, a.value) {
		return errors.New("its value is phase or request, or there is none")
	}
	return nil
}

func checkStatus(_ *ruleParser, a action) error {
	if a.value != "403" {
		return errors.New("requests that are refused get 403")
	}
	return nil
}

func (p *ruleParser) chain(a action) error {
	p.isChained = true
	return noValue(p, a)
}

func (p *ruleParser) skipAfter(a action) error {
	if !markerPattern.MatchString(a.value) {
		return fmt.Errorf("%q is no name of a SecMarker", a.value)
	}
	p.jumps = append(p.jumps, Directive{p.line, a.value})
	return nil
}

// transformations are those that rules may have, and whether they make a text longer: several of these would make it as
// long as memory is.
var transformations = map[string]bool{
	"base64decode": false, "base64decodeext": false, "base64encode": true, "cmdline": false, "compresswhitespace": false, "cssdecode": false, "escapeseqdecode": false,
	"hexdecode": false, "hexencode": true, "htmlentitydecode": false, "jsdecode": false, "length": false, "lowercase": false, "md5": false, "none": false,
	"normalisepath": false, "normalisepathwin": false, "normalizepath": false, "normalizepathwin": false, "removecomments": false, "removecommentschar": false,
	"removenulls": false, "removewhitespace": false, "replacecomments": false, "replacenulls": false, "sha1": false, "uppercase": false,
	"urldecode": false, "urldecodeuni": false, "urlencode": true, "utf8tounicode": true, "trim": false, "trimleft": false, "trimright": false,
}

func checkTransformation(_ *ruleParser, a action) error {
	isLonger, ok := transformations[strings.ToLower(a.value)]
	switch {
	case !ok:
		return fmt.Errorf("there is no transformation %q", a.value)
	case isLonger:
		return fmt.Errorf("%s makes texts longer, which is not allowed: decode what is compared", a.value)
	}
	return nil
}

var (
	setvarPattern = regexp.MustCompile(`^!?[Tt][Xx]\.([A-Za-z0-9_-]+)(?:=(.+))?$`)
	// notSet are variables that rules may not set, since that would do nothing, or something else than the filter says.
	notSet = map[string]string{
		"blocking_paranoia_level": "use paranoiaLevel of the filter", "detection_paranoia_level": "use paranoiaLevel of the filter",
		"inbound_anomaly_score_threshold": "use anomalyThreshold of the filter", "blocking_inbound_anomaly_score": "set tx.inbound_anomaly_score_pl1",
		"detection_inbound_anomaly_score": "set tx.inbound_anomaly_score_pl1", "anomaly_score": "set tx.inbound_anomaly_score_pl1",
		"inbound_anomaly_score": "set tx.inbound_anomaly_score_pl1", "reporting_level": "there are no reports",
		"sampling_percentage": "the filter looks at all requests", "enforce_bodyproc_urlencoded": "it would come too late",
	}
)

// checkSetvar checks what a rule remembers. A value is a text, or one %{...}: several could make it longer each time.
func checkSetvar(_ *ruleParser, a action) error {
	found := setvarPattern.FindStringSubmatch(a.value)
	if found == nil {
		return fmt.Errorf("%q is neither tx.NAME=VALUE nor !tx.NAME", a.value)
	}
	name, value := strings.ToLower(found[1]), found[2]
	if remedy := notSet[name]; remedy != "" {
		return fmt.Errorf("tx.%s may not be set: %s", name, remedy)
	}
	if strings.HasPrefix(name, "outbound_") {
		return fmt.Errorf("tx.%s is about responses, which are not looked at", name)
	}
	if strings.Contains(value, "%{") && macroPattern.FindString(value) != strings.TrimLeft(value, "+-") {
		return fmt.Errorf("%q is neither a text nor one %%{...} with + or - before it", value)
	}
	return checkMacros(value, 1)
}

var (
	ctlPattern    = regexp.MustCompile(`^([A-Za-z]+)=([^;]+)(?:;([A-Za-z_]+)(?::(` + partPattern + `))?)?$`)
	rangePattern  = regexp.MustCompile(`^([0-9]+)(?:-([0-9]+))?$`)
	ctlIDs        = []string{"ruleremovebyid", "ruleremovetargetbyid"}
	ctlTags       = []string{"ruleremovebytag", "ruleremovetargetbytag"}
	ctlWithTarget = []string{"ruleremovetargetbyid", "ruleremovetargetbytag"}
)

// checkCtl checks how a rule leaves out others for a request.
func checkCtl(_ *ruleParser, a action) error {
	found := ctlPattern.FindStringSubmatch(a.value)
	if found == nil {
		return fmt.Errorf("%q is not ruleRemoveById=ID or ruleRemoveTargetById=ID;ARGS:NAME", a.value)
	}
	option, of, target, part := strings.ToLower(found[1]), found[2], found[3], found[4]
	byID := slices.Contains(ctlIDs, option)
	switch {
	case !byID && !slices.Contains(ctlTags, option):
		return fmt.Errorf("%s is not allowed: rules may leave out others, by ID or tag", found[1])
	case slices.Contains(ctlWithTarget, option) != (target != ""):
		return fmt.Errorf("%q has a part of requests that it may not have, or lacks it", a.value)
	case target != "":
		if err := checkVariable(target, part); err != nil {
			return err
		}
	}
	if byID {
		return checkIDs(of)
	}
	return nil
}

// checkIDs checks an ID or a range of them: those that look at requests.
func checkIDs(text string) error {
	found := rangePattern.FindStringSubmatch(text)
	if found == nil {
		return fmt.Errorf("%q is neither an ID nor a range of IDs, such as 942100-942199", text)
	}
	for _, within := range [][2]int{{1, maxRuleID}, {firstCRS, lastCRS}} {
		first, err := parseID(found[1], within[0], within[1])
		if err == nil {
			_, err = parseID(cmp.Or(found[2], found[1]), first, within[1])
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is not within 1 to %d or %d to %d, the IDs of your own rules and of the Core Rule Set", text, maxRuleID, firstCRS, lastCRS)
}

func checkTag(_ *ruleParser, a action) error {
	if a.value == "" || strings.Contains(a.value, "%{") {
		return errors.New("it needs a text without %{...}")
	}
	return nil
}
