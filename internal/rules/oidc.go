package rules

import (
	"cmp"

	appv1 "gateway/api/app/v1"
	"gateway/internal/login"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterOIDC, onAll, func(f *appv1.RuleFilter) *appv1.OIDC { return f.OIDC }, (*rule).addOIDC)
}

func (r *rule) addOIDC(from *appv1.OIDC) {
	headers, required := claims(from.ClaimsToHeaders, from.RequiredClaims)
	r.OIDC = &model.OIDC{
		Login: login.Settings{
			Issuer: from.Issuer, ClientID: from.ClientID, Secret: from.SecretRef.Name, Scopes: texts(from.Scopes),
			Path: cmp.Or(from.Path, "/oauth2"), LoggedOutPath: cmp.Or(from.LoggedOutPath, "/"), Token: string(from.ForwardToken),
		},
		Headers: headers, Claims: required,
	}
	for _, ref := range from.CACertificateRefs {
		r.OIDC.Login.Authorities = append(r.OIDC.Login.Authorities, ref.Name)
	}
	r.checkUsers()
}
