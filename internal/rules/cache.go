package rules

import appv1 "gateway/api/app/v1"

func init() {
	register(appv1.RuleFilterCache, onForwarded, func(f *appv1.RuleFilter) *appv1.Cache { return f.Cache }, (*rule).addCache)
}

func (r *rule) addCache(_ *appv1.Cache) {
	if r.KnowsUsers() {
		r.refuse("Cache would answer all users alike: remove it from the rule, or BasicAuth, APIKey, JWT, OIDC and ExternalAuth")
	}
	r.Cache = true
}
