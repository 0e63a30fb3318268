// Package keyserver gives the proxy pods of Gateways what they need from Secrets and ConfigMaps.
//
// It finds out itself what a Gateway may have, and gives it only to the pods of that Gateway, which it identifies by
// their tokens. The content changes with the objects, with references, and with ReferenceGrants. It never reports an
// unknown object as missing: before it has seen all objects, and while it cannot ask the API server about tokens, it
// answers that it cannot, and pods keep what they have.
package keyserver
