package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"gateway/internal/logging"
	"gateway/internal/operator/options"
)

// authorityInterval is how often the file with the key server's CA is read. kubelet takes up to a minute or so to write
// it.
const authorityInterval = 2 * time.Second

// errOtherCA ends the operator: all pods have to get another CA, and the next process sees to that.
var errOtherCA = errors.New("the key server has another CA: starting again with it")

// withAuthority calls operate with the key server's CA once it is there, until there is another one.
func withAuthority(ctx context.Context, options options.Options, operate func(ctx context.Context, authority string) error) error {
	if options.Images.KeyServer == "" {
		return operate(ctx, "")
	}
	authority, err := awaitAuthority(ctx, options.KeyServerCA)
	if err != nil {
		return nil //nolint:nilerr // the operator was told to end
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watchAuthority(ctx, options.KeyServerCA, authority, cancel)
	err = operate(ctx, authority)
	if errors.Is(context.Cause(ctx), errOtherCA) {
		err = errors.Join(errOtherCA, err)
	}
	return err
}

// awaitAuthority returns the certificates that the key server's is verified with, once the file has any.
func awaitAuthority(ctx context.Context, file string) (string, error) {
	for warned := false; ; warned = true {
		authority, err := readAuthority(file)
		if err == nil {
			return authority, nil
		}
		if !warned {
			logging.Warningf("Waiting for the CA of gateway-key-server: %v", err)
		}
		if !pause(ctx) {
			return "", ctx.Err()
		}
	}
}

// watchAuthority calls other once the file has other certificates.
func watchAuthority(ctx context.Context, file, before string, other context.CancelCauseFunc) {
	for pause(ctx) {
		if now, err := readAuthority(file); err == nil && now != before {
			other(errOtherCA)
		}
	}
}

func readAuthority(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("failed to read -key-server-ca: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return "", fmt.Errorf("-key-server-ca: %s has no certificate", file)
	}
	return string(content), nil
}

// pause waits for authorityInterval. It returns false if ctx ends before.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(authorityInterval):
		return true
	}
}
