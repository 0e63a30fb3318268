package try

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/logs"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
)

// requestTimeout is how long the answer to a request of --once may take.
const requestTimeout = 30 * time.Second

// check is a request with the expected answer.
type check struct {
	method string
	url    *url.URL
	// status is the expected one; 0: any. service is the name of the Service that is to answer; "": any, or none.
	status  int
	service string
}

func (c *check) String() string { return c.method + " " + c.url.String() }

// parseChecks reads the values of --request and --expect.
func parseChecks(requests, expect []string) ([]check, error) {
	if len(expect) > len(requests) {
		return nil, cli.Usagef("there are %d --expect, but %d --request", len(expect), len(requests))
	}
	checks := make([]check, len(requests))
	for i, text := range requests {
		method, address, ok := strings.Cut(text, " ")
		if !ok {
			method, address = http.MethodGet, text
		}
		parsed, err := url.Parse(address)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
			return nil, cli.Usagef("--request %q: it has to be like \"GET http://shop.example.com/cart\"", text)
		}
		checks[i].method, checks[i].url = method, parsed
	}
	for i, text := range expect {
		status, service, _ := strings.Cut(text, ":")
		number, err := strconv.Atoi(status)
		if err != nil || number < 100 || number > 599 {
			return nil, cli.Usagef("--expect %q: it has to be like 200 or 200:cart", text)
		}
		checks[i].status, checks[i].service = number, service
	}
	return checks, nil
}

// check sends the requests, and prints their answers. The error is cli.Nof for unexpected answers.
func (s *session) check(ctx context.Context, checks []check) error {
	s.log.quiet = true
	s.tell(s.objects)
	failed := 0
	for i := range checks {
		status, service, err := s.send(ctx, &checks[i])
		if err != nil {
			return err
		}
		got := strconv.Itoa(status)
		if service != "" {
			got += ":" + service
		}
		switch c := &checks[i]; {
		case c.status != 0 && c.status != status, c.service != "" && c.service != service:
			failed++
			s.log.say("%s: %s, but expected %s", c, got, strings.TrimSuffix(fmt.Sprintf("%d:%s", c.status, c.service), ":"))
		default:
			s.log.say("%s: %s", c, got)
		}
	}
	if failed > 0 {
		return cli.Nof("answers as expected: %d of %d", len(checks)-failed, len(checks))
	}
	if len(s.objects.problems) > 0 {
		return cli.Nof("a part of the Gateway is not served")
	}
	if s.objects.hasWarnings {
		return cli.Nof("there are warnings")
	}
	s.log.say("Gateway %s/%s is live; answers as expected: %d of %d", s.objects.namespace, s.objects.name, len(checks), len(checks))
	return nil
}

// send sends a request. It returns the status of the answer, and the Service that gave it, "" if it is HAProxy's own.
func (s *session) send(ctx context.Context, c *check) (status int, service string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, c.method, c.url.String(), nil)
	if err != nil {
		return 0, "", cli.Usagef("--request %q: %v", c, err)
	}
	userAgent := "kubectl-gateway-try/" + rand.Text()
	request.Header.Set("User-Agent", userAgent)
	if user := c.url.User; user != nil {
		password, _ := user.Password()
		request.SetBasicAuth(user.Username(), password)
	}
	logged := s.log.await(userAgent)
	transport := &http.Transport{
		DialContext:       s.dial,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: c.url.Hostname()}, //nolint:gosec // it is this machine's
		DisableKeepAlives: true,
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", fmt.Errorf("%s: no answer: %w", c, err)
	}
	defer answer.Body.Close() //nolint:errcheck // only the status counts
	select {
	case access := <-logged:
		return answer.StatusCode, s.serviceOf(&access), nil
	case <-ctx.Done():
		return 0, "", fmt.Errorf("%s: HAProxy did not log it: %w", c, ctx.Err())
	}
}

// dial connects to the listener of a port, wherever the host is.
func (s *session) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if number, err := strconv.ParseInt(port, 10, 32); err == nil {
		if moved, ok := s.objects.moved[int32(number)]; ok {
			port = strconv.Itoa(int(moved))
		}
	}
	return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

// serviceOf returns the name of the Service that has answered a request, "" if none has: a filter may refuse it after
// its backend was chosen, and an endpoint may not answer.
func (s *session) serviceOf(access *logs.Access) string {
	if access.MSResponse < 0 {
		return ""
	}
	for name, service := range s.objects.services {
		for _, port := range service.Spec.Ports {
			own := render.BackendName(model.Backend{Namespace: name.Namespace, Service: name.Name, Port: port.Port})
			if access.Backend == own || strings.HasPrefix(access.Backend, own+".") {
				return name.Name
			}
		}
	}
	return ""
}
