package waf_test

import (
	"fmt"
	"strings"
	"testing"

	"gateway/internal/waf"
)

// TestParseRules: what Coraza gets is what was understood, each directive on a line.
func TestParseRules(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"nothing":  {"", ""},
		"comments": {"# SecRule\n\n  # another\n", ""},
		"a rule": {
			`SecRule REQUEST_HEADERS:User-Agent "@contains badbot" "id:1000,phase:1,deny,status:403,msg:'A bot, or so'"`,
			`1 SecRule REQUEST_HEADERS:User-Agent "@contains badbot" "id:'1000',phase:'1',deny"`,
		},
		"a rule on several lines": {
			"\n" + `  secrule ARGS|!ARGS:note|&REQUEST_COOKIES:a \` + "\n" + `    # a comment` + "\n\n" + `    "!^[a-z]+$" \` + "\r\n" + `    "id:1, phase: 2, t:none, t:'lowercase' , block"` + "\n",
			`2 SecRule ARGS|!ARGS:note|&REQUEST_COOKIES:a "!@rx ^[a-z]+$" "id:'1',phase:'2',t:'apart0',t:'none',t:'apart0',t:'lowercase',block"`,
		},
		"a score": {
			`SecRule ARGS "a\"b" "id:7,setvar:'tx.inbound_anomaly_score_pl1=+%{tx.critical_anomaly_score}',setvar:tx.a=b"`,
			`1 SecRule ARGS "@rx a\"b" "id:'7',setvar:'tx.inbound_anomaly_score_pl1=+%{tx.critical_anomaly_score}',setvar:'tx.a=b'"`,
		},
		"a chain": {
			`SecRule REQUEST_METHOD "@streq POST" "id:2,chain,deny"` + "\n" + `SecRule ARGS:a "@eq 1" "t:length,chain"` + "\n" + `SecRule ARGS:b "@pm x  y"`,
			`1 SecRule REQUEST_METHOD "@streq POST" "id:'2',chain,deny"` + "\n" + `2 SecRule ARGS:a "@eq 1" "t:'length',chain"` + "\n" + `3 SecRule ARGS:b "@pm x y x"`,
		},
		"an action, a marker and exclusions": {
			`SecAction "id:3,phase:1,nolog,pass,ctl:ruleRemoveById=942100-942199,ctl:ruleRemoveTargetById=941100;ARGS:html,skipAfter:END"` + "\n" + `SecMarker "END"`,
			`1 SecAction "id:'3',phase:'1',nolog,pass,ctl:'ruleRemoveById=942100-942199',ctl:'ruleRemoveTargetById=941100;ARGS:html',skipafter:'END'"` + "\n" + `2 SecMarker END`,
		},
		"names of parts": {
			`SecRule ARGS:user[name]|!ARGS:json.a/b|&REQUEST_COOKIES:@id|ARGS:a:b,c;d "a" "id:5,ctl:'ruleRemoveTargetById=942100;ARGS:core/post-date[x].$y',deny"`,
			`1 SecRule ARGS:/(?i)^user\[name\]$/|!ARGS:/(?i)^json\.a\/b$/|&REQUEST_COOKIES:/(?i)^@id$/|ARGS:/(?i)^a:b,c;d$/ "@rx a" "id:'5',ctl:'ruleRemoveTargetById=942100;ARGS:core/post-date[x].$y',deny"`,
		},
		"what only looks like an operator": {`SecRule ARGS " @inspectFile /a" "id:4,deny"`, `1 SecRule ARGS "@rx @inspectFile /a" "id:'4',deny"`},
	} {
		directives, err := waf.ParseRules(test.content)
		var got []string
		for _, directive := range directives {
			got = append(got, fmt.Sprint(directive.Line, " ", directive.Text))
		}
		if got := strings.Join(got, "\n"); err != nil || got != test.want {
			t.Errorf("%s: got %v and\n%s\nwant\n%s", name, err, got, test.want)
		}
	}
}

// TestParseRulesRefuses: a rule is refused with its line if it reaches out of a request, takes unbounded time or
// memory, is about something else than a request, or would not do what its text means.
func TestParseRulesRefuses(t *testing.T) {
	for content, want := range refused {
		if directives, err := waf.ParseRules(content); err == nil || !strings.Contains(err.Error(), want) || len(directives) > 0 {
			t.Errorf("%.100q: got %v and %v, want %q", content, err, directives, want)
		}
	}
}

func rule(actions string) string      { return `SecRule ARGS "a" "id:1,` + actions + `"` }
func operator(operator string) string { return `SecRule ARGS "` + operator + `" "id:1,deny"` }
func of(variables string) string      { return `SecRule ` + variables + ` "a" "id:1,deny"` }

// refused are errors, by files.
var refused = map[string]string{
	"SecRuleEngine Off":          `line 1: SecRuleEngine is not allowed: use shadow`,
	"\nInclude /etc/passwd":      `line 2: "Include" is not allowed: use SecRule`,
	"SecRemoteRules a https://b": "not allowed", "SecAuditLog /dev/stdout": "not allowed", "SecRequestBodyAccess Off": "not allowed",
	"SecDebugLog /tmp/a":             "not allowed",
	"SecRuleRemoveById 1":            "use excludedRules of the filter",
	"SecRule":                        "in double quotes",
	"SecRule ARGS bad id:1":          "in double quotes",
	`SecRule ARGS "a" "id:1,deny`:    "in double quotes",
	`SecRule ARGS "a`:                "in double quotes",
	`SecRule "ARGS" "a" "id:1"`:      "in double quotes",
	`SecRule ARGS "a" "id:1" "b"`:    "in double quotes",
	"SecAction id:1":                 "in double quotes",
	"SecMarker a b":                  "letters, digits",
	"SecDataset test `\na\n`":        "not allowed",
	"SecRule ARGS \"a\" \"id:1\" \\": "line 1: nothing follows the backslash",
	"\x00":                           "control characters", "\xff": "not UTF-8",
	strings.Repeat("#", 65<<10):                               "it has 66560 bytes, and may have 65536",
	`SecRule ARGS "` + strings.Repeat("a", 9000) + `" "id:1"`: "line 1: the directive has more than 8192 bytes",

	of("ENV:HOME"): "ENV is not allowed", of("RESPONSE_BODY"): "not allowed", of("FILES_TMPNAMES"): "not allowed", of("IP:a"): "not allowed", of("GEO:a"): "not allowed",
	of("ARGS|RULE:id"): "RULE is not allowed", of("REQUEST_URI:a"): "has no parts", of("ARGS:/a/"): "is not NAME", of("ARGS:'/a/'"): "is not NAME", of("ARGS||ARGS"): "is not NAME",
	of("!ARGS:a"): "takes something from nothing",

	operator("@inspectFile /a"): "the operator @inspectFile is not allowed", operator("!@pmFromFile a"): "@pmFromFile is not allowed", operator("@pmf a"): "not allowed",
	operator("@rbl a.example.com"): "not allowed", operator("@geoLookup"): "not allowed", operator("@ipMatchFromFile a"): "not allowed", operator("@validateSchema a"): "not allowed",
	operator("@restpath /a"): "not allowed", operator("@streq"): "needs a text", operator("@pm"): "needs words", operator("@pm a|41|"): "may not have |",
	operator("@ipMatch 10.0.0"): `"10.0.0" is neither an address`, operator("@ipMatch 10.0.0.0/8,"): "neither an address", operator("@eq a"): "neither a number", operator("@eq"): "neither a number",
	operator("@detectSQLi a"): "no argument", operator("@validateByteRange"): "not a number from 0", operator("@validateByteRange 5-1"): "not a number from 0", operator("@validateByteRange 256"): "not a number from 0", operator("@validateByteRange 1-256"): "not a number from 0",
	operator("@rx ("): "missing closing )", operator("(?:[a-z]{1000}){1000}"): "invalid repeat", operator(`(\pL{30}\pN{30}){20}`): "more than 50000 steps together",
	operator("@streq %{env.home}"): "env is not allowed", operator("@streq %{args}"): "lacks which", operator("@streq %{a"): "that is not NAME",
	operator("@streq %{tx.a}%{tx.a}%{tx.a}%{tx.a}%{tx.a}"): "more than 4", operator("@pm " + strings.Repeat("ab ", 2000)): "more than 4096 bytes",
	operator("@rx\ta"): `is not @NAME`, operator("@@rx a"): "is not @NAME",

	`SecRule ARGS "a" "deny"`: "needs an id from 1 to 99999", `SecRule ARGS "a"`: "needs an id", `SecAction ""`: "needs an id",
	`SecRule ARGS "a" "id:100000,deny"`: "not an ID from 1 to 99999, which rules of your own have", `SecRule ARGS "a" "id:0"`: "not an ID", `SecRule ARGS "a" "id:+1"`: "not an ID",
	rule("id:2"): "at most 1 of its kind", rule("phase:3"): "responses are not looked at", rule("phase:logging"): "responses are not looked at", rule("deny,pass"): "at most 1 of its kind",
	rule("exec:/bin/sh"): "the action exec is not allowed", rule("drop"): "not allowed", rule("redirect:http://a"): "not allowed", rule("proxy:http://a"): "not allowed",
	rule("initcol:ip=a"): "not allowed", rule("setenv:a=b"): "not allowed", rule("expirevar:a=b"): "not allowed", rule("pause:1000"): "not allowed", rule("skip:1"): "not allowed",
	rule("status:500"): "get 403", rule("deny:a"): "no value", rule("t:hexEncode"): "makes texts longer", rule("t:other"): "no transformation", rule("allow:all"): "its value is phase",
	rule("setvar:ip.a=1"): "neither tx.NAME", rule("setvar:tx.%{tx.a}=1"): "neither tx.NAME", rule("setvar:tx.a=%{tx.a}%{tx.a}"): "neither a text nor one", rule("setvar:tx.a=%{tx.a}b"): "neither a text nor one",
	rule("setvar:tx.inbound_anomaly_score_threshold=100"): "use anomalyThreshold", rule("setvar:TX.Blocking_Paranoia_Level=1"): "use paranoiaLevel",
	rule("setvar:tx.outbound_anomaly_score_pl1=1"): "about responses", rule("setvar:tx.a=%{env.home}"): "env is not allowed",
	rule("ctl:ruleEngine=Off"): "ruleEngine is not allowed", rule("ctl:requestBodyAccess=Off"): "not allowed", rule("ctl:requestBodyProcessor=XML"): "not allowed", rule("ctl:forceRequestBodyVariable=On"): "not allowed",
	rule("ctl:ruleRemoveById=949110"): "not within", rule("ctl:ruleRemoveById=1-949110"): "not within", rule("ctl:ruleRemoveById=a"): "neither an ID", rule("ctl:ruleRemoveById=9-1"): "not within",
	rule("ctl:ruleRemoveById=1;ARGS:a"): "may not have", rule("ctl:ruleRemoveTargetById=1"): "lacks it", rule("ctl:ruleRemoveTargetById=1;OTHER:a"): "OTHER is not allowed",
	rule("ctl:ruleRemoveTargetById=1;ARGS:/a/"): "is not ruleRemoveById", rule("ctl:ruleRemoveTargetById=1;ARGS:%{tx.a}"): "write a name",
	of("ARGS:%{tx.a}"): "write a name", of("ARGS:a'b"): "does not begin with /", of(`ARGS:a\b`): "is not NAME", of("ARGS:" + strings.Repeat("a", 129)): "up to 128",
	rule("tag:%{tx.a}"): "needs a text without", rule("tag"): "needs a text", rule("setvar:tx.a="): "neither tx.NAME", rule(`msg:'a\'b'`): "cannot be read", rule("msg:'a"): "cannot be read", rule("a b"): "cannot be read", rule("deny,"): "cannot be read", rule(",deny"): "cannot be read",
	rule("skipAfter:END"):                                 "line 1: skipAfter:END leads nowhere",
	"SecMarker END\n" + rule("skipAfter:END"):             "line 2: skipAfter:END leads nowhere",
	rule("chain"):                                         "line 1: the last rule of a chain",
	rule("chain") + "\nSecMarker A":                       "line 2: the rule before has the action chain",
	rule("chain") + "\n" + rule("deny"):                   "line 2: the action id must be in the first rule",
	rule("chain") + "\n" + `SecRule ARGS "a" "deny"`:      "line 2: the action deny must be in the first rule",
	rule("deny") + "\n" + `SecRule ARGS "b" "id:01,deny"`: "line 2: the action id: another rule has 1, too",
	rule(strings.Repeat("t:none,", 12) + "t:none"):        "at most 12 of its kind",
	rule("deny") + many():                                 "more than 256 rules",
}

// many are more rules than a file may have.
func many() string {
	var text strings.Builder
	for i := range 256 {
		fmt.Fprintf(&text, "\nSecRule ARGS:a \"a\" \"id:%d,deny\"", 10+i)
	}
	return text.String()
}
