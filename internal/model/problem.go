package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Problem is a part of a valid object that has no effect.
type Problem struct {
	// Origin is the object.
	Origin Origin
	// RouteKind is Route.Kind of the route concerned. Route and Listener are the names of those concerned; "" if there
	// is none.
	RouteKind, Route, Listener string

	Reason Reason
	// Field is the field concerned, such as rules[0]: of the route or listener if there is one, else of the spec.
	Field string
	// Message is a sentence for the author of the object.
	Message string
}

// Reason is a kind of problem, in the Gateway API's words where it has one.
type Reason string

// The reasons of problems.
const (
	// ReasonNoMatchingListenerHostname: a route gets no requests from a listener that it is for.
	ReasonNoMatchingListenerHostname Reason = "NoMatchingListenerHostname"
	// ReasonUnsupportedValue: the rule cannot be carried out.
	ReasonUnsupportedValue Reason = "UnsupportedValue"
	// ReasonUnusedBackend: a policy is for a backend that no route refers to, and seems to be meant for another.
	ReasonUnusedBackend Reason = "UnusedBackend"
	// ReasonUnreachableRules: a rule gets no requests, since others that come first match all of them.
	ReasonUnreachableRules Reason = "UnreachableRules"
)

// Invalid returns the parts of the filters that cannot be carried out, "" if there are none.
func (a *Action) Invalid() string {
	if a.Refused != "" {
		return a.Refused
	}
	why := ""
	if a.Clients != nil {
		why = cmp.Or(noRange("clientAddress.allow", a.Clients.Allow), noRange("clientAddress.deny", a.Clients.Deny))
	}
	if a.Authorization != nil {
		for i := range a.Authorization.Rules {
			why = cmp.Or(why, noRange(fmt.Sprintf("authorization.rules[%d].addresses", i), a.Authorization.Rules[i].Addresses))
		}
	}
	if why == "" && a.JWT != nil && a.JWT.Unusable != "" {
		why = "jwt." + a.JWT.Unusable
	}
	return why
}

// noRange returns the problems of the ranges of a field, "" if there are none.
func noRange(field string, ranges []netip.Prefix) string {
	i := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return !p.IsValid() })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("%s[%d] is no range of addresses: write one such as 10.0.0.0/8 or fd00::/8", field, i)
}
