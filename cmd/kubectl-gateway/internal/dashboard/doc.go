// Package dashboard is the command that serves a page about the Gateways of a cluster on this machine.
package dashboard
