// Package list shows the Gateways of a cluster and how they are, through the typed clients.
package list
