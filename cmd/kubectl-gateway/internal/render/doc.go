// Package render shows what HAProxy gets for a Gateway.
package render
