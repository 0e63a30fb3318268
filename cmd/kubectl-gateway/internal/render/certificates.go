package render

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/util/cert"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/render"
)

// makeCertificates makes one certificate, with its key, that stands for all certificates: HAProxy does not start
// without them.
func makeCertificates(input *render.Input) error {
	var secrets []string
	for _, list := range input.Certificates {
		for _, c := range list {
			secrets = append(secrets, c.Secret)
		}
	}
	if input.HasBackendCertificate {
		secrets = append(secrets, input.Table.BackendCertificate)
	}
	for _, secret := range secrets {
		pair, err := makePair()
		if err != nil {
			return err
		}
		files := map[string][]byte{certificates.JoinedFile: slices.Concat(pair.certificate, pair.key)}
		if err := write(filepath.Join(input.Paths.CertificateDir, secret), files); err != nil {
			return err
		}
	}
	for name, content := range input.Authorities {
		if len(content) > 0 {
			pair, err := makePair()
			if err != nil {
				return err
			}
			input.Authorities[name] = pair.certificate
		}
	}
	return nil
}

type pair struct{ certificate, key []byte }

// makePair makes the certificate and the key of all checks, once: that takes longer than a check.
var makePair = sync.OnceValues(func() (pair, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return pair{}, fmt.Errorf("failed to make a certificate for the check: %w", err)
	}
	return pair{certificate, key}, nil
})
