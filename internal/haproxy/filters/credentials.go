package filters

import (
	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/regex"
)

// authorization is the header in which a scheme comes before a key or token.
const authorization = "authorization"

// placeParam returns the parameter, of a filter, for a place where a key or token may be.
func placeParam(filter string, place model.CredentialPlace) string {
	return filter + "." + string(place.In) + "." + ir.Quote(place.Name, ir.InName)
}

// findLines add the key or token in a place to a variable, for rules with the parameter. Several become a text that is
// neither. bearer are the converters that take the scheme away from Authorization.
func findLines(variable, param string, place model.CredentialPlace, bearer string) []string {
	name := ir.Quote(place.Name, ir.InName)
	value, isThere, isTwice := "", "", ""
	switch place.In {
	case model.InQuery:
		value, isThere = "url_param("+name+"),url_dec", "{ url_param("+name+") -m found }"
		isTwice = isThere + " { query -m reg '(?:^|&)" + regex.Quote(place.Name) + "=.*&" + regex.Quote(place.Name) + "=' }"
	case model.InCookie:
		value, isThere, isTwice = "req.cook("+name+")", "{ req.cook_cnt("+name+") gt 0 }", "{ req.cook_cnt("+name+") gt 1 }"
	default:
		value, isThere, isTwice = "req.fhdr("+name+")", "{ req.fhdr_cnt("+name+") gt 0 }", "{ req.fhdr_cnt("+name+") gt 1 }"
		if place.Name == authorization {
			value += bearer
		}
	}
	return []string{
		"http-request set-var-fmt(" + variable + ") " + inQuotes("%[var("+variable+")]%["+value+"]") + " if " + isThere + " " + has(param),
		"http-request set-var-fmt(" + variable + `) "%[var(` + variable + `)], and more" if ` + isTwice + " " + has(param),
	}
}
