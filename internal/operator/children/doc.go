// Package children keeps the children of Gateways as package resources wants them, and reports their state in the
// caches. In: a Gateway and the informers' caches. Out: server-side applies of the children that differ, and of no
// others.
//
// A child differs if the fields that the operator owns, as the API server wrote them down in metadata.managedFields,
// are not exactly the desired ones. So a field that someone else changed is set back, one that is no longer desired is
// removed, and a field that is none of ours is left alone.
package children
