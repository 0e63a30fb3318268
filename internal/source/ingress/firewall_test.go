package ingress

import (
	"fmt"
	"slices"
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestFirewall: what ModSecurity looks at, a WAF looks at. A snippet may have rules, so it closes.
func TestFirewall(t *testing.T) {
	for annotation, want := range map[string]string{"true": "web [WAF]", "false": "web []", "on": "web []"} {
		for _, others := range []map[string]string{nil, {"enable-owasp-core-rules": "true", "modsecurity-transaction-id": "$request_id"}, {"modsecurity-snippet": "SecRuleEngine On"}} {
			all := map[string]string{"enable-modsecurity": annotation}
			for name, value := range others {
				all[name] = value
			}
			want := want
			if others["modsecurity-snippet"] != "" && annotation == "true" {
				want = "503 [DirectResponse]"
			}
			for _, rule := range flatten(annotated(t, all)) {
				var kinds []appv1.RuleFilterType
				for _, filter := range rule.extension.Filters {
					kinds = append(kinds, filter.Type)
				}
				answer := rule.answer()
				if answer != "503" {
					answer = "web"
				}
				if got := fmt.Sprint(answer, " ", kinds); got != want || slices.Contains(kinds, appv1.RuleFilterWAF) && rule.extension.Filters[0].WAF.MaxBodyBytes != 128<<10 {
					t.Errorf("%v: got %s, want %s", all, got, want)
				}
			}
		}
	}
}
