package model

import (
	"cmp"
	"time"
)

// Limit bounds the time for a request with all its attempts, and for one attempt: nil stands for none that is given, 0
// for no limit. Retry has to be set before.
func (a *Action) Limit(request, attempt *time.Duration) {
	a.Timeout = shorter(request, attempt)
	isBounded := request != nil && *request > 0
	a.Once = isBounded && a.Retry == nil
	if isBounded && attempt != nil && a.Retry != nil {
		// All attempts together are within the time for the request.
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
