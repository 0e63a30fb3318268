// Package gatewayapi translates objects of the Gateway API to the model, and computes their status. The operator takes
// the status from it, the agents the model for HAProxy, the plugin both.
//
// It expects what the schemas of the Gateway API's CRDs demand. It applies their defaults, so that objects that never
// saw an API server mean the same. It refuses what it cannot do faithfully: requests that may be affected get 500, and
// the status tells why.
//
// The package is pure: the same objects always give the same result.
package gatewayapi
