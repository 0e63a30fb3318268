package dataplanetest_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAnswersToQuestions: a refusal gets to the client as it is, however the Service sends it.
func TestAnswersToQuestions(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 500)
	a := startAuth(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Reason", " spaces  and: colons ")
		switch r.Header.Get("Authorization") {
		case "hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusForbidden)
		case "chunks":
			w.WriteHeader(http.StatusForbidden)
			for part := range strings.SplitSeq(body, "f") {
				_, _ = w.Write([]byte(part + "f"))
				_ = http.NewResponseController(w).Flush()
			}
		case "close":
			w.Header().Set("Connection", "close")
			http.Error(w, "no", http.StatusForbidden)
		case "good":
		}
	})
	client := newClient(t, a.ports[80])
	for range 2 {
		for name, want := range map[string]string{"hints": "", "chunks": body + "f", "close": "no\n", "good": ""} {
			got := client.send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: " + name + "\r\n\r\n")
			if name == "good" {
				if got.Status != 200 {
					t.Errorf("%s: got %d", name, got.Status)
				}
			} else if got.Status != 403 || got.Body != want || got.Header.Get("X-Reason") != "spaces  and: colons" {
				t.Errorf("%s: got %d %q %v", name, got.Status, got.Body, got.Header)
			}
		}
	}
}

// TestKeptConnectionsOfQuestions: one that ends between two questions is not noticed, and one that is not used ends.
func TestKeptConnectionsOfQuestions(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	ask := func() {
		t.Helper()
		if got := newClient(t, a.ports[80]).send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: good\r\n\r\n"); got.Status != 200 {
			t.Errorf("got %d", got.Status)
		}
	}
	kept := func() []string {
		return regexp.MustCompile(`(?m)^0x[0-9a-f]+(?:: proto=\?)`).FindAllString(a.Worker("show sess"), -1)
	}
	ask()
	connections := kept()
	if len(connections) != 1 {
		t.Errorf("%d connections are kept", len(connections))
	}
	for _, connection := range connections {
		a.Worker("shutdown session " + strings.TrimSuffix(connection, ": proto=?"))
	}
	ask()
	eventually(t, "no connection is kept", func() bool { return len(kept()) == 0 })
	ask()
}

// TestQuestionsAreSentOnce: whatever their answers are, and over connections that are kept, too. A Service that issues
// something once may not be asked again, and a client would wait as often as connections are kept.
func TestQuestionsAreSentOnce(t *testing.T) {
	t.Parallel()
	const refused, clients = "HTTP/1.1 403 Forbidden\r\n", 8
	begins := map[string]string{
		"hints": "HTTP/1.1 103 Early Hints\r\n\r\n", "length": refused + "Content-Length: 9\r\n\r\na", "chunk": refused + "Transfer-Encoding: chunked\r\n\r\n9\r\na",
		"slow": refused + "Content-Length: 1000\r\n\r\n",
	}
	var begun sync.WaitGroup
	a := startAuth(t, func(w http.ResponseWriter, r *http.Request) {
		kind := r.Header.Get("Authorization")
		if kind == "" {
			begun.Done()
			begun.Wait()
			return
		}
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = connection.Close() }()
		_, err = connection.Write([]byte(begins[kind]))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for kind == "slow" && err == nil {
			<-tick.C
			_, err = connection.Write([]byte("a"))
		}
	})
	ask := func(kind string) int {
		return newClient(t, a.ports[80]).send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + kind + "\r\n\r\n").Status
	}
	for _, kind := range []string{"hints", "length", "chunk", "slow"} {
		begun.Add(clients)
		var all sync.WaitGroup
		for range clients {
			all.Go(func() { ask("") })
		}
		all.Wait()
		for len(a.asked) > 0 {
			<-a.asked
		}
		if got := ask(kind); got != 503 || len(a.asked) != 1 {
			t.Errorf("%s: got %d, and the Service was asked %d times", kind, got, len(a.asked))
		}
	}
}
