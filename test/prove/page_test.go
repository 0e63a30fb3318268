package prove

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// row adds a row to the page of results.
func row(t *testing.T, what, format string, values ...any) {
	t.Helper()
	line := fmt.Sprintf("| %s | %s |\n", what, fmt.Sprintf(format, values...))
	t.Log(line)
	file, err := os.OpenFile(os.Getenv("PROVE_PAGE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = file.WriteString(line)
	must(t, err)
	must(t, file.Close())
}

// poll calls check until it returns nil, and returns its last error after the time.
func poll(ctx context.Context, within, every time.Duration, check func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, every, within, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("not within %v: %w", within, last)
	}
	return nil
}

// median and most are those of durations.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2].Round(time.Millisecond)
}

func most(all []time.Duration) time.Duration { return slices.Max(all).Round(time.Millisecond) }
