package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/logging"
)

// forgetInterval is how often a Keeper looks whether pairs can be forgotten.
const forgetInterval = time.Second

// forget makes HAProxy forget the pairs of Secrets that are gone, and removes their files, once no configuration on the
// disk names them: HAProxy may start on those at any time.
func (k *Keeper) forget(ctx context.Context, at time.Time) error {
	since := at.Sub(k.forgotAt)
	if k.ConfigDir == "" || len(k.gone) == 0 || since >= 0 && since < forgetInterval {
		return nil
	}
	k.forgotAt = at
	named, err := readConfigurations(k.ConfigDir)
	if err != nil {
		logging.V(1).Infof("Keys of Secrets that are gone stay: %v", err)
		return nil
	}
	for secret := range k.gone {
		path := filepath.Join(secret, certificates.JoinedFile)
		file := filepath.Join(k.Pairs, path)
		if bytes.Contains(named, []byte(file)) {
			continue
		}
		_, down := k.HAProxy.Process(ctx)
		if down == nil {
			down = k.HAProxy.ForgetCertificate(ctx, file)
		}
		if errors.Is(down, runtime.ErrCertificateInUse) {
			continue
		}
		if down != nil {
			return nil //nolint:nilerr // it is asked again
		}
		if err := os.RemoveAll(filepath.Dir(file)); err != nil {
			return fmt.Errorf("failed to remove a key: %w", err)
		}
		delete(k.gone, secret)
		delete(k.written, path)
	}
	return nil
}

// readConfigurations returns what HAProxy's configurations name certificates in.
func readConfigurations(dir string) (all []byte, err error) {
	for _, pattern := range []string{"load-*/haproxy.cfg", "load-*/*.list"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, content...)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no configuration yet")
	}
	return all, nil
}
