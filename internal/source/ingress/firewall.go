package ingress

import (
	"strconv"

	appv1 "gateway/api/app/v1"
	"gateway/internal/waf"
)

const (
	withRules = "WAF with the Core Rule Set, which refuses requests, while ModSecurity only logs by default. Bodies of more than 128 KiB get 413"
	ownRules  = "put its rules into a ConfigMap, and name that in rulesRef of a WAF in a RouteFilter; excludedRules leave out rules"
)

// setFirewall looks at requests as ModSecurity does. It takes the longest bodies, as nginx takes any.
func setFirewall(s *settings, value string) string {
	if isOn, err := strconv.ParseBool(value); err != nil || !isOn {
		return ""
	}
	s.rule.extension.Filters = append(s.rule.extension.Filters, appv1.RuleFilter{
		Type: appv1.RuleFilterWAF, WAF: &appv1.WAF{ParanoiaLevel: 1, AnomalyThreshold: 5, MaxBodyBytes: waf.MaxBody},
	})
	return withRules
}

// setFirewallRules closes what has rules of its own.
func setFirewallRules(s *settings, _ string) string {
	if !s.bool("enable-modsecurity", false) {
		return "it has no effect without enable-modsecurity"
	}
	return s.close(s.annotation, ownRules)
}
