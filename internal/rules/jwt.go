package rules

import (
	"cmp"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/keyset"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterJWT, onAll, func(f *appv1.RuleFilter) *appv1.JWT { return f.JWT }, (*rule).addJWT)
}

func (r *rule) addJWT(from *appv1.JWT) {
	r.JWT = &model.JWT{
		Issuer: from.Issuer, Audiences: texts(from.Audiences), Scopes: texts(from.RequiredScopes), Skew: duration(cmp.Or(from.ClockSkew, "30s")),
	}
	r.JWT.From = model.CredentialPlaces{{In: model.InHeader, Name: authorization}}
	if len(from.From) > 0 {
		r.JWT.From = r.credentials(from.From)
	}
	setKeys(r.JWT, &from.Keys)
	r.checkUsers()
	r.JWT.Headers, r.JWT.Claims = claims(from.ClaimsToHeaders, from.RequiredClaims)
}

// claims returns what filters do with claims.
func claims(toHeaders []appv1.JWTClaimHeader, required []appv1.JWTRequiredClaim) (headers []model.ClaimHeader, all []model.RequiredClaim) {
	for _, header := range toHeaders {
		headers = append(headers, model.ClaimHeader{Name: lower(header.Header), Claim: header.Claim})
	}
	for _, claim := range required {
		all = append(all, model.RequiredClaim{Claim: claim.Claim, Values: texts(claim.Values)})
	}
	slices.SortFunc(headers, func(a, b model.ClaimHeader) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(all, func(a, b model.RequiredClaim) int { return cmp.Compare(a.Claim, b.Claim) })
	return headers, all
}

// setKeys sets the keys, or where they are.
func setKeys(to *model.JWT, from *appv1.JWTKeys) {
	switch ref, remote := from.ConfigMapRef, from.Remote; {
	case ref != nil:
		to.KeysFrom.ConfigMap = ref.Name
	case remote != nil:
		var authorities []string
		for _, ref := range remote.CACertificateRefs {
			authorities = append(authorities, ref.Name)
		}
		to.KeysFrom = model.KeySource{
			URL: remote.URI, Authorities: strings.Join(authorities, ","), Interval: duration(cmp.Or(remote.RefreshInterval, "10m")),
		}
	default:
		keys, err := keyset.Parse(from.Inline)
		if err != nil {
			to.Unusable = "keys.inline " + err.Error()
		}
		to.Keys = keys
	}
}
