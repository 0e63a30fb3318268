package filters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

// authorization is the header in which a scheme comes before a key or token.
const authorization = "authorization"

// placeParam returns the parameter, of a filter, for a place where a key or token may be.
func placeParam(filter string, place model.CredentialPlace) string {
	return filter + "." + string(place.In) + "." + ir.Quote(place.Name, ir.InName)
}

// placesOf returns the places where rules have a filter look for a key or token, by their parameters.
func placesOf(rules []*routing.Rule, filter string, of func(rule *routing.Rule) model.CredentialPlaces) map[string]model.CredentialPlace {
	places := map[string]model.CredentialPlace{}
	for _, rule := range rules {
		for _, place := range of(rule) {
			places[placeParam(filter, place)] = place
		}
	}
	return places
}

// secretPlaces returns all places where rules look for a key or token, by their parameters.
func secretPlaces(rules []*routing.Rule) map[string]model.CredentialPlace {
	places := placesOf(rules, "apikey", keyPlaces)
	maps.Copy(places, placesOf(rules, "jwt", tokenPlaces))
	return places
}

// IsSecret reports whether some rule looks for a key or token in a header, in lower case. The access log has none of
// these: a key may be sent to another rule, or with a request that ends before anybody looks for it.
func IsSecret(env Env, header string) bool {
	for _, place := range secretPlaces(env.Rules) {
		if place == (model.CredentialPlace{In: model.InHeader, Name: header}) {
			return true
		}
	}
	return false
}

// part is a parameter of a query or a cookie, as expressions: the name with what separates it from the value, and the
// value. It ends at separator alone: HAProxy's own fetches, as some backends, know others, too.
type part struct {
	separator, name, value string
	// text is where to look.
	text string
}

// partOf returns what a place is within the text that has it. Names in queries may be encoded, as in conditions.
func partOf(place model.CredentialPlace) part {
	if place.In == model.InCookie {
		return part{";", `[ \t]*+` + regex.Quote(place.Name) + `[ \t]*+=[ \t]*+`, `[^; \t]*+(?:[ \t]++[^; \t]++)*+`, "var(txn.crumbs)"}
	}
	var name strings.Builder
	for _, c := range []byte(place.Name) {
		fmt.Fprintf(&name, `(?:%s|%%(?i:%02X))`, regex.Quote(string(c)), c)
	}
	return part{"&", name.String() + "=", "[^&]*+", "query"}
}

// any matches a text with the part, one a text with one, whose value is the first group.
func (p part) any() string { return "(?:^|" + p.separator + ")" + p.name }

func (p part) one() string {
	other := "(?!" + p.name + ")[^" + p.separator + "]*+"
	return "^(?:" + other + p.separator + ")*+" + p.name + "(" + p.value + `)[ \t]*+(?:` + p.separator + other + ")*+$"
}

// without returns the converters that take all of the part away.
func (p part) without() string {
	return "regsub('(?:^|" + p.separator + ")" + p.name + "[^" + p.separator + "]*+','',g),regsub('^[" + p.separator + ` ]+','')`
}

// crumbLines set txn.crumbs to all cookies, if some place is a cookie. Clients may have several headers with cookies.
// regsub starts anew after each match: see factLines in package render.
func crumbLines(places map[string]model.CredentialPlace) []string {
	for _, place := range places {
		if place.In == model.InCookie {
			return []string{
				"http-request set-var(txn.crumbs) req.fhdr(cookie) if { req.fhdr_cnt(cookie) eq 1 }",
				`http-request set-var-fmt(txn.crumbs) "\n%[req.hdrs]" if { req.fhdr_cnt(cookie) gt 1 }`,
				`http-request set-var(txn.crumbs) 'var(txn.crumbs),regsub("\x0D\x0A","\x0A\x0A",g),regsub("\x0A(?!cookie:)[^\x0A]+\x0A","",g),` +
					`regsub("\x0A+cookie:[\x09\x20]*","; ",g),regsub("^; |\x0A","",g)' if { req.fhdr_cnt(cookie) gt 1 }`,
			}
		}
	}
	return nil
}

// findLines set a variable to the key or token of a request, by places of some rules with their parameters. Several,
// also in parts at different places, become a text with a line break, which is neither. bearer are the converters that
// take the scheme away from Authorization.
func findLines(variable, bearer string, places map[string]model.CredentialPlace) []string {
	lines := crumbLines(places)
	for _, param := range slices.Sorted(maps.Keys(places)) {
		place, limited := places[param], " "+has(param)
		name := ir.Quote(place.Name, ir.InName)
		value, isAny, isOne := "req.fhdr("+name+")", "{ req.fhdr_cnt("+name+") gt 0 }", "{ req.fhdr_cnt("+name+") eq 1 }"
		if place.In != model.InHeader {
			part := partOf(place)
			value = part.text + ",regsub('" + part.one() + `','\1')`
			isAny, isOne = "{ "+part.text+" -m reg '"+part.any()+"' }", "{ "+part.text+" -m reg '"+part.one()+"' }"
		}
		switch {
		case place.In == model.InQuery:
			value += ",url_dec"
		case place.In == model.InHeader && place.Name == authorization:
			value += bearer
		}
		lines = append(lines,
			"http-request set-var(txn.found) "+inQuotes(value)+" if "+isOne+limited,
			`http-request set-var-fmt(txn.found) "\n" if `+isAny+" !"+isOne+limited,
			`http-request set-var-fmt(txn.found) "%[var(`+variable+`)]\n%[var(txn.found)]" if { var(txn.found) -m len gt 0 } { var(`+variable+") -m len gt 0 }",
			"http-request set-var("+variable+") var(txn.found) if { var(txn.found) -m len gt 0 } or { var(txn.found) -m found } !{ var("+variable+") -m found }",
			"http-request unset-var(txn.found)",
		)
	}
	return lines
}

// takeLines take a key from where it is, in requests that meet a condition and have it.
func takeLines(place model.CredentialPlace, condition string) []string {
	part := partOf(place)
	limited := " if { " + part.text + " -m reg '" + part.any() + "' } " + condition
	switch place.In {
	case model.InQuery:
		return []string{
			"http-request set-var(txn.rest_of_query) " + inQuotes("query,"+part.without()) + limited,
			"http-request set-pathq %[path] if { var(txn.rest_of_query) -m len 0 }",
			"http-request set-query %[var(txn.rest_of_query)] if { var(txn.rest_of_query) -m len gt 0 }",
			"http-request unset-var(txn.rest_of_query)",
		}
	case model.InCookie:
		return []string{
			"http-request del-header cookie" + limited,
			"http-request set-var(txn.crumbs) " + inQuotes("var(txn.crumbs),"+part.without()) + limited,
			"http-request set-header cookie %[var(txn.crumbs)] if { var(txn.crumbs) -m len gt 0 } !{ req.fhdr_cnt(cookie) gt 0 }",
		}
	}
	return []string{"http-request del-header " + ir.Quote(place.Name, ir.InName) + " if " + condition}
}
