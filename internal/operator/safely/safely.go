// Package safely keeps a panic, and an API server that does not answer, from ending the work of the operator.
package safely

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// PanicError is a panic.
type PanicError struct {
	cause any
	stack []byte
}

// Message is the error without its place.
func (e *PanicError) Message() string { return fmt.Sprintf("panic: %v", e.cause) }
func (e *PanicError) Error() string   { return e.Message() + ", at " + string(e.stack) }

// Do calls a function and returns a panic as a PanicError.
func Do(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &PanicError{cause, debug.Stack()}
		}
	}()
	return do()
}

// Within is Do with a limit for how long the API server is waited for.
func Within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return Do(func() error { return do(ctx) })
}
