// Package convert makes Gateways from Ingresses, as ingress-nginx reads them, and reports what is lost.
//
// Convert is a function of the objects alone. A table in annotations.go has what happens to each annotation.
package convert
