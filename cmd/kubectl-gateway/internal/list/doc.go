// Package list shows the Gateways of a cluster and what is wrong with them, through the typed clients.
package list
