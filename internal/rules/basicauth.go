package rules

import (
	"cmp"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// oneHeader is why BasicAuth and JWT exclude each other.
const oneHeader = "BasicAuth and JWT both want the header Authorization, so every request would get 401: remove one of them from the rule"

func init() {
	register(appv1.RuleFilterBasicAuth, onAll, func(f *appv1.RuleFilter) *appv1.BasicAuth { return f.BasicAuth }, (*rule).addBasicAuth)
}

func (r *rule) addBasicAuth(from *appv1.BasicAuth) {
	if r.JWT != nil {
		r.refuse(oneHeader)
	}
	r.BasicAuth = &model.BasicAuth{
		Secret: from.SecretRef.Name, Realm: cmp.Or(from.Realm, "Restricted"), UserHeader: lower(string(from.UserHeader)),
	}
}
