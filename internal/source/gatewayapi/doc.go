// Package gatewayapi translates objects of the Gateway API to the model, and says what their status has to be. The
// operator takes the status from it, the agents what HAProxy has to do, the plugin what to explain.
//
// It expects what the schemas of the Gateway API's CRDs demand. It applies their defaults, so that objects that never
// saw an API server mean the same. What it cannot do faithfully is refused: requests that it may be about are answered
// with 500, and the status says why.
//
// The package is pure: the same objects always give the same result.
package gatewayapi
