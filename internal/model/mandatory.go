package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Mandatory is a filter of a listener that rules do not replace.
type Mandatory struct {
	// Filter is what it is called: as Guards does, or RequestHeaderModifier or ResponseHeaderModifier.
	Filter string
	// By is the object that has it.
	By         string
	Exceptions []Exception
}

// Exception is a part of requests that a filter is not for: the ones that meet all of its conditions. An empty
// condition is met by all.
type Exception struct {
	// Namespaces are the namespaces of routes. Paths include what is below them.
	Namespaces, Hostnames, Paths []string
}

// The filters that are mandatory and guard nothing.
const (
	requestHeaders  = "RequestHeaderModifier"
	responseHeaders = "ResponseHeaderModifier"
)

// IsMandatory reports whether rules do not replace a filter.
func (a *Action) IsMandatory(filter string) bool {
	return slices.ContainsFunc(a.Mandatory, func(m Mandatory) bool { return m.Filter == filter })
}

// Without returns the filters of a listener without some of the mandatory ones.
func (a *Action) Without(names []string) *Action {
	if len(names) == 0 {
		return a
	}
	less := *a
	isOut := func(name string) bool { return slices.Contains(names, name) }
	less.Shadow = slices.DeleteFunc(slices.Clone(a.Shadow), isOut)
	less.Mandatory = slices.DeleteFunc(slices.Clone(a.Mandatory), func(m Mandatory) bool { return isOut(m.Filter) })
	for name, clear := range map[string]func(){
		"ClientAddress": func() { less.Clients = nil }, "RateLimit": func() { less.RateLimits = nil }, "maxRequestBytes": func() { less.MaxBody = nil },
		"BasicAuth": func() { less.BasicAuth = nil }, "APIKey": func() { less.APIKey = nil }, "JWT": func() { less.JWT = nil }, "OIDC": func() { less.OIDC = nil },
		"Authorization": func() { less.Authorization = nil }, "ExternalAuth": func() { less.ExternalAuth = nil }, "WAF": func() { less.WAF = nil },
		requestHeaders: func() { less.Headers.Request = nil }, responseHeaders: func() { less.Headers.Response = nil },
	} {
		if isOut(name) {
			clear()
		}
	}
	return &less
}

// obey adds what is mandatory at a listener to filters that the action has, too: requests have to pass both. Of most
// filters, HAProxy has one: an action that has another is refused.
func (a *Action) obey(filters *Action) {
	a.Mandatory = filters.Mandatory
	own := a.Guards()
	for _, mandatory := range filters.Mandatory {
		name := mandatory.Filter
		both := slices.Contains(own, name)
		if both && a.Shadows(name) != filters.Shadows(name) {
			a.refuse("%s is mandatory by %s, and only one of both is in shadow: remove it", name, mandatory.By)
			continue
		}
		switch name {
		case "ClientAddress":
			if both {
				a.Clients = a.Clients.and(filters.Clients)
			}
		case "RateLimit":
			if both {
				a.bothLimits(filters.RateLimits, mandatory.By)
			}
		case "maxRequestBytes":
			if both {
				least := min(*a.MaxBody, *filters.MaxBody)
				a.MaxBody = &least
			}
		case "BasicAuth", "APIKey", "JWT", "OIDC":
			for _, other := range []string{"BasicAuth", "APIKey", "JWT", "OIDC"} {
				if slices.Contains(own, other) {
					a.refuse("%s is mandatory by %s, and %s would replace it: remove it", name, mandatory.By, other)
				}
			}
		case requestHeaders:
			for _, set := range a.guardHeaders() {
				if slices.ContainsFunc(filters.Headers.Request, func(c HeaderChange) bool { return c.Name != set && isAlike(c.Name, set) }) {
					a.refuse("RequestHeaderModifier is mandatory by %s, and some backends take the header %s of a rule's filter for one of its headers: "+
						"use another name", mandatory.By, set)
				}
			}
			a.HeaderVariables = slices.DeleteFunc(slices.Clone(a.HeaderVariables), func(v HeaderVariable) bool {
				return isChanged(filters.Headers.Request, v.Name)
			})
		case responseHeaders:
		default:
			if both {
				a.refuse("%s is mandatory by %s, and a rule has one: remove it from the rule", name, mandatory.By)
			}
		}
	}
}

// guardHeaders are the headers that filters set which let requests through. They come after other changes.
func (a *Action) guardHeaders() []string {
	var names []string
	if a.BasicAuth != nil {
		names = append(names, a.BasicAuth.ClientHeader)
	}
	if a.APIKey != nil {
		names = append(names, a.APIKey.ClientHeader)
	}
	if a.ExternalAuth != nil {
		names = append(names, a.ExternalAuth.ResponseHeaders...)
	}
	if a.JWT != nil {
		for _, header := range a.JWT.Headers {
			names = append(names, header.Name)
		}
	}
	if a.OIDC != nil {
		for _, header := range a.OIDC.Headers {
			names = append(names, header.Name)
		}
	}
	return names
}

func (a *Action) refuse(format string, args ...any) {
	a.Refused = cmp.Or(a.Refused, fmt.Sprintf(format, args...))
}

// bothLimits adds the limits of a listener. There is one for each period.
func (a *Action) bothLimits(of []RateLimit, by string) {
	for _, limit := range of {
		if slices.ContainsFunc(a.RateLimits, func(own RateLimit) bool { return own.Period == limit.Period }) {
			a.refuse("RateLimit is mandatory by %s, and has the same unit: use another unit", by)
			return
		}
	}
	a.RateLimits = slices.SortedFunc(slices.Values(slices.Concat(a.RateLimits, of)), func(a, b RateLimit) int { return cmp.Compare(a.Period, b.Period) })
}

// and returns the clients that have access by both.
func (c *Clients) and(other *Clients) *Clients {
	both := &Clients{Deny: slices.Concat(c.Deny, other.Deny)}
	switch {
	case len(c.Allow) == 0:
		both.Allow = other.Allow
	case len(other.Allow) == 0:
		both.Allow = c.Allow
	default:
		for _, a := range c.Allow {
			for _, b := range other.Allow {
				if narrower := narrowerOf(a, b); narrower != (netip.Prefix{}) || !a.IsValid() || !b.IsValid() {
					both.Allow = append(both.Allow, narrower)
				}
			}
		}
		if len(both.Allow) == 0 {
			all := func(address string) netip.Prefix { return netip.PrefixFrom(netip.MustParseAddr(address), 0) }
			both.Deny = append(both.Deny, all("0.0.0.0"), all("::"))
		}
	}
	return both
}

// narrowerOf returns the range of two that is within the other one; zero: neither is.
func narrowerOf(a, b netip.Prefix) netip.Prefix {
	if !a.IsValid() || !b.IsValid() || !a.Overlaps(b) {
		return netip.Prefix{}
	}
	if a.Bits() > b.Bits() {
		return a
	}
	return b
}

// withHeaders returns the changes of a rule with the changes of its listener. The listener's come first, or last if
// they are mandatory.
func (a *Action) withHeaders(own HeaderChanges) HeaderChanges {
	both := HeaderChanges{Request: Then(a.Headers.Request, own.Request...), Response: Then(a.Headers.Response, own.Response...)}
	if a.IsMandatory(requestHeaders) {
		other := slices.DeleteFunc(slices.Clone(own.Request), func(c HeaderChange) bool {
			return slices.ContainsFunc(a.Headers.Request, func(m HeaderChange) bool { return m.Name != c.Name && isAlike(m.Name, c.Name) })
		})
		both.Request = Then(other, a.Headers.Request...)
	}
	if a.IsMandatory(responseHeaders) {
		both.Response = Then(own.Response, a.Headers.Response...)
	}
	return both
}

// Last returns the changes for a backend alone, which come after the rule's. It leaves out changes of mandatory
// headers.
func (a *Action) Last(changes HeaderChanges) HeaderChanges {
	less := func(changes, mandatory []HeaderChange) []HeaderChange {
		return slices.DeleteFunc(slices.Clone(changes), func(c HeaderChange) bool { return isChanged(mandatory, c.Name) })
	}
	if a.IsMandatory(requestHeaders) {
		changes.Request = less(changes.Request, a.Headers.Request)
	}
	if a.IsMandatory(responseHeaders) {
		changes.Response = less(changes.Response, a.Headers.Response)
	}
	return changes
}

// isChanged reports whether there is a change of a header, or of one that some backends take for the same.
func isChanged(changes []HeaderChange, name string) bool {
	return slices.ContainsFunc(changes, func(c HeaderChange) bool { return isAlike(c.Name, name) })
}

func isAlike(header, other string) bool { return PlainHeader(header) == PlainHeader(other) }

// PlainHeader returns the name of a header, in lower case, with "-" in place of other characters than letters and
// digits. Some backends take both names for the same.
func PlainHeader(name string) string {
	return strings.Map(func(sign rune) rune {
		if 'a' <= sign && sign <= 'z' || '0' <= sign && sign <= '9' {
			return sign
		}
		return '-'
	}, name)
}
