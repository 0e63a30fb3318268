package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/must"
	"gateway/internal/operator/options"
)

// TestKeyServerCA: the operator does nothing before it can tell pods whom to trust, and ends when that changes.
func TestKeyServerCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	first, second := string(certtest.NewAuthority(t).PEM), string(certtest.NewAuthority(t).PEM)
	put := func(content string) { must.Do(t, os.WriteFile(file, []byte(content), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		var o options.Options
		o.Images.KeyServer, o.KeyServerCA = "keys:8443", file
		var got []string
		ended := make(chan error, 1)
		go func() {
			ended <- withAuthority(t.Context(), o, func(ctx context.Context, authority string) error {
				got = append(got, authority)
				<-ctx.Done()
				return nil
			})
		}()
		for _, content := range []string{"", "nothing"} {
			put(content)
			time.Sleep(2 * authorityInterval)
			if synctest.Wait(); len(got) > 0 {
				t.Fatalf("the operator began with %q", got)
			}
		}
		for _, content := range []string{first, "nothing", first, second} {
			put(content)
			time.Sleep(2 * authorityInterval)
		}
		if err := <-ended; !errors.Is(err, errOtherCA) {
			t.Errorf("the operator ended with %v", err)
		}
		if len(got) != 1 || got[0] != first {
			t.Errorf("the operator began with %q", got)
		}
	})
}
