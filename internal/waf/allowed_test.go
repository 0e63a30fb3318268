package waf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/internal/waf"
)

// parsed returns what Coraza gets of a file, and the error.
func parsed(content string) (string, error) {
	directives, err := waf.ParseRules(content)
	var lines []string
	for _, directive := range directives {
		lines = append(lines, directive.Text)
	}
	return strings.Join(lines, "\n"), err
}

// expectRefused fails unless a file is refused with a reason.
func expectRefused(t *testing.T, content, reason string) {
	t.Helper()
	if got, err := parsed(content); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: got %v and %s, want %q", content, err, got, reason)
	}
}

// expectParsed fails unless Coraza gets this of a file.
func expectParsed(t *testing.T, content, want string) {
	t.Helper()
	if got, err := parsed(content); err != nil || got != want {
		t.Errorf("%s: got %v and %s, want %s", content, err, got, want)
	}
}

// TestVariables: rules look at these parts of requests, and at one of them by its name where there are several.
func TestVariables(t *testing.T) {
	t.Parallel()
	for names, hasParts := range map[string]bool{
		"ARGS ARGS_GET ARGS_POST REQUEST_COOKIES REQUEST_HEADERS FILES TX": true,
		"ARGS_NAMES ARGS_GET_NAMES ARGS_POST_NAMES ARGS_COMBINED_SIZE REQUEST_COOKIES_NAMES REQUEST_HEADERS_NAMES QUERY_STRING REMOTE_ADDR SERVER_NAME " +
			"REQUEST_BASENAME REQUEST_FILENAME REQUEST_LINE REQUEST_METHOD REQUEST_PROTOCOL REQUEST_URI REQUEST_URI_RAW REQUEST_BODY REQUEST_BODY_LENGTH REQBODY_PROCESSOR " +
			"FILES_NAMES FILES_COMBINED_SIZE MULTIPART_PART_HEADERS MATCHED_VAR MATCHED_VAR_NAME MATCHED_VARS MATCHED_VARS_NAMES": false,
	} {
		for name := range strings.FieldsSeq(names) {
			expectParsed(t, of(name), `SecRule `+name+` "@rx a" "id:'1',deny"`)
			if part := of(name + ":a"); hasParts {
				expectParsed(t, part, `SecRule `+name+`:a "@rx a" "id:'1',deny"`)
				expectRefused(t, operator("@streq %{"+name+"}"), "lacks which")
			} else {
				expectRefused(t, part, "has no parts such as a")
				expectParsed(t, operator("@streq %{"+name+"}"), `SecRule ARGS "@streq %{`+name+`}" "id:'1',deny"`)
			}
		}
	}
	for _, part := range []string{"XML:/*", "XML://@*"} {
		expectParsed(t, of(part), `SecRule `+part+` "@rx a" "id:'1',deny"`)
	}
}

// TestTransformations: those that make a text longer are refused, however they are written.
func TestTransformations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"base64Encode", "hexEncode", "urlEncode", "utf8toUnicode", "URLENCODE"} {
		expectRefused(t, rule("t:"+name), name+" makes texts longer")
	}
	for name := range strings.FieldsSeq("base64Decode base64DecodeExt cmdLine compressWhitespace cssDecode escapeSeqDecode hexDecode htmlEntityDecode jsDecode length lowercase md5 none " +
		"normalisePath normalisePathWin normalizePath normalizePathWin removeComments removeCommentsChar removeNulls removeWhitespace replaceComments replaceNulls sha1 uppercase " +
		"urlDecode urlDecodeUni trim trimLeft trimRight") {
		expectParsed(t, rule("t:"+name), `SecRule ARGS "@rx a" "id:'1',t:'`+name+`'"`)
	}
}

// TestVariablesToSet: rules set no variable that the filter has a field for, that nobody reads, or that the Core Rule
// Set counts itself.
func TestVariablesToSet(t *testing.T) {
	t.Parallel()
	for name, remedy := range map[string]string{
		"blocking_paranoia_level": "use paranoiaLevel of the filter", "detection_paranoia_level": "use paranoiaLevel of the filter",
		"inbound_anomaly_score_threshold": "use anomalyThreshold of the filter", "outbound_anomaly_score_threshold": "about responses",
		"blocking_inbound_anomaly_score": "set tx.inbound_anomaly_score_pl1", "detection_inbound_anomaly_score": "set tx.inbound_anomaly_score_pl1",
		"anomaly_score": "set tx.inbound_anomaly_score_pl1", "inbound_anomaly_score": "set tx.inbound_anomaly_score_pl1",
		"reporting_level": "there are no reports", "sampling_percentage": "looks at all requests", "enforce_bodyproc_urlencoded": "come too late",
	} {
		for _, text := range []string{"tx." + name + "=1", "TX." + strings.ToUpper(name) + "=+1", "!tx." + name} {
			expectRefused(t, rule("setvar:"+text), remedy)
		}
	}
	for _, name := range []string{"inbound_anomaly_score_pl1", "allowed_methods", "a"} {
		expectParsed(t, rule("setvar:tx."+name+"=1"), `SecRule ARGS "@rx a" "id:'1',setvar:'tx.`+name+`=1'"`)
	}
}

// TestActions: where actions may be, how often, whether with a value, and what Coraza gets of them.
func TestActions(t *testing.T) {
	t.Parallel()
	const end = "\nSecMarker a"
	for name, test := range map[string]struct {
		value                       string
		most                        int
		startOnly, isSilent, noText bool
	}{
		"phase": {"2", 1, true, false, false}, "deny": {"", 1, true, false, true}, "block": {"", 1, true, false, true}, "pass": {"", 1, true, false, true}, "allow": {"phase", 1, true, false, false},
		"status": {"403", 1, true, true, false}, "skipAfter": {"a", 1, true, false, false}, "t": {"none", 12, false, false, false}, "setvar": {"tx.a=1", 16, false, false, false},
		"ctl": {"ruleRemoveById=1", 64, false, false, false}, "capture": {"", 0, false, false, true}, "multiMatch": {"", 0, false, false, true}, "log": {"", 0, false, false, true}, "nolog": {"", 0, false, false, true},
		"tag": {"a", 0, false, false, false}, "severity": {"2", 0, false, true, false}, "msg": {"a", 0, false, true, false}, "logdata": {"a", 0, false, true, false}, "rev": {"1", 0, false, true, false},
		"ver": {"1", 0, false, true, false}, "maturity": {"1", 0, false, true, false}, "accuracy": {"1", 0, false, true, false}, "auditlog": {"", 0, false, true, true}, "noauditlog": {"", 0, false, true, true},
	} {
		text, given := name, strings.ToLower(name)
		if test.value != "" {
			text, given = name+":"+test.value, given+":'"+test.value+"'"
		}
		want := `SecRule ARGS "@rx a" "id:'1',` + given + `"`
		if test.isSilent {
			want = `SecRule ARGS "@rx a" "id:'1'"`
		}
		expectParsed(t, rule(text)+end, want+end)
		if test.noText {
			expectRefused(t, rule(name+":a"), "no value")
		}
		later := rule("chain") + "\n" + `SecRule ARGS "b" "` + text + `"` + end
		if test.startOnly {
			expectRefused(t, later, "must be in the first rule")
		} else if _, err := parsed(later); err != nil {
			t.Errorf("%s later in a chain: %v", text, err)
		}
		most := 65
		if test.most > 0 {
			most = test.most
			expectRefused(t, rule(text+strings.Repeat(","+text, most)), fmt.Sprintf("at most %d of its kind", most))
		}
		if _, err := parsed(rule(text+strings.Repeat(","+text, most-1)) + end); err != nil {
			t.Errorf("%s, %d times: %v", text, most, err)
		}
	}
	for _, content := range []string{rule("chain,chain"), `SecRule ARGS "a" "id:1,id:1"`} {
		expectRefused(t, content+"\n"+`SecRule ARGS "b"`, "")
	}
	for _, name := range []string{"deny", "block", "pass", "allow"} {
		for _, other := range []string{"deny", "block", "pass", "allow"} {
			expectRefused(t, rule(name+","+other), "at most 1 of its kind")
		}
	}
	expectRefused(t, rule("skipAfter:'a b'"), "no name of a SecMarker")
	expectRefused(t, rule("chain:a"), "no value")
}

// TestRemedies: what has a field in the filter names it.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for directive, remedy := range map[string]string{
		"SecRuleRemoveById 1": "use excludedRules", "SecRuleRemoveByTag a": "use ctl:ruleRemoveByTag", "SecRuleUpdateTargetById 1 !ARGS": "use excludedRules",
		"SecRuleEngine Off": "use shadow", "SecRequestBodyLimit 1": "use maxBodyBytes", "SecDefaultAction pass": "give each rule its actions",
	} {
		expectRefused(t, directive, "is not allowed: "+remedy)
	}
}

// TestParseRuleSets: a file with a mistake, and those beyond the number that there may be, have a problem and no rules.
func TestParseRuleSets(t *testing.T) {
	t.Parallel()
	contents := map[string]string{"a": "SecRuleEngine Off", "b": rule("deny")}
	for i := range waf.MaxRuleSets {
		contents[fmt.Sprintf("c%02d", i)] = rule("deny")
	}
	sets := waf.ParseRuleSets(contents)
	if got := sets["a"]; !strings.HasPrefix(got.Problem, "rules.conf: line 1: SecRuleEngine") || len(got.Directives) > 0 {
		t.Errorf("a mistake: got %+v", got)
	}
	for name, isUsed := range map[string]bool{"b": true, "c00": true, "c13": true, "c14": false, "c15": false} {
		if got := sets[name]; (len(got.Directives) == 1) != isUsed || (got.Problem == "") != isUsed || !isUsed && !strings.Contains(got.Problem, "more than 16 ConfigMaps") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestQuestions: what is not the settings of a filter is none.
func TestQuestions(t *testing.T) {
	t.Parallel()
	want := waf.Settings{Paranoia: 4, Threshold: 7, Excluded: []waf.Exclusion{{Rule: 942100, Target: waf.Cookie, Name: "a"}, {Rule: 911100}}, Rules: "own"}
	got, err := waf.ParseQuestion(want.Question())
	if err != nil || got.Paranoia != 4 || got.Threshold != 7 || got.Rules != "own" || !slices.Equal(got.Excluded, want.Excluded) {
		t.Errorf("got %+v and %v", got, err)
	}
	for _, question := range []string{
		"/!", "/bm8", "", waf.Settings{Threshold: 5}.Question(), waf.Settings{Paranoia: 5, Threshold: 5}.Question(), waf.Settings{Paranoia: -1, Threshold: 5}.Question(), waf.Settings{Paranoia: 1}.Question(),
	} {
		if got, err := waf.ParseQuestion(question); err == nil || got.Paranoia != 0 {
			t.Errorf("%q: got %+v", question, got)
		}
	}
}

// TestProblems: rules that there are not are named once.
func TestProblems(t *testing.T) {
	t.Parallel()
	settings := waf.Settings{Excluded: []waf.Exclusion{{Rule: 911100}, {Rule: 911101}, {Rule: 942100, Target: waf.Cookie, Name: "a"}, {Rule: 911101, Target: waf.Cookie, Name: "a"}}}
	if got := settings.Problems(); len(got) != 1 || !strings.Contains(got[0], "rule 911101, which the Core Rule Set does not have") {
		t.Errorf("got %q", got)
	}
}
