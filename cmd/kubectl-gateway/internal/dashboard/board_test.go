package dashboard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gateway/cmd/kubectl-gateway/internal/check"
	"gateway/internal/must"
)

// serve serves a board as the command does.
func serve(t *testing.T, b *board) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = guard(server.Listener.Addr().String(), b.handler())
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// reply is what a server answers.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask returns what a server answers to a request.
func ask(t *testing.T, server *httptest.Server, method, host, path string) reply {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, server.URL+path, nil))(t)
	request.Host = host
	response, err := server.Client().Do(request)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // all was read
	body := must.Get(io.ReadAll(response.Body))(t)
	return reply{response.StatusCode, response.Header, string(body)}
}

// still returns a board that shows the sample as it is, and cannot get anything newer.
func still(t *testing.T) *board {
	t.Helper()
	b := newBoard(func(context.Context) (*snapshot, error) { return nil, errors.New("etcd <is> down") }, "https://api.example.com:6443, all namespaces")
	b.add(sample(0))
	b.add(sample(10 * time.Second))
	return b
}

// TestPage asks for all that there is.
func TestPage(t *testing.T) {
	server := serve(t, still(t))
	page := ask(t, server, http.MethodGet, "", "/").body
	board := ask(t, server, http.MethodGet, "", "/board").body
	if !strings.Contains(page, board) || !strings.HasPrefix(page, "<!doctype html>") {
		t.Errorf("the page has not the board in it:\n%s", page)
	}
	for _, want := range []string{
		"https://api.example.com:6443, all namespaces", "<strong>1/2</strong><small>live in every proxy", "generation 12 is live in 2 proxies",
		"there is no Service team-blog/search: create", `payments/checkout<td>HTTPRoute<td>pay.example.com<td>True`, `feed<td>route in the Gateway`, `<td class="n">11 of 12`, "shop-gateway-6d4cf56db6-2x8xk",
		"shop_storefront_80", "https HTTPS:443", "listener ports or TLS settings changed", "2xx <b>93.0%</b>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	for path, kind := range map[string]string{"/style.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/icon.svg": "image/svg+xml"} {
		if got := ask(t, server, http.MethodGet, "", path); got.header.Get("Content-Type") != kind || len(got.body) < 100 {
			t.Errorf("%s: %d bytes of %q", path, len(got.body), got.header.Get("Content-Type"))
		}
	}
	if strings.Contains(page, "style=") || strings.Contains(page, "<script>") {
		t.Errorf("the page has styles or scripts within it, which its policy forbids:\n%s", page)
	}
}

// TestGuard: other names of this address, writes and other paths are refused, and every answer has the policy.
func TestGuard(t *testing.T) {
	server := serve(t, still(t))
	address := server.Listener.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	for _, test := range []struct {
		method, host, path string
		want               int
	}{
		{http.MethodGet, address, "/", http.StatusOK},
		{http.MethodGet, "localhost:" + port, "/board", http.StatusOK},
		{http.MethodGet, "attacker.example.com:" + port, "/", http.StatusMisdirectedRequest},
		{http.MethodGet, "attacker.example.com", "/board", http.StatusMisdirectedRequest},
		{http.MethodGet, "127.0.0.1", "/board", http.StatusMisdirectedRequest},
		{http.MethodPost, address, "/", http.StatusMethodNotAllowed},
		{http.MethodOptions, address, "/board", http.StatusMethodNotAllowed},
		{http.MethodDelete, address, "/board", http.StatusMethodNotAllowed},
		{http.MethodGet, address, "/assets/board.html", http.StatusNotFound},
		{http.MethodGet, address, "/nope", http.StatusNotFound},
	} {
		got := ask(t, server, test.method, test.host, test.path)
		if got.status != test.want {
			t.Errorf("%s %s of %s: %d, want %d", test.method, test.path, test.host, got.status, test.want)
		}
		if got.status != http.StatusOK && strings.Contains(got.body, "shop") {
			t.Errorf("%s %s of %s: a refusal has the page in it", test.method, test.path, test.host)
		}
		if !strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s of %s: headers %v", test.method, test.path, test.host, got.header)
		}
	}
}

// TestClusterGoesAway: what was seen last stays, with why there is nothing newer, as text.
func TestClusterGoesAway(t *testing.T) {
	b := still(t)
	b.asked = b.asked.Add(-2 * fresh)
	board := ask(t, serve(t, b), http.MethodGet, "", "/board").body
	for _, want := range []string{"The cluster cannot be read, this is of 09:00:10: etcd &lt;is&gt; down", "shop-gateway-6d4cf56db6-2x8xk"} {
		if !strings.Contains(board, want) {
			t.Errorf("the board has no %q:\n%s", want, board)
		}
	}
}

// TestReadsOnce: who asks at the same time as others gets what they get.
func TestReadsOnce(t *testing.T) {
	reads := 0
	b := newBoard(func(context.Context) (*snapshot, error) {
		reads++
		return sample(time.Minute), nil
	}, "")
	b.add(sample(0))
	b.asked = time.Now().Add(-2 * fresh)
	server := serve(t, b)
	done := make(chan struct{})
	for range 5 {
		go func() {
			defer func() { done <- struct{}{} }()
			ask(t, server, http.MethodGet, "", "/board")
		}()
	}
	for range 5 {
		<-done
	}
	if reads != 1 {
		t.Errorf("the cluster was read %d times", reads)
	}
}

// TestUnreachableProxies: a Gateway is not green while its proxies do not answer.
func TestUnreachableProxies(t *testing.T) {
	for _, test := range []struct {
		failures []string
		level    check.Level
		state    string
	}{
		{[]string{"", ""}, check.OK, "generation 1 is live in 2 proxies"},
		{[]string{"", "timeout"}, check.Warning, "1 of 2 proxies do not answer"},
		{[]string{"timeout", "timeout"}, check.Wrong, "2 of 2 proxies do not answer"},
	} {
		g := gatewayView{Namespace: "shop", Name: "shop", Level: check.OK, State: "generation 1 is live in 2 proxies"}
		var proxies []proxy
		for _, failure := range test.failures {
			proxies = append(proxies, proxy{failure: failure})
		}
		if g.addUnreachable(proxies); g.Level != test.level || g.State != test.state {
			t.Errorf("%q: %s, %q, want %s, %q", test.failures, g.Level, g.State, test.level, test.state)
		}
	}
}
