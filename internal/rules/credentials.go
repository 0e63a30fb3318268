package rules

import (
	"cmp"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

var credentialPlaces = map[appv1.CredentialSourceType]model.CredentialPlaceType{
	appv1.CredentialHeader: model.InHeader, appv1.CredentialQueryParam: model.InQuery, appv1.CredentialCookie: model.InCookie,
}

// authorization is the header for credentials.
const authorization = "authorization"

// credentials returns where keys or tokens may be.
func (r *rule) credentials(from []appv1.CredentialSource) model.CredentialPlaces {
	var places model.CredentialPlaces
	for _, source := range from {
		place := model.CredentialPlace{In: credentialPlaces[source.Type], Name: source.Name}
		if place.In == model.InHeader {
			place.Name = lower(source.Name)
			if strings.Contains(place.Name, "_") || !mayChange(place.Name) {
				r.refuse("a key or token cannot be in the header %q", source.Name)
			}
		}
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b model.CredentialPlace) int {
		return cmp.Or(cmp.Compare(a.In, b.In), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(places)
}

// checkUsers refuses filters that exclude each other, once the last of them is added.
func (r *rule) checkUsers() {
	wantsToken := r.JWT != nil && r.JWT.From.Want(authorization)
	switch {
	case r.OIDC != nil && (r.BasicAuth != nil || r.APIKey != nil || r.JWT != nil):
		r.refuse("OIDC and BasicAuth, APIKey or JWT all say who the client is: remove one of them from the rule")
	case r.BasicAuth != nil && wantsToken:
		r.refuse("BasicAuth and JWT" + oneHeader)
	case r.BasicAuth != nil && r.APIKey != nil:
		r.refuse("BasicAuth and APIKey both say who the client is: remove one of them from the rule")
	case wantsToken && r.APIKey != nil && r.APIKey.From.Want(authorization):
		r.refuse("APIKey and JWT" + oneHeader)
	}
}

// oneHeader is why some filters exclude each other.
const oneHeader = " both want the header Authorization, so every request would get 401: remove one of them from the rule"
