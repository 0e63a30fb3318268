package children

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gateway/internal/operator/status"
)

// ErrLeftOver is returned while an object exists that belonged to a deleted Gateway of the same name. The garbage
// collector is about to delete it; trying again is all there is to do.
var ErrLeftOver = errors.New("it belongs to a deleted Gateway of the same name and is being deleted")

// ErrNamespaceGone is returned when the namespace is being deleted, and everything in it: there is nothing to do any
// more.
var ErrNamespaceGone = errors.New("its namespace is being deleted")

// ErrOutdated is returned when an object was changed after it was last seen. The change is on its way; trying again
// then is all there is to do.
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

// Failure returns what the status should say about an error of Ensure, nil if it is over with one of the next tries:
// what was changed meanwhile, and an API server that cannot answer now.
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

// lasts says whether someone may have to do something about one error: the API server has refused a request, or has
// failed at it, which is also what it says when it has no node port left or a webhook does not answer, or has not
// answered in time.
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

// OnlyOutdated says whether nothing is wrong but that something was changed after it was last seen.
func OnlyOutdated(err error) bool {
	return err != nil && !anyOf(err, func(one error) bool { return !errors.Is(one, ErrOutdated) })
}

// anyOf says whether an error, or one of those that are joined in it, is such.
func anyOf(err error, such func(error) bool) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return anyOf(one, such) })
	}
	return such(err)
}
