package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
)

// unpacked are lines of nginx.conf for an nginx that nobody has installed.
const unpacked = `
    client_body_temp_path {{.Dir}}/temporary;
    proxy_temp_path {{.Dir}}/temporary;
    fastcgi_temp_path {{.Dir}}/temporary;
    uwsgi_temp_path {{.Dir}}/temporary;
    scgi_temp_path {{.Dir}}/temporary;`

// rulesFile has what ModSecurity does beside the Core Rule Set: the same as gateway-waf.
const rulesFile = `SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess Off
SecAuditEngine Off
SecRequestBodyLimit 32769
SecRequestBodyNoFilesLimit 32769
SecRequestBodyLimitAction Reject
SecRule REQUEST_HEADERS:Content-Type "@rx ^application/json" \
    "id:1,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=JSON"
SecRule REQBODY_ERROR "!@eq 0" "id:2,phase:2,t:none,log,deny,status:403"
Include crs-setup.conf
Include REQUEST-*.conf
`

// wafSubjects returns the filter WAF beside ModSecurity, with the same rules, for requests of several kinds.
func wafSubjects() ([]*subject, error) {
	files, err := coreRuleSet()
	if err != nil {
		return nil, err
	}
	files["modsecurity.conf"] = rulesFile
	const on = "\n    modsecurity on;\n    modsecurity_rules_file {{.Dir}}/modsecurity.conf;"
	routes := plainRoutes(10, 1, services)
	without := gateway("without", appv1.GatewaySpec{Routes: slices.Clone(routes)}, "")
	bare := written{file: "nginx.conf", policy: unpacked}.proxy()
	for i := range routes {
		routes[i].Rules = slices.Clone(routes[i].Rules)
		routes[i].Rules[0].Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterWAF, WAF: &appv1.WAF{}}}
	}
	with := gateway("with", appv1.GatewaySpec{Routes: routes}, "")
	peer := written{file: "nginx.conf", policy: unpacked + on, files: files}.proxy()
	var all []*subject
	for _, kind := range wafRequests() {
		add := func(name string, proxy proxy, refuses bool) {
			all = append(all, &subject{name: kind.name + ": " + name, baseline: kind.name + ": ModSecurity", proxy: proxy, protocol: plain, requests: []request{kind.request}, refuses: refuses})
		}
		if len(all) == 0 {
			add("nginx without it", bare, false)
			add("Gateway without it", without, false)
		}
		add("ModSecurity", peer, true)
		add("Gateway", with, true)
	}
	return all, nil
}

type wafRequest struct {
	name    string
	request request
}

// wafRequests returns what is measured. Both let all of it pass.
func wafRequests() []wafRequest {
	short := []string{"User-Agent: Mozilla/5.0 (X11; Linux x86_64)", "Accept: */*"}
	with := func(more ...string) []string { return append(slices.Clone(short), more...) }
	long := with("Cookie: session=0123456789abcdef; theme=dark", "Referer: https://shop.example.com/", "Accept-Language: en", "Accept-Encoding: gzip")
	form, document := wafBodies()
	all := []wafRequest{
		{"short GET", request{path: "/app/main.js", headers: short}},
		{"long GET", request{path: "/app/search?q=red+shoes&page=2", headers: long}},
		{"form of 2 KiB", request{path: "/app", body: form, headers: with("Content-Type: application/x-www-form-urlencoded", fmt.Sprint("Content-Length: ", len(form)))}},
		{"JSON of 2 KiB", request{path: "/app", body: document, headers: with("Content-Type: application/json", fmt.Sprint("Content-Length: ", len(document)))}},
		{"cookie of 1 KiB", request{path: "/app", headers: with("Cookie: session=" + strings.Repeat("0123456789abcdefGHIJKLMNOPQRSTUV", 32))}},
	}
	for i := range all {
		all[i].request.host, all[i].request.complete = hostname(0), true
	}
	return all
}

// wafBodies returns a form with a text that has punctuation, and a document with short texts and numbers.
func wafBodies() (form, document string) {
	sentence := "The+shoes+arrived+on+Tuesday%2C+but+the+left+one+is+a+size+too+small.+Could+you+send+another+pair%3F+"
	form = "name=Alice+Smith&order=4711&text=" + strings.Repeat(sentence, 20)[:2015]
	var items strings.Builder
	for i := 0; items.Len() < 1980; i++ {
		fmt.Fprintf(&items, `{"id":%d,"name":"Running shoes, red","price":79.90},`, i)
	}
	return form, `{"customer":"Alice Smith","items":[` + strings.TrimSuffix(items.String(), ",") + "]}"
}

// coreRuleSet returns the files of the rules that gateway-waf has. ModSecurity wants an empty line before a directive,
// where the module has none.
func coreRuleSet() (map[string]string, error) {
	const module = "github.com/corazawaf/coraza-coreruleset/v4"
	out, err := exec.Command("go", "-C", "../cmd/gateway-waf", "list", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return nil, fmt.Errorf("failed to find %s: %w", module, err)
	}
	rules := filepath.Join(strings.TrimSpace(string(out)), "rules")
	paths, err := filepath.Glob(filepath.Join(rules, "@owasp_crs", "*"))
	if err != nil {
		return nil, fmt.Errorf("failed to list rules: %w", err)
	}
	directive, files := regexp.MustCompile(`(?m)^Sec`), map[string]string{}
	for _, path := range append(paths, filepath.Join(rules, "@crs-setup.conf.example")) {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("failed to read rules: %w", err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "@"), ".example")
		files[name] = string(content)
		if filepath.Ext(name) == ".conf" {
			files[name] = directive.ReplaceAllString(files[name], "\nSec")
		}
	}
	return files, nil
}

// wafProgram returns gateway-waf.
func wafProgram(dir string, paths ir.Paths) (*exec.Cmd, error) {
	program := filepath.Join(dir, "gateway-waf")
	if out, err := exec.Command("go", "-C", "../cmd/gateway-waf", "build", "-tags=no_fs_access", "-o", program, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("failed to build gateway-waf: %w: %s", err, out)
	}
	return pinned(program, "-socket="+paths.WAFSocket), nil
}

// checkAttack waits until a proxy refuses an attack: gateway-waf reads its rules meanwhile.
func (s *subject) checkAttack() error {
	attack := s.requests[0]
	attack.path += "?q=%3Cscript%3Ealert(1)%3C/script%3E"
	l := newLoad(plain, s.load.port, options{connections: 1}, []request{attack})
	var got error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		clients, err := l.connect()
		if err != nil {
			return err
		}
		got = clients[0].send(0)
		_ = clients[0].close()
		if got != nil && strings.Contains(got.Error(), " 403 ") {
			return nil
		}
	}
	return errors.Join(errors.New("it does not refuse an attack with 403"), got)
}
