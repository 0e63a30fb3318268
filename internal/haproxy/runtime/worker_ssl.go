package runtime

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrNoCertificate says that the worker has loaded no certificate from a file.
var ErrNoCertificate = errors.New("no such certificate is loaded")

// certificateUnknown is how HAProxy 2.6 begins to say so.
const certificateUnknown = "Can't display the certificate: Not found"

// Certificate is a certificate that a worker has loaded.
type Certificate struct {
	// Serial is its serial number, in hexadecimal.
	Serial string
	// Fingerprint is its SHA-1 in hexadecimal, in upper case.
	Fingerprint string
}

// Certificate returns which certificate the worker has loaded from a file, which may hold another one by now. It returns
// ErrNoCertificate if it has loaded none.
func (w *Worker) Certificate(ctx context.Context, file string) (Certificate, error) {
	if !isWord(file) {
		return Certificate{}, fmt.Errorf("failed to show certificate: %q is not a path HAProxy can be told", file)
	}
	reply, err := exchange(ctx, w.socket, "show ssl cert "+file+"\n")
	if err == nil {
		var certificate Certificate
		if certificate, err = parseShowCertificate(reply); err == nil {
			return certificate, nil
		}
	}
	return Certificate{}, fmt.Errorf("failed to show certificate %s: %w", file, err)
}

var fingerprintPattern = regexp.MustCompile(`^[0-9A-F]{40}$`)

// parseShowCertificate reads the answer to "show ssl cert FILE": one "Name: value" a line, of which it takes
//
//	Serial: 6F2F7F52FDDB0BD17B7B47091F68997CCF90C5C6
//	SHA1 FingerPrint: B1D5DA9E2D01C6A30196754F67619C8A86B44C3D
func parseShowCertificate(reply string) (Certificate, error) {
	if strings.HasPrefix(reply, certificateUnknown) {
		return Certificate{}, ErrNoCertificate
	}
	var certificate Certificate
	for line := range strings.Lines(reply) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Serial":
			certificate.Serial = strings.TrimSpace(value)
		case "SHA1 FingerPrint":
			certificate.Fingerprint = strings.TrimSpace(value)
		}
	}
	if !fingerprintPattern.MatchString(certificate.Fingerprint) {
		return Certificate{}, fmt.Errorf("unexpected answer to show ssl cert: %q", firstLine(reply))
	}
	return certificate, nil
}
