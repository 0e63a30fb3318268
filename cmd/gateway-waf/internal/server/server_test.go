package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/cmd/gateway-waf/internal/server"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// serve runs a server with a judge, and returns how to ask it on a connection of its own. The answer is without its
// end, and "" if there is none.
func serve(t *testing.T, judge server.Judge) func(question string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "waf.sock")
	listener := must.Get(net.Listen("unix", socket))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- server.New(judge).Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func(question string) string {
		conn := must.Get(net.Dial("unix", socket))(t)
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, question); err != nil {
			return ""
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSuffix(line, "\n")
	}
}

// asked is a question about a request.
func asked(request string) string {
	return fmt.Sprintf("%d 7 %s\n%s", len(request), waf.Settings{Paranoia: 3, Threshold: 7}.Question(), request)
}

// TestServe: a judge gets the request of a question, and its verdict is the answer. Where there is none, a panic among
// it, the answer says so, since HAProxy would ask again. The next question has an answer all the same. What is no
// question has none.
func TestServe(t *testing.T) {
	t.Parallel()
	var got string
	ask := serve(t, func(settings waf.Settings, request *engine.Request) (engine.Verdict, error) {
		got = fmt.Sprintf("%+v %+v", settings, *request)
		switch request.URI {
		case "/panic":
			panic("judge")
		case "/fail":
			return engine.Verdict{}, errors.New("nobody can say")
		}
		return engine.Verdict{Denied: request.URI == "/deny", Score: 5, Rules: []int{1, 2}}, nil
	})
	const log = ` {"score":5,"rules":[1,2]}`
	for _, test := range []struct{ question, want string }{
		{asked("::1 - GET HTTP/1.1 /a\r\n\r\n"), "7 allow" + log},
		{asked("::1 - GET HTTP/1.1 /panic\r\n\r\n"), "7 failed"},
		{asked("::1 - GET HTTP/1.1 /fail\r\n\r\n"), "7 failed"},
		{asked("::1 - GET HTTP/1.1 /deny\r\n\r\n"), "7 deny" + log},
		{asked("::1 - GET HTTP/1.1\r\n\r\n"), "7 failed"},
		{asked("::1 - GET HTTP/1.1 /a b\r\n\r\n"), "7 failed"},
		{asked("::1 - GET HTTP/1.1 /a\r\nname\r\n\r\n"), "7 failed"},
		{asked("::1 - GET HTTP/1.1 /a\r\n: value\r\n\r\n"), "7 failed"},
		{asked("::1 - GET HTTP/1.1 /a\r\n"), "7 failed"},
		{"a b\n", ""}, {"-1 1 b\n", ""}, {"99999999999 1 /a\n", ""}, {"0 1 /not-base64!\n", ""}, {"0 1 /e30\n", ""}, {"0 a /e30\n", ""}, {"0 /e30\n", ""}, {strings.Repeat("1", 100_000), ""},
		{asked("10.0.0.1 shop POST HTTP/2.0 /a?b=c\r\nhost: x\r\na: 1: 2\r\na: \r\n\r\nbody\r\n\r\nrest"), "7 allow" + log},
	} {
		if answer := ask(test.question); answer != test.want {
			t.Errorf("%.80q: got %q, want %q", test.question, answer, test.want)
		}
	}
	want := fmt.Sprintf("%+v %+v", waf.Settings{Paranoia: 3, Threshold: 7}, engine.Request{
		Method: "POST", URI: "/a?b=c", Version: "HTTP/2.0", Client: "10.0.0.1",
		Headers: []engine.Header{{Name: "host", Value: "x"}, {Name: "a", Value: "1: 2"}, {Name: "a", Value: ""}}, Body: []byte("body\r\n\r\nrest"),
	})
	if got != want {
		t.Errorf("the judge got\n%s\nwant\n%s", got, want)
	}
}
