// Package convert makes Gateways of Ingresses, as ingress-nginx reads them, and says what is not carried over.
//
// Convert is a function of the objects alone. What becomes of an annotation is said in a table, in annotations.go.
package convert
