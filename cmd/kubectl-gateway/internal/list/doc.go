// Package list shows the Gateways of a cluster and their problems, through the typed clients.
package list
