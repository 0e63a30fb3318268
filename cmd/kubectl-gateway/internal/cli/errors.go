package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

// Exit codes. docs/reference/kubectl-gateway.md promises them.
const (
	ExitFailed  = 1
	ExitUsage   = 2
	ExitNo      = 3
	ExitPartial = 4
)

// codeError is an error with an exit code of its own.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// Usagef returns the error for a wrong command line.
func Usagef(format string, args ...any) error {
	return &codeError{ExitUsage, fmt.Errorf(format, args...)}
}

// Nof returns the error for a question that was answered with no.
func Nof(format string, args ...any) error { return &codeError{ExitNo, fmt.Errorf(format, args...)} }

// Partialf returns the error for work that was done in part.
func Partialf(format string, args ...any) error {
	return &codeError{ExitPartial, fmt.Errorf(format, args...)}
}

// ExitCode returns the code to exit with.
func ExitCode(err error) int {
	var coded *codeError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.code
	}
	return ExitFailed
}

// explain returns what errors mean, a line each.
func explain(ctx context.Context, err error, server string) (lines []string) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{explainOne(ctx, err, server)}
	}
	for _, one := range joined.Unwrap() {
		lines = append(lines, explain(ctx, one, server)...)
	}
	return slices.Compact(lines)
}

func explainOne(ctx context.Context, err error, server string) string {
	var network *url.Error
	var coded *codeError
	switch {
	case errors.As(err, &coded):
		return oneLine(err.Error()) // it is explained already
	case ctx.Err() != nil:
		return "interrupted"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return oneLine(fmt.Sprintf("cannot trust the API server%s: %v: check the certificate-authority in the kubeconfig", server, errors.Unwrap(err)))
	case errors.As(err, &network):
		return oneLine(fmt.Sprintf("cannot reach the API server%s (%v): check that it runs, and that --kubeconfig and --context mean this one", server, network.Err))
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server%s does not know who is asking: check the credentials in the kubeconfig", server)
	case apierrors.IsBadRequest(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return fmt.Sprintf("the API server%s does not understand the request: check whether its address has to begin with https", server)
	case IsUnknownKind(err):
		return fmt.Sprintf("the API server%s does not know Gateways: install the CRD with \"kubectl apply -f artifacts/crd\"", server)
	}
	return oneLine(err.Error())
}

// IsUnknownKind reports whether the API server does not know the kind Gateway, rather than the one Gateway.
func IsUnknownKind(err error) bool {
	var noMatch *meta.NoKindMatchError
	if errors.As(err, &noMatch) {
		return noMatch.GroupKind.Group == appv1.GroupName
	}
	// The server's own answer for a Gateway that does not exist is a Status; for a path it does not have, it is not.
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

var (
	// inBody is where the API server names a field again, and anyOf where it announces another problem.
	inBody = regexp.MustCompile(`: \S+ in body `)
	anyOf  = regexp.MustCompile(`<nil>: Invalid value: "": "\S+" must validate [a-z ]+ \(\w+\)[;,] `)
	// longPattern is an expression that helps nobody, and words what stands in place of one.
	longPattern = regexp.MustCompile(`should match '(\S{60,})'`)
	words       = regexp.MustCompile(`should match '\^(any .*?), see kubectl explain\$'`)
	// forms are examples of what long patterns are for. An expression for one may accept those after it, too. accepts is
	// what tells it from others, if the example does not.
	forms = []struct{ example, accepts string }{
		{"/shop", ""}, {"example.com/name", ""}, {"10.0.0.0/8", ""}, {"realm.roles", `realm\.roles`}, {"shop.example.com", ""},
		{"*.example.com", ""}, {"https://shop.example.com", ""}, {"shop.example.com:8080", ""}, {"100Mi", ""},
	}
)

// Plain returns the API server's objection to an object, without the parts that help nobody.
func Plain(problem string) string {
	problem = inBody.ReplaceAllString(anyOf.ReplaceAllString(problem, ""), ": ")
	problem = words.ReplaceAllString(problem, "must be $1: see kubectl explain")
	return longPattern.ReplaceAllStringFunc(problem, func(text string) string {
		pattern, err := regexp.Compile(longPattern.FindStringSubmatch(text)[1])
		for _, form := range forms {
			if err == nil && pattern.MatchString(cmp.Or(form.accepts, form.example)) {
				return "must have a form like " + form.example + ": see kubectl explain"
			}
		}
		return "has not the form that it must have: see kubectl explain"
	})
}

// Some names the first of the names, and how many more there are.
func Some(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
