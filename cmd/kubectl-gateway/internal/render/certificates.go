package render

import (
	"path/filepath"
	"slices"

	"gateway/cmd/kubectl-gateway/internal/selfsigned"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/render"
)

// makeCertificates makes a certificate, with its key, in place of each of the Gateway's: HAProxy does not start without
// them.
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
		certificate, key, err := selfsigned.New("localhost")
		if err != nil {
			return err
		}
		files := map[string][]byte{certificates.JoinedFile: slices.Concat(certificate, key)}
		if err := write(filepath.Join(input.Paths.CertificateDir, secret), files); err != nil {
			return err
		}
	}
	for name, content := range input.Authorities {
		if len(content) > 0 {
			certificate, _, err := selfsigned.New("localhost")
			if err != nil {
				return err
			}
			input.Authorities[name] = certificate
		}
	}
	return nil
}
