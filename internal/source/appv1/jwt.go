package appv1

import (
	"cmp"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/keyset"
	"gateway/internal/model"
)

// jwt returns which tokens let requests through.
func jwt(spec *appv1.JWT) *model.JWT {
	to := &model.JWT{
		Issuer: spec.Issuer, Audiences: texts(spec.Audiences), Scopes: texts(spec.RequiredScopes), Skew: duration(appv1.Duration(cmp.Or(spec.ClockSkew, "30s"))),
	}
	switch ref, remote := spec.Keys.ConfigMapRef, spec.Keys.Remote; {
	case ref != nil:
		to.KeysFrom.ConfigMap = ref.Name
	case remote != nil:
		to.KeysFrom = model.KeySource{
			URL: remote.URI, Authorities: strings.Join(namesOf(remote.CACertificateRefs), ","),
			Interval: duration(appv1.Duration(cmp.Or(remote.RefreshInterval, "10m"))),
		}
	default:
		keys, err := keyset.Parse(spec.Keys.Inline)
		if err != nil {
			to.Unusable = "keys.inline " + err.Error()
		}
		to.Keys = keys
	}
	for _, header := range spec.ClaimsToHeaders {
		to.Headers = append(to.Headers, model.ClaimHeader{Name: strings.ToLower(header.Header), Claim: header.Claim})
	}
	slices.SortFunc(to.Headers, func(a, b model.ClaimHeader) int { return cmp.Compare(a.Name, b.Name) })
	return to
}
