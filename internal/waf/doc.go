// Package waf holds what HAProxy's rules and gateway-waf must agree on: settings of filters, and how HAProxy asks.
package waf
