package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/must"
	"gateway/internal/waf"
)

const ownRules = `
SecAction "id:1,phase:1,nolog,pass,setvar:'tx.allowed_methods=GET HEAD POST OPTIONS PUT'"
SecRule REQUEST_HEADERS:User-Agent "@pm badbot worsebot" "id:2,phase:1,deny"
SecRule ARGS:coupon "!@rx ^[A-Z0-9]{8}$" "id:3,phase:2,block,capture,t:none,setvar:'tx.inbound_anomaly_score_pl1=+%{tx.warning_anomaly_score}'"
SecRule ARGS:coupon "@endsWith !!" "id:4,phase:2,block,setvar:tx.inbound_anomaly_score_pl1=+%{tx.warning_anomaly_score}"
SecRule REQUEST_FILENAME "@beginsWith /cms/" "id:5,phase:1,nolog,pass,ctl:ruleRemoveTargetByTag=OWASP_CRS;ARGS:html"
SecRule REQUEST_METHOD "@streq POST" "id:6,phase:2,chain,deny"
    SecRule ARGS_POST:role "@within admin,root" "t:lowercase,chain"
    SecRule REMOTE_ADDR "!@ipMatch 10.0.0.0/8,2001:db8::1"
SecRule REQUEST_FILENAME "@streq /health" "id:7,phase:1,nolog,allow"
SecRule ARGS:trusted "@eq 1" "id:8,phase:2,pass,setvar:tx.inbound_anomaly_score_pl1=-20"
SecRule ARGS:skip "@unconditionalMatch" "id:9,phase:2,nolog,pass,skipAfter:END-SKIP"
SecRule ARGS:skip "@unconditionalMatch" "id:10,phase:2,deny"
SecMarker END-SKIP
SecRule &ARGS:many "@gt 2" "id:11,phase:2,deny"
SecRule ARGS:user[name]|ARGS:@id|REQUEST_COOKIES:a/b|ARGS:$x "@streq bad" "id:12,phase:2,deny"
SecRule ARGS|!ARGS:json.a/b|!ARGS:user.name "@streq worse" "id:13,phase:2,deny"
SecRule REQUEST_FILENAME "@beginsWith /editor/" "id:14,phase:1,nolog,pass,ctl:ruleRemoveTargetByTag=OWASP_CRS;ARGS:content[0].x/y"
SecAction "id:15,phase:1,nolog,pass,setvar:'tx.allowed_request_content_type=|application/x-www-form-urlencoded| |text/csv|'"
`

func mustParse(t testing.TB, content string) []waf.Directive {
	t.Helper()
	directives := must.Get(waf.ParseRules(content))(t)
	return directives
}

// TestOwnRules: rules of a user refuse requests by themselves, add to the score, leave out others, or let pass.
func TestOwnRules(t *testing.T) {
	e := must.Get(engine.New(mustParse(t, ownRules)...))(t)
	plain := must.Get(engine.New())(t)
	e.Close() // what Coraza has kept is not needed
	const script = "<script>alert(1)</script>"
	for name, test := range map[string]struct {
		request engine.Request
		agent   string
		denied  bool
		score   int
		rules   []int
		plain   bool
	}{
		"harmless":                        {engine.Request{URI: "/?coupon=ABCD1234"}, "", false, 0, nil, false},
		"a method that is added":          {engine.Request{Method: "PUT", URI: "/"}, "", false, 0, nil, true},
		"one that is not":                 {engine.Request{Method: "DELETE", URI: "/"}, "", true, 5, []int{911100}, true},
		"a client that is refused":        {engine.Request{URI: "/"}, "WorseBot/1", true, 0, []int{2}, false},
		"a score below the threshold":     {engine.Request{URI: "/?coupon=abc"}, "", false, 3, []int{3}, false},
		"two scores":                      {engine.Request{URI: "/?coupon=abc!!"}, "", true, 6, []int{3, 4}, false},
		"a score beside another one":      {engine.Request{Method: "DELETE", URI: "/?coupon=abc"}, "", true, 8, []int{911100, 3}, true},
		"an argument that is left out":    {engine.Request{URI: "/cms/?html=" + script}, "", false, 0, nil, true},
		"it elsewhere":                    {engine.Request{URI: "/?html=" + script}, "", true, 20, []int{941100, 941110, 941160, 941390}, true},
		"a chain":                         {engine.Request{Method: "POST", URI: "/", Body: []byte("role=Admin")}, "", true, 0, []int{6}, false},
		"a chain whose last rule fails":   {engine.Request{Method: "POST", URI: "/", Client: "10.1.2.3", Body: []byte("role=Admin")}, "", false, 0, nil, false},
		"a path that is let through":      {engine.Request{URI: "/health?html=" + script}, "", false, 0, nil, true},
		"a score that is taken away":      {engine.Request{URI: "/?trusted=1&html=" + script}, "", false, 0, []int{8, 941100, 941110, 941160, 941390}, true},
		"rules that are skipped":          {engine.Request{URI: "/?skip=1"}, "", false, 0, nil, false},
		"rules after those":               {engine.Request{URI: "/?skip=1&many=1&many=2&many=3"}, "", true, 0, []int{11}, false},
		"a name with brackets":            {engine.Request{URI: "/?User[Name]=bad"}, "", true, 0, []int{12}, false},
		"one that is like it":             {engine.Request{URI: "/?usern=bad&user[name]2=bad&x=bad"}, "", false, 0, nil, false},
		"a name with @":                   {engine.Request{URI: "/?@id=bad"}, "", true, 0, []int{12}, false},
		"a name with $":                   {engine.Request{URI: "/?$x=bad"}, "", true, 0, []int{12}, false},
		"a name that is not looked at":    {engine.Request{URI: "/?json.a/b=worse&user.name=worse"}, "", false, 0, nil, false},
		"one that is looked at":           {engine.Request{URI: "/?json-a/b=worse"}, "", true, 0, []int{13}, false},
		"a name that is left out":         {engine.Request{URI: "/editor/?content[0].x/y=" + script}, "", false, 0, nil, true},
		"it elsewhere, by the same name":  {engine.Request{URI: "/?content[0].x/y=" + script}, "", true, 20, []int{941100, 941110, 941160, 941390}, true},
		"a type that is allowed":          {engine.Request{Method: "POST", URI: "/", Headers: []engine.Header{{Name: "content-type", Value: "text/csv"}}, Body: []byte("a,b\n1,2\n")}, "", false, 0, nil, true},
		"a type that is not":              {engine.Request{Method: "POST", URI: "/", Headers: []engine.Header{{Name: "content-type", Value: "text/plain"}}, Body: []byte("a,b\n1,2\n")}, "", true, 5, []int{920420}, true},
		"a rule of the Core Rule Set too": {engine.Request{URI: "/?a=" + script}, "", true, 20, []int{941100, 941110, 941160, 941390}, true},
	} {
		r := test.request
		r.Version = "HTTP/1.1"
		r.Headers = append(r.Headers, engine.Header{Name: "host", Value: "shop.example.com"}, engine.Header{Name: "user-agent", Value: "Mozilla/5.0 " + test.agent},
			engine.Header{Name: "accept", Value: "*/*"}, engine.Header{Name: "content-length", Value: fmt.Sprint(len(r.Body))})
		if r.Body != nil && test.request.Headers == nil {
			r.Headers = append(r.Headers, engine.Header{Name: "content-type", Value: "application/x-www-form-urlencoded"})
		}
		if r.Method == "" {
			r.Method = "GET"
		}
		if r.Client == "" {
			r.Client = "192.0.2.1"
		}
		settings := waf.Settings{Paranoia: 1, Threshold: 5}
		got, err := e.Judge(settings, &r)
		if err != nil || got.Denied != test.denied || got.Score != test.score || !slices.Equal(got.Rules, test.rules) {
			t.Errorf("%s: got %v and %+v, want %v, score %d, rules %v", name, err, got, test.denied, test.score, test.rules)
		}
		if got, err := plain.Judge(settings, &r); err != nil || got.Denied != test.plain {
			t.Errorf("%s, without the rules: got %v and %+v, want %v", name, err, got, test.plain)
		}
	}
}

// TestDocumentedRules: the rules of the page can be used.
func TestDocumentedRules(t *testing.T) {
	page := must.Get(os.ReadFile("../../../../docs/features/waf.md"))(t)
	_, rest, found := strings.Cut(string(page), "  rules.conf: |\n")
	content, _, ends := strings.Cut(rest, "```")
	directives := mustParse(t, content)
	if _, err := engine.New(directives...); err != nil || !found || !ends || len(directives) < 4 {
		t.Errorf("got %v and %v", directives, err)
	}
}

// TestRefusedByCoraza: the problem names the line of a rule that only Coraza refuses.
func TestRefusedByCoraza(t *testing.T) {
	own := []waf.Directive{{Line: 3, Text: `SecAction "id:'1',pass"`}, {Line: 5, Text: `SecRule OTHER "@rx a" "id:'2',deny"`}, {Line: 9, Text: `SecAction "id:'3',pass"`}}
	if _, err := engine.New(own...); err == nil || !strings.HasPrefix(err.Error(), "line 5: ") {
		t.Errorf("got %v, want that of line 5", err)
	}
}

// TestAgreesWithCoraza: Coraza takes whatever the check lets through, from pieces of rules that are put together at
// random. The status names what the check refuses; nobody but the log would name what only Coraza does.
func TestAgreesWithCoraza(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(pieces ...string) string { return pieces[random.IntN(len(pieces))] }
	several := func(separator string, piece func() string) string {
		var all []string
		for range 1 + random.IntN(3) {
			all = append(all, piece())
		}
		return strings.Join(all, separator)
	}
	value := func() string {
		return pick("", "1", "2", "a", "tx.a", "tx.a=1", "tx.a=+%{tx.b}", "tx.a=", "!tx.a", "none", "lowercase", "sqlHexDecode", "urlDecodeUni", "403", "request", "phase", "END", "'a, b'", "%{tx.0}",
			"ruleRemoveById=941100", "ruleRemoveById=1-9", "ruleRemoveTargetById=942100;ARGS:a", "ruleRemoveTargetByTag=a b;REQUEST_HEADERS:a", "ruleRemoveByTag=a", "ruleRemoveTargetById=1-9;XML:/*", "ruleRemoveTargetById=942100;ARGS:a[b]/", "'ruleRemoveTargetById=942100;ARGS:a,(b;c'", "CRITICAL", "9", "/a/", "é", "\\'")
	}
	name := func() string {
		return pick("id", "phase", "t", "t", "setvar", "ctl", "ctl", "deny", "pass", "block", "allow", "chain", "skipAfter", "msg", "logdata", "tag", "severity", "status", "capture", "multiMatch", "log", "nolog", "rev", "ver", "maturity", "exec")
	}
	variable := func() string {
		return pick("", "", "!", "&") + pick("ARGS", "args", "ARGS_NAMES", "REQUEST_HEADERS", "REQUEST_URI", "TX", "XML", "FILES", "MATCHED_VARS", "ENV", "REQUEST_BODY", "MULTIPART_PART_HEADERS", "ARGS_COMBINED_SIZE") + pick("", "", ":a", ":A-b.c", ":1", ":$a", ":/*", ":/a/", ":-", ":.", ":a[b]", ":a/b", ":@a", ":(a", ":a*+?{2}", ":a/", ":^$")
	}
	operator := func() string {
		return pick("", "!", "@", "!@") + pick("rx", "pm", "streq", "contains", "within", "eq", "gt", "ipMatch", "validateByteRange", "detectSQLi", "unconditionalMatch", "strmatch", "endsWith", "a b") + pick("", " ", "  ") +
			pick("", "a", "a b", "%{tx.a}", "%{request_headers.host}", "%{a}", "%{", "1", "-1", "+1", "0x1", "10.0.0.1", "::1", "10.0.0.0/8,::/0", "1-255", "07", `\"`, `\\`, `[\x80-\xff]`, `\xff`, `(?i)a`, "(a", "a{2}", `\pL`, "é", "`", "'", "a|b", "#", "$", "^")
	}
	accepted := 0
	for i := range 4000 {
		rule := fmt.Sprintf(`SecRule %s "%s" "id:1%s"`, several("|", variable), operator(), pick("", ","+several(",", func() string { return name() + pick("", ":"+value()) })))
		if strings.Contains(rule, "chain") {
			rule += fmt.Sprintf("\n"+`SecRule %s "%s" "%s"`, variable(), operator(), pick("t:none", "capture", "setvar:tx.a=1"))
		}
		if strings.Contains(rule, "skipAfter:END") {
			rule += "\nSecMarker END"
		}
		directives, err := waf.ParseRules(rule)
		if err != nil {
			continue
		}
		accepted++
		if e, err := engine.New(directives...); err != nil {
			t.Errorf("%d: Coraza refuses what the check lets through: %v\n%s", i, err, rule)
		} else {
			e.Close()
		}
	}
	if accepted < 100 {
		t.Errorf("%d rules are valid: that shows nothing", accepted)
	}
}
