package rules

import (
	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterAPIKey, onAll, func(f *appv1.RuleFilter) *appv1.APIKey { return f.APIKey }, (*rule).addAPIKey)
}

func (r *rule) addAPIKey(from *appv1.APIKey) {
	r.APIKey = &model.APIKey{Secret: from.SecretRef.Name, ClientHeader: lower(string(from.ClientHeader)), From: r.credentials(from.From)}
	r.checkUsers()
}
