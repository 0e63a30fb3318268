package rules

import (
	"cmp"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterBasicAuth, onAll, func(f *appv1.RuleFilter) *appv1.BasicAuth { return f.BasicAuth }, (*rule).addBasicAuth)
}

func (r *rule) addBasicAuth(from *appv1.BasicAuth) {
	r.BasicAuth = &model.BasicAuth{
		Secret: from.SecretRef.Name, Realm: cmp.Or(from.Realm, "Restricted"), ClientHeader: lower(string(from.ClientHeader)),
	}
	r.checkUsers()
}
