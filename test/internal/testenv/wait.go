package testenv

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Eventually calls check until it returns nil, and ends the test with its last error after the time.
func Eventually(t testing.TB, within time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		// An error because the time is over says nothing about what was waited for.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %v: %v", what, within, last)
	}
}
