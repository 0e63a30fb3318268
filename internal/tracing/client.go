package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/util/wait"
)

// client posts to collectors, as OTLP/HTTP has it.
type client struct {
	http *http.Client
	// backoff is how long it waits before it tries again what a collector may take later.
	backoff wait.Backoff
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

func newClient() client {
	return client{
		http: &http.Client{
			Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			// The client stays with the configured collector. Redirects would let it send spans elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		backoff: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5},
	}
}

// temporaryError is one after which the same spans may be sent again.
type temporaryError struct {
	error
	// after is how long the collector asks to wait.
	after time.Duration
}

// post sends spans, again if the collector asks for that or cannot be reached. It returns how many the collector has
// rejected.
func (c client) post(ctx context.Context, url string, body []byte) (rejected int, err error) {
	for backoff := c.backoff; ; {
		rejected, err = c.postOnce(ctx, url, body)
		var temporary temporaryError
		if !errors.As(err, &temporary) || backoff.Steps == 0 {
			return rejected, err
		}
		timer := time.NewTimer(max(backoff.Step(), min(temporary.after, c.http.Timeout)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, err
		}
	}
}

func (c client) postOnce(ctx context.Context, url string, body []byte) (rejected int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, temporaryError{error: err}
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case response.StatusCode == http.StatusOK && err == nil:
		return rejectedSpans(answer), nil
	case err != nil:
		return 0, temporaryError{error: err}
	}
	err = fmt.Errorf("%s answers %s", url, response.Status)
	if slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, response.StatusCode) {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without it
		return 0, temporaryError{err, time.Duration(seconds) * time.Second}
	}
	return 0, err
}

// rejectedSpans returns how many spans an answer says are rejected: partial_success.rejected_spans of an
// ExportTraceServiceResponse, whose package comes with all of gRPC.
func rejectedSpans(answer []byte) int {
	partial := field(answer, 1, protowire.BytesType)
	message, n := protowire.ConsumeBytes(partial)
	if n < 0 {
		return 0
	}
	rejected, n := protowire.ConsumeVarint(field(message, 1, protowire.VarintType))
	if n < 0 {
		return 0
	}
	return int(rejected) //nolint:gosec // a collector that says nonsense falsifies its own numbers
}

// field returns a message from the value of a field on.
func field(message []byte, number protowire.Number, kind protowire.Type) []byte {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if num == number && typ == kind {
			return message
		}
		if n = protowire.ConsumeFieldValue(num, typ, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
