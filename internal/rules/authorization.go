package rules

import (
	"slices"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterAuthorization, onAll, func(f *appv1.RuleFilter) *appv1.Authorization { return f.Authorization }, (*rule).addAuthorization)
}

var authorizationActions = []appv1.AuthorizationAction{appv1.AuthorizationAllow, appv1.AuthorizationDeny}

func (r *rule) addAuthorization(from *appv1.Authorization) {
	r.Authorization = &model.Authorization{}
	for i := range from.Rules {
		one := &from.Rules[i]
		if !slices.Contains(authorizationActions, one.Action) {
			r.refuse("authorization.rules[%d] has the action %q: Allow and Deny are supported", i, one.Action)
		}
		_, required := claims(nil, one.Claims)
		r.Authorization.Rules = append(r.Authorization.Rules, model.AuthorizationRule{
			Allow: one.Action == appv1.AuthorizationAllow, Methods: texts(one.Methods), Paths: texts(one.Paths),
			Addresses: ranges(one.Addresses), Clients: texts(one.Clients), Claims: required,
		})
	}
}
