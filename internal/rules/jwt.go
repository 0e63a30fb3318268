package rules

import (
	"cmp"
	"fmt"
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
	r.JWT = &model.JWT{Scopes: texts(from.RequiredScopes), Skew: duration(cmp.Or(from.ClockSkew, "30s"))}
	for i := range from.Issuers {
		issuer, problem := issuerOf(&from.Issuers[i])
		if problem != "" {
			r.JWT.Unusable = cmp.Or(r.JWT.Unusable, fmt.Sprintf("issuers[%d].%s", i, problem))
		}
		r.JWT.Issuers = append(r.JWT.Issuers, issuer)
	}
	r.JWT.From = model.CredentialPlaces{{In: model.InHeader, Name: authorization}}
	if len(from.From) > 0 {
		r.JWT.From = r.credentials(from.From)
	}
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

// issuerOf returns an issuer, with its keys or where they are, and the problems of these.
func issuerOf(from *appv1.JWTIssuer) (to model.Issuer, problem string) {
	to = model.Issuer{Name: from.Issuer, Audiences: texts(from.Audiences)}
	switch ref, remote := from.Keys.ConfigMapRef, from.Keys.Remote; {
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
		keys, err := keyset.Parse(from.Keys.Inline)
		if err != nil {
			problem = "keys.inline " + err.Error()
		}
		to.Keys = keys
	}
	return to, problem
}
