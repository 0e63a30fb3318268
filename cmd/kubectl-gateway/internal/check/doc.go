// Package check is the command that says whether a cluster is fit for Gateways, and what is wrong with those it has.
package check
