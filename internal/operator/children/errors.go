package children

import (
	"errors"
	"fmt"
)

// ErrLeftOver is returned while an object exists that belonged to a deleted Gateway of the same name. The garbage
// collector is about to delete it; trying again is all there is to do.
var ErrLeftOver = errors.New("it belongs to a deleted Gateway of the same name and is being deleted")

// ErrNamespaceGone is returned when the namespace is being deleted, and everything in it: there is nothing to do any more.
var ErrNamespaceGone = errors.New("its namespace is being deleted")

// ErrOutdated is returned when an object was changed after it was last seen. The change is on its way; trying again then is
// all there is to do.
var ErrOutdated = errors.New("it has changed meanwhile")

// NotOwnedError is returned when an object has the name of a child and is not controlled by the Gateway.
type NotOwnedError struct {
	// Kind, Namespace and Name are the object's.
	Kind, Namespace, Name string
	// Gateway is the name of the Gateway whose child should have that name.
	Gateway string
}

func (e *NotOwnedError) Error() string {
	return fmt.Sprintf("%s %s/%s exists and does not belong to Gateway %s: delete or rename one of them",
		e.Kind, e.Namespace, e.Name, e.Gateway)
}
