package children

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/operator/status"
)

// ErrLeftOver is returned while an object exists that belonged to a deleted Gateway of the same name. The garbage
// collector is about to delete it, so it is enough to retry.
var ErrLeftOver = errors.New("it belongs to a deleted Gateway of the same name and is being deleted")

// ErrNamespaceGone is returned when the namespace is being deleted with everything in it: there is nothing left to do.
var ErrNamespaceGone = errors.New("its namespace is being deleted")

// ErrOutdated is returned when an object was changed after it was last seen. The change is on its way to the cache, so
// it is enough to retry.
var ErrOutdated = errors.New("it has changed meanwhile")

// Unchanged makes a deletion fail if the object was changed after it was seen.
func Unchanged(seen metav1.Object) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(seen.GetUID()), ResourceVersion: new(seen.GetResourceVersion()),
	}}
}

// Failed returns the error of a write, nil if it is none: the object is gone. A write of an object that has changed is
// retried.
func Failed(err error, action string, object fmt.Stringer) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		err = ErrOutdated
	}
	return fmt.Errorf("failed to %s %s: %w", action, object, err)
}

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

// Failure returns the text for the status about an error of Ensure. It is nil if a retry is enough: an object was
// changed meanwhile, or the API server cannot answer now.
func Failure(err error) *status.ChildFailure {
	switch {
	case errors.As(err, new(*NotOwnedError)):
		return &status.ChildFailure{Reason: status.ReasonChildNotOwned, Message: err.Error()}
	case anyOf(err, lasts):
		return &status.ChildFailure{Reason: status.ReasonApplyFailed, Message: err.Error()}
	case errors.Is(err, ErrLeftOver):
		return &status.ChildFailure{Reason: status.ReasonPending, Message: err.Error()}
	}
	return nil
}

// lasts reports whether one error may need somebody to act. The API server has refused a request, or failed, which it
// also does if no node port is left or a webhook does not answer, or it has not answered in time.
func lasts(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return errors.Is(err, context.DeadlineExceeded)
	}
	switch answer.Status().Code {
	case http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// OnlyOutdated reports whether err says nothing but that objects were changed after they were last seen.
func OnlyOutdated(err error) bool {
	return err != nil && !anyOf(err, func(one error) bool { return !errors.Is(one, ErrOutdated) })
}

// anyOf reports whether match holds for err or for any error joined into it.
func anyOf(err error, such func(error) bool) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return anyOf(one, such) })
	}
	return such(err)
}
