package dataplanetest_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
)

const authWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters:
            - type: ExternalAuth
              externalAuth:
                backendRef: {name: auth, port: 80}
                path: /check?a=b&c=%20
                requestHeaders: [Authorization, Cookie, X-Auth-Token]
                responseHeaders: [X-User, X-Group]
                timeout: 1s
            - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /missing}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: missing, port: 80}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /slow}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, forwardBody: {maxSize: 8192}, timeout: 1m}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /cors}}]
          filters:
            - {type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}}}
            - {type: CORS, cors: {allowOrigins: ["https://a.io"]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /moved}}]
          filters:
            - {type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [Authorization]}}
            - {type: RequestRedirect, requestRedirect: {hostname: new.io}}
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
`

// authorized are a gateway for authWorld, and what its Services get: each request as a text.
type authorized struct {
	*gateway
	web, asked chan string
}

// startAuth runs HAProxy for authWorld. The handler answers the questions.
func startAuth(t *testing.T, handler http.HandlerFunc) *authorized {
	t.Helper()
	a := &authorized{web: make(chan string, 10_000), asked: make(chan string, 10_000)}
	a.gateway = startServing(t, rendertest.Parse(t, authWorld), handlers{"web": record(a.web, nil), "auth": record(a.asked, handler)})
	return a
}

// byAuthorization answers a question as its Authorization says.
func byAuthorization(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Authorization") {
	case "good":
		w.Header().Add("X-User", "alice")
		w.Header().Add("X-Other", "not passed on")
		w.WriteHeader(http.StatusAccepted)
	case "two":
		w.Header().Add("X-Group", "one")
		w.Header().Add("X-Group", "two")
	case "login":
		w.Header().Set("Location", "https://login.example.com/?a=b")
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.WriteHeader(http.StatusFound)
	case "long":
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, strings.Repeat("a", 8192))
	case "too long":
		w.Header().Set("Content-Length", "8193")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, strings.Repeat("a", 8193))
	case "endless":
		w.WriteHeader(http.StatusForbidden)
		for range 1000 {
			_, _ = fmt.Fprint(w, strings.Repeat("a", 1000))
		}
	case "many headers":
		for i := range 90 {
			w.Header().Set(fmt.Sprint("X-Many-", i), strings.Repeat("a", 150))
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, strings.Repeat("a", 8000))
	case "cookies":
		w.Header().Add("Set-Cookie", "_oauth2_proxy_0=a; Path=/; HttpOnly")
		w.Header().Add("Set-Cookie", "_oauth2_proxy_1=b")
	case "broken":
		w.WriteHeader(http.StatusInternalServerError)
	case "late":
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Second):
		}
	case "cut":
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintln(w, "who are you?")
	}
}

// TestAuth: only an answer of 2xx lets a request through, and the client gets none of the others but 3xx and 4xx.
func TestAuth(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	c := newClient(t, a.ports[80])
	for _, step := range []struct {
		authorization string
		status        int
		want          string
	}{
		{"good", 200, ""},
		{"two", 200, ""},
		{"", 401, "who are you?\n"},
		{"login", 302, ""},
		{"long", 403, strings.Repeat("a", 8192)},
		{"too long", 503, ""},
		{"endless", 503, ""},
		{"broken", 503, ""},
		{"late", 503, ""},
		{"cut", 503, ""},
		{"good", 200, ""},
	} {
		got := c.send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: " + step.authorization + "\r\n\r\n")
		if got.Status != step.status || step.want != "" && got.Body != step.want {
			t.Errorf("%q: got %d %.100q, want %d", step.authorization, got.Status, got.Body, step.status)
		}
		if passed := len(a.web); passed != map[bool]int{true: 1}[step.status == 200] {
			t.Errorf("%q: the backend got %d requests", step.authorization, passed)
		}
		for len(a.web) > 0 {
			<-a.web
		}
	}
	if got := c.send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: many headers\r\n\r\n"); got.Status < 400 || len(a.web) > 0 {
		t.Errorf("an answer that finds no room let the request through: %d", got.Status)
	}
	for path, want := range map[string]int{"/missing": 503, "/open": 200, "/missing/x": 503, "/moved": 401} {
		if got := c.send(get("x", path)); got.Status != want {
			t.Errorf("%s: got %d, want %d", path, got.Status, want)
		}
	}
}

// TestQuestions: the Service gets what it has to know, and nothing that the client made up. So does the backend.
func TestQuestions(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	c := newClient(t, a.ports[80])
	c.send("POST /a%20b?c=d HTTP/1.1\r\nHost: Shop.example.com\r\nAuthorization: good\r\nCookie: a=b\r\nX-Secret: s\r\nX-User: mallory\r\nX-Group: admins\r\n" +
		"X-Forwarded-Uri: /open\r\nX-Forwarded-Method: GET\r\nX-Forwarded-User: root\r\nX-Auth-Token: t\r\n" +
		"Gateway-Auth-Backend: web_80\r\nGateway-Auth-Host: evil\r\nGateway-Auth-Filters: timeout=1\r\nContent-Length: 1\r\n\r\na")
	asked := next(t, a.asked)
	for _, want := range []string{
		"GET /check?a=b&c=%20\n", "Host: Shop.example.com\n", "Authorization: good\r\n", "Cookie: a=b\r\n", "X-Auth-Token: t\r\n",
		"X-Forwarded-Method: POST\r\n", "X-Forwarded-Uri: /a%20b?c=d\r\n", "X-Forwarded-Proto: http\r\n", "X-Forwarded-For: 127.0.0.1\r\n",
	} {
		if !strings.Contains(asked, want) {
			t.Errorf("the question lacks %q:\n%s", want, asked)
		}
	}
	for _, no := range []string{"Secret", "mallory", "Gateway-Auth", "root", "evil", "/open", "Content-Length", "Accept", "User-Agent"} {
		if strings.Contains(asked, no) {
			t.Errorf("the question has %q:\n%s", no, asked)
		}
	}
	got := next(t, a.web)
	if !strings.Contains(got, "X-User: alice\r\n") || strings.Contains(got, "mallory") || strings.Contains(got, "X-Group") || !strings.HasPrefix(got, "POST /new/a%20b?c=d\n") {
		t.Errorf("the backend got\n%s", got)
	}
	c.send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: two\r\nX-User: mallory\r\n\r\n")
	if got := next(t, a.web); !strings.Contains(got, "X-Group: one\r\nX-Group: two\r\n") || strings.Contains(got, "X-User") {
		t.Errorf("the backend got\n%s", got)
	}
}

// TestQuestionsWithoutHost: a question names no host that the request does not.
func TestQuestionsWithoutHost(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	for _, head := range []string{"GET /a HTTP/1.0\r\n", "GET /a HTTP/1.0\r\nGateway-Auth-Host: evil\r\n", "GET /a HTTP/1.1\r\nHost: \r\n"} {
		for authorization, status := range map[string]int{"good": 200, "": 401} {
			got := newClient(t, a.ports[80]).send(head + "Authorization: " + authorization + "\r\n\r\n")
			if asked := next(t, a.asked); got.Status != status || !strings.HasPrefix(asked, "GET /check?a=b&c=%20\nHost: \n") {
				t.Errorf("%q: got %d, want %d, after the question\n%s", head, got.Status, status, asked)
			}
		}
	}
}

// TestQuestionsAreNotLogged: the access log has a line for each request of a client, and nothing else.
func TestQuestionsAreNotLogged(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	for i := range 3 {
		newClient(t, a.ports[80]).send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: good\r\n\r\n")
		a.accessLog(t, i+1)
	}
	if log := a.Log(); strings.Contains(log, "<HTTPCLIENT>") || strings.Count(log, `"time"`) != 3 {
		t.Errorf("three requests are logged as\n%s", log)
	}
}

// TestCookiesOfAnswers: the client gets the cookies of an answer that lets a request through, beside the backend's
// cookies, also where HAProxy answers. The backend does not get them.
func TestCookiesOfAnswers(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	c := newClient(t, a.ports[80])
	cookies := []string{"_oauth2_proxy_0=a; Path=/; HttpOnly", "_oauth2_proxy_1=b"}
	for path, status := range map[string]int{"/a": 200, "/moved": 302} {
		got := c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: cookies\r\n\r\n")
		if got.Status != status || !slices.Equal(got.Header.Values("Set-Cookie"), cookies) {
			t.Errorf("%s: got %d with %q", path, got.Status, got.Header.Values("Set-Cookie"))
		}
	}
	if got := next(t, a.web); strings.Contains(got, "oauth2") {
		t.Errorf("the backend got\n%s", got)
	}
	if got := c.send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: good\r\n\r\n"); got.Header.Get("Set-Cookie") != "" {
		t.Errorf("the next request got the cookie %s", got.Header.Get("Set-Cookie"))
	}
}

// TestPreflightsAreNotAsked: browsers send them without credentials.
func TestPreflightsAreNotAsked(t *testing.T) {
	t.Parallel()
	a := startAuth(t, byAuthorization)
	c := newClient(t, a.ports[80])
	got := c.send("OPTIONS /cors HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: GET\r\n\r\n")
	if got.Status != 204 || len(a.asked) > 0 {
		t.Errorf("a preflight request got %d, after %d questions", got.Status, len(a.asked))
	}
	if got := c.send("GET /cors HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\n\r\n"); got.Status != 401 || got.Header.Get("Access-Control-Allow-Origin") != "https://a.io" {
		t.Errorf("got %d with %v, want 401 that the page may read", got.Status, got.Header)
	}
}

// TestAuthThatHangs: a Service that does not answer holds up so many requests, with their bodies, and no others.
func TestAuthThatHangs(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	ctx, release := context.WithCancel(t.Context())
	defer release()
	a := startAuth(t, func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-ctx.Done()
	})
	statuses, slow := make(chan int, 1500), "POST /slow HTTP/1.1\r\nHost: x\r\n"+ofLength(strings.Repeat("a", 8192))
	for range 1500 {
		go func() { statuses <- newClient(t, a.ports[80]).send(slow).Status }()
	}
	for range 1500 - 256 {
		if status := <-statuses; status != 503 {
			t.Fatalf("got %d, want 503", status)
		}
	}
	if got := newClient(t, a.ports[80]).send(get("x", "/open")); got.Status != 200 {
		t.Errorf("another rule got %d", got.Status)
	}
	release()
	passed := 0
	for range 256 {
		if <-statuses == 200 {
			passed++
		}
	}
	if n := int(asked.Load()); n == 0 || n != passed {
		t.Errorf("the Service was asked about %d requests, and %d passed", n, passed)
	}
}

// TestAuthOfClientsThatLeave: requests that clients cancel do not count any more, however many there were.
func TestAuthOfClientsThatLeave(t *testing.T) {
	t.Parallel()
	asked, left := make(chan struct{}), make(chan struct{})
	a := startAuth(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "good" {
			asked <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		}
	})
	h2 := http2Client(t)
	const each = 256
	ends := make(chan string, each)
	for range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		for range each {
			go func() {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/a", a.ports[80]), nil)
				got, err := h2.Do(r)
				if err != nil {
					ends <- err.Error()
					return
				}
				_ = got.Body.Close()
				ends <- got.Status
			}()
		}
		for range each {
			select {
			case <-asked:
			case got := <-ends:
				t.Fatalf("got %s before the Service was asked", got)
			}
		}
		cancel()
		for range each {
			<-ends
			<-left
		}
	}
	if got := newClient(t, a.ports[80]).send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: good\r\n\r\n"); got.Status != 200 {
		t.Errorf("got %d, want 200", got.Status)
	}
}

// TestAuthThatFails: requests are refused where the program makes a mistake, does not end or has no memory left. Others
// go on meanwhile, and those after them are asked about.
func TestAuthThatFails(t *testing.T) {
	t.Parallel()
	const mistakes = `
  local mistake = txn.f:req_fhdr("x-mistake")
  if mistake == "error" then error("as such") end
  while mistake == "endless" do end
  local all = {}
  while mistake == "memory" do all[#all + 1] = string.rep("a", 1000000) end
`
	a := startAuth(t, byAuthorization)
	a.Stop()
	files := haproxytest.ShowMatches(render.Render(a.in).AllFiles())
	for _, edit := range []struct{ file, before, after string }{
		{ir.AuthFile, "local function ask(txn)\n", mistakes},
		// By default, it is 4 s. Of two lines for one setting, the last one counts. To fill less memory takes less time.
		{ir.ConfigFile, "tune.lua.maxmem 128\n", "tune.lua.maxmem 32\ntune.lua.session-timeout 200ms\n"},
	} {
		content := strings.Replace(string(files[edit.file]), edit.before, edit.before+edit.after, 1)
		if content == string(files[edit.file]) {
			t.Fatalf("%s has no %q", edit.file, edit.before)
		}
		files[edit.file] = []byte(content)
	}
	a.Instance = haproxytest.Start(t, a.in.Paths, files)
	// A program that does not end keeps all others of its kind waiting, for longer than clients wait if there are several.
	for mistake, clients := range map[string]int{"error": 4, "endless": 1, "memory": 4} {
		statuses := make(chan int, clients)
		for range clients {
			go func() {
				statuses <- newClient(t, a.ports[80]).send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: good\r\nX-Mistake: " + mistake + "\r\n\r\n").Status
			}()
		}
		for range clients {
			if got := newClient(t, a.ports[80]).send(get("x", "/open")); got.Status != 200 {
				t.Errorf("%s: another rule got %d meanwhile", mistake, got.Status)
			}
		}
		for range clients {
			if status := <-statuses; status != 503 {
				t.Errorf("%s: got %d, want 503", mistake, status)
			}
		}
		if got := newClient(t, a.ports[80]).send("GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: good\r\nCookie: next=" + mistake + "\r\n\r\n"); got.Status != 200 {
			t.Errorf("%s: the next request got %d", mistake, got.Status)
		}
	}
	// A question may be repeated whose connection ends, but nothing is asked about the others.
	asked := map[string]bool{}
	for len(a.asked) > 0 {
		_, cookie, _ := strings.Cut(<-a.asked, "Cookie: ")
		cookie, _, _ = strings.Cut(cookie, "\n")
		asked[strings.TrimSpace(cookie)] = true
	}
	if want := []string{"next=endless", "next=error", "next=memory"}; !slices.Equal(slices.Sorted(maps.Keys(asked)), want) {
		t.Errorf("the Service was asked about %v, want %v", asked, want)
	}
}
