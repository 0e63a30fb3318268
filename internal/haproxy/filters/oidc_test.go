package filters

import (
	"strings"
	"testing"

	"gateway/internal/login"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// TestClaimsThatSessionsLack: what asks for one would never apply, so it is refused.
func TestClaimsThatSessionsLack(t *testing.T) {
	for claim, isThere := range map[string]bool{"jti": false, "exp": false, "nonce.a": false, "iss": true, "aud": true, `exp\.a`: true, "sub": true, "realm.exp": true} {
		required := []model.RequiredClaim{{Claim: claim, Values: []string{"a"}}}
		for name, action := range map[string]model.Action{
			"oidc.requiredClaims":    {OIDC: &model.OIDC{Claims: required}},
			"oidc.claimsToHeaders":   {OIDC: &model.OIDC{Headers: []model.ClaimHeader{{Name: "x-a", Claim: claim}}}},
			"authorization.rules[0]": {OIDC: &model.OIDC{}, Authorization: &model.Authorization{Rules: []model.AuthorizationRule{{Claims: required}}}},
			"rateLimit":              {OIDC: &model.OIDC{}, RateLimits: []model.RateLimit{{Key: model.ByClaim, Name: claim, Requests: 1}}},
			"":                       {JWT: &model.JWT{Claims: required}, Authorization: &model.Authorization{Rules: []model.AuthorizationRule{{Claims: required}}}},
		} {
			if action.OIDC != nil {
				action.OIDC.Login = login.Settings{Issuer: "https://id.example.com", ClientID: "shop", Secret: "login", Path: "/oauth2"}
			}
			got := Problem(&routing.Rule{Action: &action})
			if (got == "") != (isThere || name == "") || !isThere && !strings.HasPrefix(got, name) {
				t.Errorf("%s of %s: got %q", name, claim, got)
			}
		}
	}
}
