package model

import (
	"cmp"
	"time"
)

// Limit bounds the time for a request with all its attempts, and for one attempt: nil stands for none that is given, 0
// for no limit. All attempts together are within the time for the request, which they share if none is given for one.
// HAProxy counts milliseconds. Retry has to be set before.
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
