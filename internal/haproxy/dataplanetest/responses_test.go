package dataplanetest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
)

const responsesWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: other, port: 81, protocol: HTTP}]
  cache: {sizeMiB: 4, maxObjectBytes: 100000}
  trustedProxies: [127.0.0.0/8]
  routes:
    - name: r
      rules:
        - {matches: [{path: {value: /a}}], filters: [{type: Cache, cache: {}}], backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {value: /a}, headers: [{name: X-V, value: two}]}], filters: [{type: Cache, cache: {}}], backendRefs: [{name: two, port: 80}]}
        - {matches: [{path: {value: /a}, headers: [{name: X-V, value: plain}]}], backendRefs: [{name: one, port: 80}]}
        - matches: [{path: {value: /some}}]
          filters: [{type: Cache, cache: {}}, {type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /few}}]
          filters: [{type: Cache, cache: {}}, {type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour, key: {type: Rule}}]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /rewritten}}]
          filters: [{type: Cache, cache: {}}, {type: URLRewrite, urlRewrite: {hostname: x, path: {type: ReplacePrefixMatch, replacePrefixMatch: /a}}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /headers}}]
          filters:
            - {type: Cache, cache: {}}
            - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: Cache-Control, value: "s-maxage=30"}], add: [{name: X-Added, value: one}]}}
            - {type: CORS, cors: {allowOrigins: ["https://a.io", "https://b.io"]}}
          backendRefs: [{name: one, port: 80}]
        - {matches: [{path: {value: /session}}], filters: [{type: Cache, cache: {}}], sessionPersistence: {}, backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {value: /own}}], filters: [{type: Cache, cache: {}}, {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Authorization, value: a}]}}], backendRefs: [{name: one, port: 80}]}
backends: [{service: one, port: 80}, {service: two, port: 80}]
`

// origin answers with the headers of the parameters h, and with a text that tells which request it answers.
type origin struct {
	name  string
	count atomic.Int32
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for _, header := range query["h"] {
		if r.Method == http.MethodPost {
			break
		}
		name, value, _ := strings.Cut(header, ": ")
		w.Header().Add(name, value)
	}
	if query.Has("cut") {
		w.Header().Set("Content-Length", "1000")
	}
	if query.Get("status") != "" {
		w.WriteHeader(http.StatusNotFound)
	}
	body, _ := io.ReadAll(r.Body)
	text := fmt.Sprintf("%s %d %s%s %s%s", o.name, o.count.Add(1), r.Host, r.RequestURI, r.Header.Get("X-Forwarded-Host"), body)
	_, _ = io.WriteString(w, text)
	if size := len(query.Get("size")); size > 0 {
		_, _ = io.WriteString(w, strings.Repeat("a", size*20000))
	}
}

// storing is a gateway that stores answers, of origins.
type storing struct {
	*gateway
	t        *testing.T
	one, two *origin
}

func startStoring(t *testing.T, world string) storing {
	t.Helper()
	s := storing{t: t, one: &origin{name: "one"}, two: &origin{name: "two"}}
	s.gateway = startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
		for _, o := range []*origin{s.one, s.two} {
			in.Backends[routing.Backend{Service: o.name, Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{serve(t, o.ServeHTTP, nil)}}
		}
	})
	return s
}

// target returns a path with a query that makes an origin answer with headers.
func target(path string, headers ...string) string {
	return path + "?" + url.Values{"h": headers}.Encode()
}

// ask sends a request with headers, which end in line breaks.
func (s storing) ask(request, headers string) answer {
	s.t.Helper()
	if !strings.HasPrefix(headers, "Host: ") {
		headers = "Host: x\r\n" + headers
	}
	return newClient(s.t, s.ports[80]).send(request + " HTTP/1.1\r\n" + headers + "\r\n")
}

// stores reports whether the second of two requests gets the answer to the first.
func (s storing) stores(path, first, second string) bool {
	s.t.Helper()
	before := s.ask("GET "+path, first)
	after := s.ask("GET "+path, second)
	isStored := after.Header.Get("Age") != ""
	if before.Status != http.StatusOK && before.Status != http.StatusNotFound || after.Status != before.Status || isStored != (before.Body == after.Body) {
		s.t.Errorf("%s: the answers are %d %q and %d %q, of age %q", path, before.Status, before.Body, after.Status, after.Body, after.Header.Get("Age"))
	}
	return isStored
}

const public = "Cache-Control: public, max-age=30"

// TestWhatIsStored: an answer is stored if its headers allow it for all users, and nothing forbids it.
func TestWhatIsStored(t *testing.T) {
	t.Parallel()
	s := startStoring(t, responsesWorld)
	for i, test := range []struct {
		want    bool
		headers []string
	}{
		{true, []string{public}},
		{true, []string{"Cache-Control: s-maxage=30"}},
		{true, []string{"Cache-Control: max-age=0, s-maxage=30"}},
		{true, []string{"cache-control: PUBLIC", "Cache-Control: Max-Age=30"}},
		{true, []string{public + ", must-revalidate"}},
		{false, nil},
		{false, []string{`ETag: "1"`}},
		{false, []string{"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"}},
		{false, []string{"Expires: Thu, 01 Jan 2099 00:00:00 GMT"}},
		{false, []string{"Cache-Control: max-age=30"}},
		{false, []string{"Cache-Control: public", `ETag: "1"`}},
		{false, []string{"Cache-Control: private, public, max-age=30"}},
		{false, []string{public, "Cache-Control: private"}},
		{false, []string{`Cache-Control: private="x", s-maxage=30`}},
		{false, []string{"Cache-Control: no-store, public, max-age=30"}},
		{false, []string{"Cache-Control: NO-CACHE, public, max-age=30"}},
		{false, []string{"Cache-Control: s-maxage=0, public, max-age=30"}},
		{false, []string{"Cache-Control: s-maxage=00, public, max-age=30"}},
		{false, []string{"Cache-Control: public, max-age=0"}},
		{false, []string{"Cache-Control: public, max-age=00"}},
		{false, []string{`Cache-Control: public, max-age="0"`}},
		{false, []string{public, "Pragma: no-cache"}},
		{false, []string{public, "Set-Cookie: a=b"}},
		{false, []string{public, "Vary: Cookie"}},
		{false, []string{public, "Vary: Accept-Encoding, X-User"}},
		{false, []string{public, "Vary: *"}},
	} {
		if got := s.stores(target(fmt.Sprint("/a/", i), test.headers...), "", ""); got != test.want {
			t.Errorf("%q: stored is %t, want %t", test.headers, got, test.want)
		}
	}
	for query, want := range map[string]bool{"status=404": false, "size=a": true, "size=aaaaaaaa": false} {
		if got := s.stores(target("/a", public)+"&"+query, "", ""); got != want {
			t.Errorf("%s: stored is %t, want %t", query, got, want)
		}
	}
	for range 2 {
		if got, err := newClient(t, s.ports[80]).try(get("x", target("/a", public)+"&cut=1")); err == nil {
			t.Errorf("an answer that was cut off is %q", got.Body)
		}
	}
}

// TestAgeOfStoredAnswers: an answer from another cache is stored for what is left of its lifetime, and clients see all
// of its age.
func TestAgeOfStoredAnswers(t *testing.T) {
	t.Parallel()
	s := startStoring(t, responsesWorld)
	for i, test := range []struct {
		want    bool
		age     string
		control []string
	}{
		{true, "0", []string{"public, max-age=900"}},
		{true, "5", []string{"public, max-age=900"}},
		{true, "800", []string{"max-age=900, public"}},
		{true, "400", []string{"s-maxage=900, max-age=300"}},
		{true, "400", []string{"PUBLIC", "max-age=300, S-MaxAge=900", "must-revalidate"}},
		{false, "400", []string{"s-maxage=300, max-age=900"}},
		{false, "900", []string{"public, max-age=900"}},
		{false, "1000", []string{"public, max-age=900"}},
		{false, "-1", []string{"public, max-age=900"}},
		{false, "5, 6", []string{"public, max-age=900"}},
		{false, "", []string{"public, max-age=900"}},
		{false, "99999999999999999999", []string{"public, max-age=900"}},
		{false, "5", []string{"public, max-age=900, private"}},
	} {
		headers := []string{"Age: " + test.age}
		for _, line := range test.control {
			headers = append(headers, "Cache-Control: "+line)
		}
		path := target(fmt.Sprint("/a/", i), headers...)
		first, second := s.ask("GET "+path, ""), s.ask("GET "+path, "")
		if got := first.Body == second.Body; got != test.want {
			t.Errorf("%q: stored is %t, want %t", headers, got, test.want)
		}
		for _, got := range []answer{first, second} {
			if !slices.Equal(got.Header["Cache-Control"], test.control) || len(got.Header["Age"]) != 1 || !test.want && got.Header.Get("Age") != test.age {
				t.Errorf("%q: got %v", headers, got.Header)
			}
		}
		before, _ := strconv.Atoi(test.age)
		now, err := strconv.Atoi(second.Header.Get("Age"))
		if test.want && (err != nil || first.Header.Get("Age") != test.age || now < before || now > before+60) {
			t.Errorf("%q: the ages are %s and %s", headers, first.Header.Get("Age"), second.Header.Get("Age"))
		}
	}
	// HAProxy keeps answers for a minute here. This one may be kept for a second, and the loop ends when it is gone.
	c, request, start := newClient(t, s.ports[80]), get("x", target("/a/old", "Age: 899", "Cache-Control: s-maxage=900")), time.Now()
	for first := c.send(request); c.send(request).Body == first.Body; {
		if time.Since(start) > 30*time.Second {
			t.Fatal("an answer is used beyond its lifetime")
		}
	}
}

// TestWhoGetsWhatIsStored: nobody gets what was stored of another request that the backend could answer otherwise.
func TestWhoGetsWhatIsStored(t *testing.T) {
	t.Parallel()
	s := startStoring(t, responsesWorld)
	gzip, origin := []string{public, "Vary: Accept-Encoding", "Content-Encoding: gzip"}, []string{public, "Vary: Origin"}
	for i, test := range []struct {
		want          bool
		headers       []string
		first, second string
	}{
		{true, nil, "Cookie: a=1\r\n", "Cookie: a=2\r\n"},
		{false, nil, "Authorization: a\r\n", ""},
		{false, nil, "", "AUTHORIZATION: a\r\n"},
		{false, nil, "Cache-Control: max-age=9, no-store\r\n", ""},
		{true, nil, "Cache-Control: no-cache\r\n", ""},
		{false, nil, "", "Cache-Control: no-cache\r\n"},
		{false, nil, "Content-Length: 4\r\n\r\nevil", ""},
		{false, nil, "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n", ""},
		{false, nil, "Host: x\r\n", "Host: y\r\n"},
		{false, nil, "Host: x\r\n", "Host: x:80\r\n"},
		{false, nil, "X-V: two\r\n", ""},
		{false, nil, "", "X-V: two\r\n"},
		{true, nil, "X-V: two\r\n", "X-V: two\r\n"},
		{false, nil, "", "X-V: plain\r\n"},
		{false, nil, "X-V: plain\r\n", ""},
		// The gateway trusts who sends these, and who it is sends on what it got.
		{false, nil, "X-Forwarded-Host: evil\r\n", ""},
		{false, nil, "X-Forwarded-Host: evil\r\nX-Forwarded-Host: x\r\n", "X-Forwarded-Host: x\r\n"},
		{false, nil, "X-Forwarded-Proto: https\r\n", ""},
		{false, nil, "X-Forwarded-Port: 1\r\n", ""},
		{false, nil, "X-Forwarded-Prefix: /evil\r\n", ""},
		{false, nil, "Front-End-Https: on\r\n", ""},
		{false, nil, "Forwarded: host=evil\r\n", ""},
		{false, nil, "Host: x\r\nX-Forwarded-Host: x\r\n", "Host: y\r\nX-Forwarded-Host: x\r\n"},
		{true, nil, "X-Forwarded-For: 10.0.0.1\r\n", "X-Forwarded-For: 10.0.0.2\r\n"},
		{false, gzip, "Accept-Encoding: gzip\r\n", ""},
		{false, gzip, "Accept-Encoding: gzip\r\n", "Accept-Encoding: br\r\n"},
		{true, gzip, "Accept-Encoding: gzip\r\n", "Accept-Encoding: br, gzip;q=0.5\r\n"},
		{false, origin, "Origin: https://a.io\r\n", "Origin: https://b.io\r\n"},
		{true, origin, "Origin: https://a.io\r\n", "Origin: https://a.io\r\n"},
	} {
		if test.headers == nil {
			test.headers = []string{public}
		}
		if got := s.stores(target(fmt.Sprint("/a/", i), test.headers...), test.first, test.second); got != test.want {
			t.Errorf("%q, then %q, with %q: stored is %t, want %t", test.first, test.second, test.headers, got, test.want)
		}
	}
	if s.stores(target("/own", public), "", "") {
		t.Error("an answer was stored though a filter sets Authorization")
	}
}

// TestNothingIsSharedByPortsAndPaths: nor what was stored for another rule, port or spelling of the path.
func TestNothingIsSharedByPortsAndPaths(t *testing.T) {
	t.Parallel()
	s := startStoring(t, responsesWorld)
	// The backend of both gets the same Host, path and query.
	path := target("/a/rewritten", public)
	s.ask("GET "+path, "")
	if got := s.ask("GET /rewritten"+strings.TrimPrefix(path, "/a"), "Host: y\r\n"); got.Header.Get("Age") != "" || !strings.HasSuffix(got.Body, " x"+path+" y") {
		t.Errorf("a rule that rewrites: got %q, of age %q", got.Body, got.Header.Get("Age"))
	}
	s.ask("GET "+path, "X-Forwarded-Port: 80\r\n")
	got := newClient(t, s.ports[81]).send("GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-Port: 80\r\n\r\n")
	if got.Header.Get("Age") != "" {
		t.Errorf("a request to another port got %q, of age %q", got.Body, got.Header.Get("Age"))
	}
	for _, other := range []string{path + "&more", strings.Replace(path, "/a/", "/%61/", 1), strings.Replace(path, "/a/", "//a/", 1)} {
		if got := s.ask("GET "+other, ""); got.Header.Get("Age") != "" {
			t.Errorf("%s got %q, of age %s", other, got.Body, got.Header.Get("Age"))
		}
	}
}

// TestStoredAnswersPassFilters: what a rule does with requests and answers is done, too, if the answer is stored.
func TestStoredAnswersPassFilters(t *testing.T) {
	t.Parallel()
	s := startStoring(t, responsesWorld)
	if path := target("/some", public); !s.stores(path, "", "X-Forwarded-For: 198.51.100.1\r\n") {
		t.Error("a client with access did not get what is stored")
	} else if got := s.ask("GET "+path, "X-Forwarded-For: 192.0.2.1\r\n"); got.Status != http.StatusForbidden {
		t.Errorf("a client without access got %d %q", got.Status, got.Body)
	}
	path := target("/few", public)
	if !s.stores(path, "", "") || s.ask("GET "+path, "").Status != http.StatusTooManyRequests {
		t.Error("requests that are answered from what is stored do not count")
	}
	path = target("/headers", `ETag: "1"`, "Access-Control-Allow-Origin: https://evil.io")
	for i, origin := range []string{"https://a.io", "https://b.io", "https://evil.io"} {
		got := s.ask("GET "+path, "Origin: "+origin+"\r\n")
		if allowed := got.Header.Get("Access-Control-Allow-Origin"); allowed != origin && i < 2 || allowed != "" && i == 2 {
			t.Errorf("Access-Control-Allow-Origin for %s is %s", origin, allowed)
		}
		if is := got.Header.Get("Age") != ""; is != (i > 0) || len(got.Header["X-Added"]) != 1 {
			t.Errorf("%s: stored is %t, with %v", origin, is, got.Header)
		}
	}
	if got := s.ask("GET "+path, "If-None-Match: W/\"0\", \"1\"\r\n"); got.Status != http.StatusNotModified || got.Body != "" {
		t.Errorf("a client that has the answer got %d %q", got.Status, got.Body)
	}
	if got := s.ask("HEAD "+path, ""); got.Header.Get("Age") == "" || got.Body != "" {
		t.Errorf("HEAD got %v", got)
	}
	if got := s.ask("GET "+path, "Range: bytes=0-1\r\n"); got.Status != http.StatusOK || got.Header.Get("Age") == "" {
		t.Errorf("a request for a range got %d, %v", got.Status, got.Header)
	}
	path = target("/session", public)
	first, second := s.ask("GET "+path, ""), s.ask("GET "+path, "")
	if first.Header.Get("Set-Cookie") == "" || second.Header.Get("Set-Cookie") != "" || second.Header.Get("Age") == "" {
		t.Errorf("the cookie of a session: got %v, then %v", first.Header, second.Header)
	}
	path = target("/a/changed", public)
	s.ask("GET "+path, "")
	if got := s.ask("POST "+path, "Authorization: a\r\nContent-Length: 1\r\n\r\na"); got.Header.Get("Age") != "" {
		t.Errorf("POST got what is stored")
	}
	if got := s.ask("GET "+path, ""); got.Header.Get("Age") != "" {
		t.Errorf("after a POST, what was stored before is still used")
	}
	if !strings.Contains(strings.Join(s.accessLog(t, 1), "\n"), `"server":"<CACHE>"`) {
		t.Error("the access log does not tell what was stored")
	}
}

// lateBody is a body that calls a function before it begins.
type lateBody struct {
	io.Reader
	before func()
	once   sync.Once
}

func (b *lateBody) Read(p []byte) (int, error) {
	b.once.Do(b.before)
	return b.Reader.Read(p)
}

// TestStoringOverHTTP2: what is stored over HTTP/2 is found again, and the backend gets the Host of the client. A body
// whose length shows only when it comes counts as one.
func TestStoringOverHTTP2(t *testing.T) {
	t.Parallel()
	s := startStoring(t, responsesWorld)
	h2 := http2Client(t)
	ask := func(path string, body io.Reader) (string, bool) {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", s.ports[80], path), body))(t)
		request.Host = "x"
		response, err := h2.Do(request)
		must.Do(t, err)
		content, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return string(content), response.Header.Get("Age") != ""
	}
	path := target("/a", public)
	for i := range 2 {
		if got, isStored := ask(path, nil); isStored != (i > 0) || got != "one 1 x"+path+" x" {
			t.Errorf("request %d: got %q, stored is %t", i, got, isStored)
		}
	}
	// HAProxy gets the body after it has answered another request of the connection.
	fat := target("/a/fat", public)
	body := &lateBody{Reader: strings.NewReader("evil"), before: func() { ask(path, nil) }}
	if got, _ := ask(fat, body); !strings.HasSuffix(got, "evil") {
		t.Errorf("the backend got no body: %q", got)
	}
	if got, isStored := ask(fat, nil); isStored {
		t.Errorf("the answer to a request with a body is stored: %q", got)
	}
}

// TestStoredAnswersAreCompressed: what is stored is what the backend sent, and compressed for those who accept it,
// however short it is.
func TestStoredAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	s := startStoring(t, strings.Replace(responsesWorld, "spec:\n", "spec:\n  compression: {contentTypes: [text/plain], minBytes: 1000}\n", 1))
	for _, size := range []string{"", "a", "aa"} {
		path := target("/a/"+size, public) + "&size=" + size
		for i, accepted := range []string{"gzip", "identity", "gzip", "identity"} {
			got := s.ask("GET "+path, "Accept-Encoding: "+accepted+"\r\n")
			isCompressed := got.Header.Get("Content-Encoding") == "gzip"
			if isCompressed != (accepted == "gzip" && (size != "" || i > 0)) || size != "" && isCompressed != (len(got.Body) < 1000) || (got.Header.Get("Age") != "") != (i > 0) {
				t.Errorf("request %d for size %q: got %d bytes with %v", i, size, len(got.Body), got.Header)
			}
		}
	}
}

// TestStoringOfNewBackends: answers of a backend that is added while HAProxy runs are stored. An edited rule does not
// get the answers that were stored for the earlier rule.
func TestStoringOfNewBackends(t *testing.T) {
	t.Parallel()
	world := strings.ReplaceAll(responsesWorld, "name: two, port: 80}]}", "name: one, port: 80}]}")
	s := startStoring(t, world)
	path := target("/a", public)
	if !s.stores(path, "", "") {
		t.Fatal("nothing is stored")
	}
	three := &origin{name: "three"}
	edited := s.in
	edited.Backends[routing.Backend{Service: "three", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{serve(t, three.ServeHTTP, nil)}}
	before := render.Render(s.in)
	w := rendertest.Parse(t, strings.Replace(world, "name: one, port: 80}]}", "name: three, port: 80}]}", 1))
	for i := range w.Spec.Listeners {
		w.Spec.Listeners[i].Port = s.ports[w.Spec.Listeners[i].Port]
	}
	edited.Table = w.Input(t).Table
	s.change(t, plan.Diff(render.Render(edited), before), func() {})
	for i := range 2 {
		got := s.ask("GET "+path, "")
		if is := got.Header.Get("Age") != ""; is != (i > 0) || !strings.HasPrefix(got.Body, "three 1 ") {
			t.Errorf("request %d: got %q, stored is %t", i, got.Body, is)
		}
	}
}
