package render

import (
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/client-go/util/cert"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/render"
)

// makeCertificates makes one certificate, with its key, that stands for all that HAProxy is to find: it starts on no
// other.
func makeCertificates(input *render.Input) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return fmt.Errorf("failed to make a certificate for the check: %w", err)
	}
	var secrets []string
	for _, list := range input.Certificates {
		for _, c := range list {
			secrets = append(secrets, c.Secret)
		}
	}
	if input.HasBackendCertificate {
		secrets = append(secrets, input.Table.BackendCertificate)
	}
	files := map[string][]byte{certificates.JoinedFile: slices.Concat(certificate, key)}
	for _, secret := range secrets {
		if err := write(filepath.Join(input.Paths.CertificateDir, secret), files); err != nil {
			return err
		}
	}
	for name, content := range input.Authorities {
		if len(content) > 0 {
			input.Authorities[name] = certificate
		}
	}
	return nil
}
