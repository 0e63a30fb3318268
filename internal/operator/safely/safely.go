// Package safely keeps a panic from ending the operator.
package safely

import (
	"fmt"
	"runtime/debug"
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
