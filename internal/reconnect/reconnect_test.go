package reconnect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/must"
)

// server answers requests in turn by what it has; the last answer stays. 0 is a connection that fails.
type server struct {
	statuses []int
	requests int
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	status := s.statuses[min(s.requests, len(s.statuses)-1)]
	s.requests++
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	header := http.Header{"Retry-After": {"60"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

func send(ctx context.Context, t *testing.T, s *server, method string) (int, error) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(ctx, method, "https://example.com/api", nil))(t)
	response, err := Reads(s).RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestReads(t *testing.T) {
	for name, test := range map[string]struct {
		method   string
		statuses []int
		want     int
		requests int
	}{
		"an answer is passed on":                 {http.MethodGet, []int{200}, 200, 1},
		"so is a refusal":                        {http.MethodGet, []int{403}, 403, 1},
		"and that there is no such thing":        {http.MethodGet, []int{404}, 404, 1},
		"and that a watch is too old":            {http.MethodGet, []int{410}, 410, 1},
		"an absence is waited for":               {http.MethodGet, []int{0, 500, 429, 503, 200}, 200, 5},
		"so is that it has nothing so new":       {http.MethodGet, []int{504}, 504, 1},
		"a write that fails is not sent again":   {http.MethodPatch, []int{0, 200}, 0, 1},
		"a write that is refused is not, either": {http.MethodPatch, []int{500, 200}, 500, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{statuses: test.statuses}
				got, _ := send(t.Context(), t, s, test.method)
				if got != test.want || s.requests != test.requests {
					t.Errorf("got %d after %d requests, want %d after %d", got, s.requests, test.want, test.requests)
				}
			})
		})
	}
}

// TestPace: a server that is away for an hour is asked some 2,400 times, and then missed for two seconds at most.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		s := &server{statuses: []int{0}}
		start := time.Now()
		if _, err := send(ctx, t, s, http.MethodGet); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v at the end of the time", err)
		}
		if took := time.Since(start); took != time.Hour || s.requests < 1800 || s.requests > 3700 {
			t.Errorf("%d requests in %v", s.requests, took)
		}
	})
}
