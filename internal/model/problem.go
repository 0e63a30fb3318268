package model

// Problem is a part of a valid object that has no effect.
type Problem struct {
	// Origin is the object.
	Origin Origin
	// RouteKind is Route.Kind of the route concerned. Route and Listener are the names of those concerned; "" if there
	// is none.
	RouteKind, Route, Listener string

	Reason Reason
	// Message is a sentence for the author of the object. Nothing parses it.
	Message string
}

// Reason is a kind of problem, in the Gateway API's words where it has one.
type Reason string

// The reasons of problems.
const (
	// ReasonNoMatchingListenerHostname: a route gets no requests from a listener that it is for.
	ReasonNoMatchingListenerHostname Reason = "NoMatchingListenerHostname"
	// ReasonUnsupportedValue: what a rule says cannot be done.
	ReasonUnsupportedValue Reason = "UnsupportedValue"
	// ReasonUnusedBackend: a policy is for a backend that no route refers to, and seems to be meant for another.
	ReasonUnusedBackend Reason = "UnusedBackend"
)
