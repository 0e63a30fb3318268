package rules

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/waf"
)

func init() {
	register(appv1.RuleFilterWAF, onAll, func(f *appv1.RuleFilter) *appv1.WAF { return f.WAF }, (*rule).addWAF)
}

func (r *rule) addWAF(from *appv1.WAF) {
	settings := waf.Settings{
		Paranoia: cmp.Or(from.ParanoiaLevel, 1), Threshold: cmp.Or(from.AnomalyThreshold, 5), Rules: ptr.Deref(from.RulesRef, appv1.ObjectReference{}).Name,
	}
	for _, excluded := range from.ExcludedRules {
		target := ptr.Deref(excluded.Target, appv1.WAFTarget{})
		kind := waf.Target(target.Type)
		if excluded.Target != nil && !slices.Contains([]waf.Target{waf.Argument, waf.Cookie, waf.Header}, kind) {
			r.refuse("WAF has no targets of type %q", target.Type)
		}
		settings.Excluded = append(settings.Excluded, waf.Exclusion{Rule: excluded.ID, Target: kind, Name: target.Name})
	}
	r.WAF = &model.WAF{Settings: settings, MaxBody: int64(min(cmp.Or(from.MaxBodyBytes, waf.DefaultBody), waf.MaxBody))}
}
