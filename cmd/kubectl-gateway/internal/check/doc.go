// Package check is the command that checks a cluster and its Gateways.
package check
