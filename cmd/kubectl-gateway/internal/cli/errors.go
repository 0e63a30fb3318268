package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
		return fmt.Sprintf("the API server%s does not know Gateways: install the CRDs with \"kubectl apply --server-side -f install.yaml\"", server)
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
	// empty is what has a length of 0, and must not.
	empty = regexp.MustCompile(`Invalid value: (?:0: should have at least 1 (?:items|properties)|"": should be at least 1 chars long)$`)
	// expected is an expression, which helps few, and words what stands in place of one.
	expected = regexp.MustCompile(`Invalid value: "([^"]*)": should match '(\S.*)'$`)
	words    = regexp.MustCompile(`should match '\^(any .*?), see kubectl explain\$'`)
	// regex is what Kubernetes says about an expression beside an example.
	regex = regexp.MustCompile(` \(e\.g\. .*, regex used for validation is .*\)$`)
	// forms are examples of what expressions are for. An expression for one may accept those after it, too. accepts is
	// what tells it from others, if the example does not.
	forms = []struct{ example, accepts string }{
		{durationForm, "10s"}, {"/shop", ""}, {"example.com/name", ""}, {"10.0.0.0/8", ""}, {"realm.roles", `realm\.roles`}, {"shop.example.com", ""},
		{"*.example.com", ""}, {"https://shop.example.com", ""}, {"shop.example.com:8080", ""}, {"100Mi", ""},
	}
)

const durationForm = "10s, 1m30s or 100ms"

// form returns an example of what an expression is for; "": none is known.
func form(expression string) string {
	pattern, err := regexp.Compile(expression)
	if err != nil || expression == "" || pattern.MatchString("any words: {1}") || pattern.MatchString("any{word}") {
		return ""
	}
	for _, form := range forms {
		if pattern.MatchString(cmp.Or(form.accepts, form.example)) && (form.example != durationForm || !pattern.MatchString("shop")) {
			return form.example
		}
	}
	return ""
}

// Plain returns the API server's objection to an object, without the parts that help nobody.
func Plain(problem string) string {
	problem = inBody.ReplaceAllString(anyOf.ReplaceAllString(problem, ""), ": ")
	problem = empty.ReplaceAllString(problem, "must not be empty")
	problem = words.ReplaceAllString(regex.ReplaceAllString(problem, ""), "must be $1: see kubectl explain")
	match := expected.FindStringSubmatch(problem)
	if match == nil {
		return problem
	}
	value, expression := match[1], match[2]
	return strings.TrimSuffix(problem, fmt.Sprintf("should match '%s'", expression)) + cmp.Or(repair(value, expression), shape(problem, expression))
}

// repair returns what to write in place of a value that misses an expression by little; "": it misses it by more.
func repair(value, expression string) string {
	pattern, err := regexp.Compile(expression)
	if err != nil {
		return ""
	}
	between := "-"
	if value != "" && value[0] >= '0' && value[0] <= '9' { // a number and its unit
		between = ""
	}
	lower := strings.ToLower(value)
	_, withoutScheme, _ := strings.Cut(value, "://")
	host, _, _ := net.SplitHostPort(cmp.Or(withoutScheme, value)) // "" if there is no port
	others := []string{
		strings.TrimSpace(value), lower, strings.TrimRight(withoutScheme, "/"), host, strings.ReplaceAll(value, " ", between),
		strings.ReplaceAll(lower, "_", "-"), strings.TrimRight(value, "/"),
	}
	if address, err := netip.ParseAddr(value); err == nil {
		others = append(others, fmt.Sprintf("%s/%d", value, address.BitLen()))
	}
	for _, other := range others {
		if other != value && other != "" && pattern.MatchString(other) {
			return fmt.Sprintf("write %q", other)
		}
	}
	return ""
}

// shape returns the form that a value must have.
func shape(problem, expression string) string {
	example := form(expression)
	field, _, _ := strings.Cut(problem, ": ")
	switch {
	case example == "" && len(expression) < 60:
		return fmt.Sprintf("should match '%s'", expression)
	case example == "":
		return "has not the form that it must have: see kubectl explain"
	case strings.Contains(problem, `Invalid value: "*"`) && strings.Contains(field, "hostnames"):
		return "leave hostnames out for all hosts"
	case example == "shop.example.com" && strings.HasSuffix(strings.ToLower(field), "name") && !strings.HasSuffix(field, "hostname"):
		return "must have lower-case letters, digits, - and . alone"
	}
	return "must have a form like " + example
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
