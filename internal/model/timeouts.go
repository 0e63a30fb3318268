package model

import (
	"cmp"
	"time"
)

// Limit sets the timeouts of a request with all its attempts, and of one attempt: nil if it is not given, 0 for no
// limit. All attempts together take at most the time for the request. They share it if an attempt has no time of its
// own. HAProxy counts milliseconds. Retry must be set before.
func (a *Action) Limit(request, attempt *time.Duration) {
	isBounded := request != nil && *request > 0
	if isBounded && attempt == nil && a.Retry != nil {
		share := max(time.Millisecond, *request/time.Duration(a.Retry.Attempts+1))
		attempt = &share
	}
	a.Timeout = shorter(request, attempt)
	a.Once = isBounded && a.Retry == nil
	if isBounded && a.Retry != nil {
		fit := int64(*request/a.Timeout) - 1
		a.Retry.Attempts = int32(max(0, min(int64(a.Retry.Attempts), fit))) //nolint:gosec // not more than it was
	}
}

// shorter returns the shorter of two limits: 0 if none is given, negative if those given are no limit.
func shorter(limits ...*time.Duration) time.Duration {
	var shortest time.Duration
	for _, limit := range limits {
		switch {
		case limit == nil:
		case *limit == 0:
			shortest = cmp.Or(shortest, -1)
		case shortest <= 0 || *limit < shortest:
			shortest = *limit
		}
	}
	return shortest
}
