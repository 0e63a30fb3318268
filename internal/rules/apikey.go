package rules

import (
	"cmp"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterAPIKey, onAll, func(f *appv1.RuleFilter) *appv1.APIKey { return f.APIKey }, (*rule).addAPIKey)
}

var keyPlaces = map[appv1.APIKeySourceType]model.KeyPlaceType{
	appv1.APIKeyHeader: model.InHeader, appv1.APIKeyQueryParam: model.InQuery, appv1.APIKeyCookie: model.InCookie,
}

func (r *rule) addAPIKey(from *appv1.APIKey) {
	r.APIKey = &model.APIKey{Secret: from.SecretRef.Name, ClientHeader: lower(string(from.ClientHeader))}
	for _, source := range from.From {
		place := model.KeyPlace{In: keyPlaces[source.Type], Name: source.Name}
		if place.In == model.InHeader {
			place.Name = lower(source.Name)
			if strings.Contains(place.Name, "_") || !mayChange(place.Name) {
				r.refuse("an API key cannot be in the header %q", source.Name)
			}
		}
		r.APIKey.From = append(r.APIKey.From, place)
	}
	slices.SortFunc(r.APIKey.From, func(a, b model.KeyPlace) int { return cmp.Or(cmp.Compare(a.In, b.In), cmp.Compare(a.Name, b.Name)) })
	r.APIKey.From = slices.Compact(r.APIKey.From)
	r.checkUsers()
}

// checkUsers refuses filters that exclude each other, once the last of them is added.
func (r *rule) checkUsers() {
	switch {
	case r.BasicAuth != nil && r.JWT != nil:
		r.refuse("BasicAuth and JWT" + oneHeader)
	case r.BasicAuth != nil && r.APIKey != nil:
		r.refuse("BasicAuth and APIKey both say who the client is: remove one of them from the rule")
	case r.JWT != nil && r.APIKey != nil && r.APIKey.Wants("authorization"):
		r.refuse("APIKey and JWT" + oneHeader)
	}
}

// oneHeader is why some filters exclude each other.
const oneHeader = " both want the header Authorization, so every request would get 401: remove one of them from the rule"
