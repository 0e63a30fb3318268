package sets_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/cmd/gateway-waf/internal/sets"
	"gateway/internal/certtest"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// refusing are rules that refuse requests with an argument.
func refusing(argument string) string {
	return fmt.Sprintf(`SecRule ARGS_NAMES "@streq %s" "id:1,phase:2,deny"`, argument)
}

// TestLook: rules take effect once kubelet has written them, for each ConfigMap separately. Bad rules and deleted
// ConfigMaps leave the last good rules in use. Without earlier rules, requests cannot be judged.
func TestLook(t *testing.T) {
	volume := certtest.NewVolume(t)
	put := func(file, content string) {
		volume.Put(map[string][]byte{file: map[bool][]byte{false: []byte(content)}[content == ""]})
	}
	put("a/rules.conf", refusing("a"))
	put("b/rules.conf", "SecRuleEngine Off")
	put("c/ca.crt", "none")
	s := must.Get(sets.New(volume.Dir, engine.OnDemand()))(t)
	for i, step := range []struct {
		file, content string // without content, the file goes
		// verdicts are about a request with the argument a and one with b, by the rules of none, a, b and c.
		verdicts string
	}{
		{"d/ca.crt", "none", "allow,allow deny,allow none none"},
		{"a/rules.conf", refusing("b"), "allow,allow allow,deny none none"},
		{"a/rules.conf", "SecRule", "allow,allow allow,deny none none"},
		{"b/rules.conf", refusing("a"), "allow,allow allow,deny deny,allow none"},
		{"a/rules.conf", "", "allow,allow allow,deny deny,allow none"},
		{"a/rules.conf", refusing("a"), "allow,allow deny,allow deny,allow none"},
		{"c/rules.conf", "# none yet", "allow,allow deny,allow deny,allow allow,allow"},
	} {
		put(step.file, step.content)
		must.Do(t, s.Look())
		got := ""
		for j, name := range []string{"", "a", "b", "c"} {
			if j > 0 {
				got += " "
			}
			got += verdicts(s, name)
		}
		if got != step.verdicts {
			t.Errorf("step %d: got %s, want %s", i, got, step.verdicts)
		}
	}
}

// verdicts are those by the rules of a ConfigMap.
func verdicts(s *sets.Sets, name string) string {
	all := ""
	for i, argument := range []string{"a", "b"} {
		verdict, err := s.Judge(waf.Settings{Paranoia: 1, Threshold: 5, Rules: name}, &engine.Request{
			Method: "GET", URI: "/?" + argument + "=1", Version: "HTTP/1.1", Client: "192.0.2.1",
			Headers: []engine.Header{{Name: "host", Value: "shop.example.com"}, {Name: "user-agent", Value: "a"}, {Name: "accept", Value: "*/*"}},
		})
		if err != nil {
			return "none"
		}
		all += map[int]string{1: ","}[i] + map[bool]string{true: "deny", false: "allow"}[verdict.Denied]
	}
	return all
}

// TestWhatComesLater: gateway-keys writes rules in place of kubelet, and may start later.
func TestWhatComesLater(t *testing.T) {
	volume := certtest.NewVolume(t)
	volume.Put(map[string][]byte{"a/rules.conf": []byte(refusing("a"))})
	link := filepath.Join(volume.Dir, "..data")
	must.Do(t, os.Rename(link, link+"-later"))
	s, err := sets.New(volume.Dir, engine.OnDemand())
	if err != nil || verdicts(s, "a") != "none" {
		t.Fatalf("at first: %s, %v", verdicts(s, "a"), err)
	}
	if err := errors.Join(os.Rename(link+"-later", link), s.Look()); err != nil || verdicts(s, "a") != "deny,allow" {
		t.Errorf("then: %s, %v", verdicts(s, "a"), err)
	}
}
