// Package reconnect lets clients reconnect soon after the API server is back.
package reconnect

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"gateway/internal/logging"
)

const (
	// firstDelay doubles with each try up to lastDelay; half of a delay is random. What a server asks for in Retry-After
	// counts up to lastDelay: it limits how long its own absence is felt.
	firstDelay = 250 * time.Millisecond
	lastDelay  = 2 * time.Second
	// dialTimeout is how long a connection may take to be made, and how long one may be idle before it is looked after.
	dialTimeout = 3 * time.Second
	// logInterval is how often an absence is logged.
	logInterval = 30 * time.Second
)

// Configure makes the clients of config reconnect soon: their reads wait for the server, and a connection to an address
// that does not answer is retried before the kernel does.
func Configure(config *rest.Config) {
	config.Wrap(Reads)
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
}

// Reads returns a transport that retries a GET until the server answers it with anything but "cannot now" (429, 5xx),
// or until the request's context ends. Without it, client-go's informers come back up to a minute after the server: the
// pause between their tries grows to that, and cannot be set. All other requests pass once.
func Reads(next http.RoundTripper) http.RoundTripper { return reads{next} }

type reads struct{ next http.RoundTripper }

func (r reads) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return r.next.RoundTrip(request)
	}
	var logged time.Time
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		response, err := r.next.RoundTrip(request)
		if request.Context().Err() != nil || !isAbsence(response, err) {
			return response, err
		}
		wait, what := delay, err
		if err == nil {
			wait = max(delay, retryAfter(response))
			what = errors.New(response.Status)
			// The connection can be used again only if the answer was read.
			_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
			_ = response.Body.Close()
		}
		if now := time.Now(); now.Sub(logged) > logInterval {
			logging.Warningf("Trying again until the API server answers: GET %s: %v", request.URL.Path, what)
			logged = now
		}
		if err := sleep(request.Context(), wait/2+rand.N(wait/2+1)); err != nil {
			return nil, err
		}
	}
}

// isAbsence reports whether a retry in a moment may get another answer.
func isAbsence(response *http.Response, err error) bool {
	if err != nil {
		return true
	}
	// 504 is the answer to a list that wants a resourceVersion which the server does not have, as after etcd was restored:
	// asking for the same again does not help.
	return response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusGatewayTimeout
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, lastDelay)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
