// Package render shows HAProxy's configuration for a Gateway.
package render
