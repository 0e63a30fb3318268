package compare

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/flowcontrol"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Send the requests of a log to two addresses, and list those with different answers: in status, Location, body, or a
header that --header names. This needs no cluster.

A line of the log is a URL, a line of the proxies' access log, or one of nginx's format "combined". "-" is standard
input. The host of a request stays, and TLS certificates are verified by it: only the connections go to the two
addresses. The same request is sent once, without cookies and without the headers of the client.

Exit codes: 3 if answers differ, 1 if requests got no answer from either address.`

type command struct {
	*cli.Options
	reading
	old, new, ca string
	headers      []string
	noBody       bool
	concurrency  int
	rate         float32
	timeout      time.Duration
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "compare FILE --old ADDRESS --new ADDRESS", Short: "Compare the answers of two addresses", Long: long,
		Example: `  kubectl gateway compare urls.txt --old 192.0.2.10 --new 192.0.2.20
  kubectl gateway logs shop -o json | kubectl gateway compare - --old 192.0.2.10 --new 192.0.2.20
  kubectl gateway compare access.log --host shop.example.com --old 192.0.2.10 --new 127.0.0.1:8443 --ca ca.crt
  kubectl gateway compare urls.txt --old 192.0.2.10 --new 192.0.2.20 --header Content-Type,Cache-Control --no-body`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.old, "old", "", "where the requests go today: an address, with a port or without")
	flags.StringVar(&c.new, "new", "", "the address to compare with")
	flags.StringVar(&c.host, "host", "", "the host of requests in lines without one, as of nginx")
	flags.StringVar(&c.scheme, "scheme", "https", "http or https, for requests in lines of a log")
	flags.StringSliceVar(&c.methods, "method", []string{http.MethodGet, http.MethodHead}, "send requests with these methods, without a body")
	flags.StringSliceVar(&c.headers, "header", nil, "compare these headers of the answers too")
	flags.BoolVar(&c.noBody, "no-body", false, "do not compare bodies")
	flags.StringVar(&c.ca, "ca", "", "a file of CA certificates that are trusted besides those of this machine")
	flags.IntVar(&c.concurrency, "concurrency", 4, "how many requests an address gets at the same time")
	flags.Float32Var(&c.rate, "rate", 20, "how many requests an address gets in a second")
	flags.DurationVar(&c.timeout, "timeout", 30*time.Second, "how long an answer may take")
	return cmd
}

// validate returns the problems of the command line.
func (c *command) validate(args []string) error {
	switch {
	case len(args) != 1:
		return cli.Usagef("name one file with requests, or -")
	case c.scheme != "http" && c.scheme != "https":
		return cli.Usagef("unknown scheme %q: use http or https", c.scheme)
	case c.concurrency < 1 || c.rate <= 0 || c.timeout <= 0:
		return cli.Usagef("--concurrency, --rate and --timeout have to be above 0")
	}
	for flag, address := range map[string]string{"--old": c.old, "--new": c.new} {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host, port = address, "443"
		}
		_, notIP := netip.ParseAddr(host)
		if number, err := net.LookupPort("tcp", port); err != nil || number == 0 || notIP != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
			return cli.Usagef("%s %q has to be an address like 192.0.2.10 or 192.0.2.10:8443", flag, address)
		}
	}
	return nil
}

func (c *command) run(ctx context.Context, args []string) error {
	if err := c.validate(args); err != nil {
		return err
	}
	requests, err := c.requests(args[0])
	if err != nil {
		return err
	}
	roots, err := c.roots()
	if err != nil {
		return err
	}
	if c.unknown > 0 {
		c.Warn("%d lines were not understood, the first is %s", c.unknown, c.firstUnknown)
	}
	if len(requests) == 0 {
		return fmt.Errorf("there is no request to send in %s: %s", args[0], c.notSent())
	}
	different, failed := 0, 0
	for i, pair := range c.ask(ctx, requests, roots) {
		differences := c.differences(pair[0], pair[1])
		switch {
		case pair[0].err != nil && pair[1].err != nil:
			failed++
			differences = []string{fmt.Sprintf("failed    %v; %v", plain(pair[0].err), plain(pair[1].err))}
		case len(differences) > 0:
			different++
		}
		if len(differences) > 0 {
			if _, err := fmt.Fprintf(c.Out, "%s\n  %s\n", requests[i], strings.Join(differences, "\n  ")); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	summary := fmt.Sprintf("%d requests: %d equal, %d different, %d without an answer; %s", len(requests), len(requests)-different-failed, different, failed, c.notSent())
	switch {
	case different > 0:
		return cli.Nof("%s", summary)
	case failed > 0:
		return errors.New(summary)
	}
	_, err = fmt.Fprintln(c.Out, summary)
	return err
}

// notSent tells what of the log is not sent.
func (c *command) notSent() string {
	return fmt.Sprintf("not sent: %d repeated, %d with other methods, %d not understood", c.repeated, c.otherMethods, c.unknown)
}

// requests returns the requests in a file.
func (c *command) requests(file string) ([]request, error) {
	log := c.In
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // the user names the file
		if err != nil {
			return nil, fmt.Errorf("failed to read the requests: %w", err)
		}
		defer opened.Close() //nolint:errcheck // it is read
		log = opened
	}
	requests, err := c.read(log)
	if err != nil {
		return nil, fmt.Errorf("failed to read the requests in %s: %w", file, err)
	}
	return requests, nil
}

// roots returns the trusted CA certificates; nil: this machine's.
func (c *command) roots() (*x509.CertPool, error) {
	if c.ca == "" {
		return nil, nil
	}
	content, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA certificates: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA certificates of this machine: %w", err)
	}
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("there is no CA certificate in %s", c.ca)
	}
	return roots, nil
}

// ask returns the answers of both addresses to all requests, in their order, as soon as they are there.
func (c *command) ask(ctx context.Context, requests []request, roots *x509.CertPool) func(yield func(int, [2]answer) bool) {
	return func(yield func(int, [2]answer) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		sides := [2]*side{newSide(c.old, roots, c.concurrency, c.timeout, c.headers), newSide(c.new, roots, c.concurrency, c.timeout, c.headers)}
		// A worker sends a request to both, and takes the next one then.
		limiter := flowcontrol.NewTokenBucketRateLimiter(c.rate, 1)
		answers := make([]chan [2]answer, len(requests))
		for i := range answers {
			answers[i] = make(chan [2]answer, 1)
		}
		next := make(chan int)
		var workers sync.WaitGroup
		for range c.concurrency {
			workers.Go(func() {
				for i := range next {
					var pair [2]answer
					if err := limiter.Wait(ctx); err != nil {
						pair = [2]answer{{err: err}, {err: err}}
					} else {
						pair = both(ctx, sides, requests[i])
					}
					answers[i] <- pair
				}
			})
		}
		workers.Go(func() {
			defer close(next)
			for i := range requests {
				select {
				case next <- i:
				case <-ctx.Done():
					return
				}
			}
		})
		defer workers.Wait()
		defer cancel()
		for i := range requests {
			select {
			case pair := <-answers[i]:
				if !yield(i, pair) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// both sends a request to both sides at the same time.
func both(ctx context.Context, sides [2]*side, r request) [2]answer {
	var pair [2]answer
	var second sync.WaitGroup
	second.Go(func() { pair[1] = sides[1].send(ctx, r) })
	pair[0] = sides[0].send(ctx, r)
	second.Wait()
	return pair
}

// differences tells what differs between two answers.
func (c *command) differences(old, current answer) []string {
	if old.err != nil || current.err != nil {
		if old.err == nil || current.err == nil {
			return []string{fmt.Sprintf("answer    %s -> %s", outcome(old), outcome(current))}
		}
		return nil
	}
	var all []string
	differ := func(what, was, is string) {
		if was != is {
			all = append(all, fmt.Sprintf("%-9s %s -> %s", what, was, is))
		}
	}
	differ("status", fmt.Sprint(old.status), fmt.Sprint(current.status))
	differ("Location", fmt.Sprintf("%q", old.location), fmt.Sprintf("%q", current.location))
	for i, name := range c.headers {
		if !slices.Equal(old.headers[i], current.headers[i]) {
			differ(http.CanonicalHeaderKey(name), fmt.Sprintf("%q", old.headers[i]), fmt.Sprintf("%q", current.headers[i]))
		}
	}
	if !c.noBody {
		differ("body", body(old), body(current))
	}
	return all
}

func body(a answer) string { return fmt.Sprintf("%d bytes (sha256 %.6x)", a.size, a.hash) }

func outcome(a answer) string {
	if a.err != nil {
		return fmt.Sprintf("%v", plain(a.err))
	}
	return fmt.Sprint(a.status)
}

// plain returns an error without the URL, which is printed already.
func plain(err error) error {
	var network *url.Error
	if errors.As(err, &network) {
		return network.Err
	}
	return err
}
