// Package prove runs tools that most clusters have beside the built programs, on a real API server and with a real
// HAProxy: cert-manager with pebble, external-dns, and a stand-in for Argo Rollouts. `make prove` builds the tools,
// gives the tests a network of their own, whose ports 80 and 443 are free, and prints what they have measured.
package prove
