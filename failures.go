package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/children"
	"gateway/internal/operator/status"
)

// lastingFailure is for how long the API server has to fail at what it is asked until the status tells of it: it does so for a moment
// when it starts, or has lost etcd. The garbage collector takes a moment for the children of a deleted Gateway, too.
const lastingFailure = 10 * time.Second

// restated is how often the status is told a failure again that differs from what it tells in numbers alone: a port, a time, how much
// of a quota is used. To write the status changes the Gateway, which has the operator try again at once.
const restated = time.Minute

// failures remember since when the API server has failed at what makes a Gateway's children, and what the status was told of it.
type failures struct {
	since
	said map[cache.ObjectName]statement
}

// statement is what was said of the children of a generation of a Gateway.
type statement struct {
	generation int64
	message    string
	at         time.Time
}

// told returns what the status of a Gateway should say about an error from its children, or nil. An object in the way and a refusal
// of the API server last until someone does something. So does what the API server fails at again and again: no node port or
// cluster IP is left, or a webhook does not answer; and a child of a deleted Gateway that does not go, as a finalizer keeps it.
// Everything else is over with one of the next tries.
func (f *failures) told(gateway *appv1.Gateway, err error, now time.Time) *status.ChildFailure {
	name := cache.MetaObjectToName(gateway)
	lasts := f.lasts(name, err, now)
	switch {
	case errors.As(err, new(*children.NotOwnedError)):
		return &status.ChildFailure{Reason: status.ReasonChildNotOwned, Message: oneLine(err)}
	case lasts || anyOf(err, isRefusal):
		return &status.ChildFailure{Reason: status.ReasonApplyFailed, Message: f.restate(name, statement{gateway.Generation, oneLine(err), now})}
	}
	return nil
}

// recordFailure tells what keeps the children from being as they should: the failure, or else the error, unless trying again is all there
// is to do.
func (c *Controller) recordFailure(gateway *appv1.Gateway, failure *status.ChildFailure, err error) {
	switch {
	case failure != nil:
		c.recorder.Event(gateway, corev1.EventTypeWarning, failure.Reason, failure.Message)
	case err != nil && !errors.Is(err, children.ErrLeftOver) && !errors.Is(err, children.ErrOutdated):
		c.recorder.Event(gateway, corev1.EventTypeWarning, status.ReasonApplyFailed, oneLine(err))
	}
}

// lasts says whether the API server fails, or a child is left over, and there was nothing else for lastingFailure.
func (f *failures) lasts(gateway cache.ObjectName, err error, now time.Time) bool {
	if !anyOf(err, fails) && !errors.Is(err, children.ErrLeftOver) {
		f.since.forget(gateway)
		return false
	}
	return f.elapsed(gateway, now) >= lastingFailure
}

// restate returns the message to tell: the last one, if the new one says nothing else and it was not told long ago.
func (f *failures) restate(gateway cache.ObjectName, now statement) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.said[gateway]
	if known && last.generation == now.generation && now.at.Sub(last.at) < restated && alike(last.message, now.message) {
		return last.message
	}
	if f.said == nil {
		f.said = map[cache.ObjectName]statement{}
	}
	f.said[gateway] = now
	return now.message
}

// forget says that nothing is wrong with the children of a Gateway, as far as is known.
func (f *failures) forget(gateway cache.ObjectName) {
	f.since.forget(gateway)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.said, gateway)
}

// alike says whether two messages differ in words with digits alone.
func alike(a, b string) bool {
	return slices.EqualFunc(strings.Fields(a), strings.Fields(b), func(a, b string) bool {
		return a == b || strings.ContainsAny(a, "0123456789") && strings.ContainsAny(b, "0123456789")
	})
}

// fails says whether the API server could not do what it was asked for a reason of its own, or has not answered in time.
func fails(err error) bool {
	return apierrors.IsInternalError(err) || errors.Is(err, context.DeadlineExceeded)
}

// isRefusal says whether the API server has refused a request for what is in it.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// onlyOutdated says whether nothing is wrong but that something was changed after it was last seen.
func onlyOutdated(err error) bool {
	return !anyOf(err, func(one error) bool { return !errors.Is(one, children.ErrOutdated) })
}

// anyOf says whether an error, or one of those that are joined in it, is such.
func anyOf(err error, such func(error) bool) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return anyOf(one, such) })
	}
	return such(err)
}

// oneLine is the message of an error that may be several joined ones.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
