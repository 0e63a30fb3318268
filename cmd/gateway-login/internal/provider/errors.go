package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/oauth2"
)

// reasons are what errors of libraries mean, by how they begin. What follows may be what somebody answered. None of
// that gets into the log: authors of filters choose who is asked, and could read answers there, or forge lines.
var reasons = []struct{ begin, means string }{
	{"oidc: issuer URL", "they are those of another issuer"},
	{"oidc: id token issued by", "it is of another issuer (iss)"},
	{"oidc: expected audience", "it is not for this client (aud)"},
	{"oidc: token is expired", "it has expired (exp)"},
	{"oidc: current time", "its time has not come (nbf)"},
	{"failed to verify signature: fetching keys", "the keys of the provider cannot be fetched"},
	{"failed to verify signature", "no key of the provider has signed it"},
	{"oidc: malformed jwt", "it is no token with a signature that the metadata name"},
}

// statuses is the status of an answer, which comes first in an error.
var statuses = regexp.MustCompile(`^[1-5][0-9]{2}\b`)

// errorCodes are what OAuth's errors look like.
var errorCodes = regexp.MustCompile(`^[a-z_]{1,64}$`)

// ErrorCode returns an error code of a provider, or a word in its place if it is none.
func ErrorCode(code string) string {
	if !errorCodes.MatchString(code) {
		return "error"
	}
	return code
}

// reason returns what an error of a library means.
func reason(err error) string {
	var timedOut net.Error
	var operation *net.OpError
	var certificate *tls.CertificateVerificationError
	var names x509.HostnameError
	switch {
	case errors.As(err, &timedOut) && timedOut.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "there was no answer in time"
	case errors.As(err, &names):
		return "the server has a certificate for other names"
	case errors.As(err, &certificate):
		return "the server has a certificate that cannot be verified"
	case errors.As(err, &operation):
		return operation.Op + ": " + operation.Err.Error()
	}
	for _, one := range reasons {
		if strings.HasPrefix(err.Error(), one.begin) {
			return one.means
		}
	}
	if status := statuses.FindString(err.Error()); status != "" {
		return "the answer has the status " + status
	}
	return "the answer cannot be used"
}

// explain returns a RefusedError if the provider answered that it refuses something.
func explain(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.Response == nil {
		return errors.New("failed to get tokens: " + reason(err))
	}
	status, code := answer.Response.StatusCode, answer.ErrorCode
	if status >= 400 && status < 500 && status != http.StatusTooManyRequests && code != "invalid_client" && code != "unauthorized_client" {
		return &RefusedError{ErrorCode(code)}
	}
	return fmt.Errorf("failed to get tokens: the answer has the status %d (%s)", status, ErrorCode(code))
}
