// Package keyserver gives the proxy pods of Gateways what they need from Secrets and ConfigMaps.
//
// It finds out itself what a Gateway may have, and gives it to nobody but the pods of that Gateway, which it knows by
// their tokens. What it gives changes with the objects, with references, and with ReferenceGrants. What it does not
// know is never as if it were not there: before it has seen all objects, and while it cannot ask the API server about
// tokens, it answers that it cannot, and pods keep what they have.
package keyserver
