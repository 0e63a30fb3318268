//go:build slow

package dataplanetest_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gateway/internal/must"
)

// TestSlowBodiesEnd: bytes that keep coming give a client no more time.
func TestSlowBodiesEnd(t *testing.T) {
	t.Parallel()
	g := startBackends(t, "", limited, "", serve(t, readAll, nil))
	conn := dial(t, g.ports[80])
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("a", bodySize))
	go func() {
		for range time.NewTicker(time.Second).C {
			if _, err := io.WriteString(conn, strings.Repeat("a", 100)); err != nil {
				return
			}
		}
	}()
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.Do(t, err)
	_ = got.Body.Close()
	if got.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %d", got.StatusCode)
	}
}

// TestBodiesOfQuestionsThatNeverArrive: the Service is not asked, and the backend gets nothing.
func TestBodiesOfQuestionsThatNeverArrive(t *testing.T) {
	t.Parallel()
	a := startAuthBodies(t, "")
	for _, request := range []string{"Content-Length: 5\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"} {
		if got := newClient(t, a.ports[80]).send("POST /a HTTP/1.1\r\nHost: x\r\n" + request); got.Status != http.StatusRequestTimeout || len(a.asked)+len(a.web) > 0 {
			t.Errorf("got %d; the Service %d requests, the backend %d", got.Status, len(a.asked), len(a.web))
		}
	}
}
