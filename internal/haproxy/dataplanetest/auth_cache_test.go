package dataplanetest_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

const authCacheWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - matches: [{path: {value: /all}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, cache: {maxAgeSeconds: 300}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /body}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, forwardBody: {maxSize: 100}, cache: {maxAgeSeconds: 300}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /key}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, KEY}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /other}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, KEY}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /unsent}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, cache: {key: {headers: [X-Forwarded-Proto, Host, X-Unsent, Gateway-Room]}}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /durations}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, cache: {durations: [{statuses: [200, 401], seconds: 60}, {statuses: [200, 404], seconds: 120}]}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /second}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, cache: {maxAgeSeconds: 1}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT, cache: {maxAgeSeconds: 300}}}]
          shadow: [ExternalAuth]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /off}}]
          filters: [{type: ExternalAuth, externalAuth: {SENT}}]
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
`

// startAuthCache runs HAProxy for authCacheWorld. The handler answers the questions.
func startAuthCache(t *testing.T, handler http.HandlerFunc) *authorized {
	t.Helper()
	world := strings.NewReplacer("SENT", "backendRef: {name: auth, port: 80}, requestHeaders: [Authorization, Cookie, X-Tenant], responseHeaders: [X-User]",
		"KEY", "forwardBody: {maxSize: 100}, cache: {key: {headers: [X-Tenant], cookies: [session, id]}}").Replace(authCacheWorld)
	a := &authorized{web: make(chan string, 10_000), asked: make(chan string, 10_000)}
	a.gateway = startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
		counted := func(w http.ResponseWriter, r *http.Request) {
			a.asked <- r.RequestURI
			handler(w, r)
		}
		serveAll(t, in, handlers{"web": record(a.web, nil), "auth": counted})
	})
	return a
}

// byQuery answers a question as the query of the request says: with the headers h and the status s. X-User is other for
// each answer.
func byQuery() http.HandlerFunc {
	answers := 0
	return func(w http.ResponseWriter, r *http.Request) {
		answers++
		asked, _ := url.Parse(r.Header.Get("X-Forwarded-Uri"))
		for _, header := range asked.Query()["h"] {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Add(name, value)
		}
		w.Header().Set("X-User", fmt.Sprint("user", answers))
		status := 200
		_, _ = fmt.Sscan(asked.Query().Get("s"), &status)
		w.WriteHeader(status)
		if status > 299 {
			_, _ = fmt.Fprint(w, "because of ", answers)
		}
	}
}

// askedFor returns the path of a request whose answer has a status and headers.
func askedFor(path string, status int, headers ...string) string {
	return path + "?" + url.Values{"s": {fmt.Sprint(status)}, "h": headers}.Encode()
}

const minute = "Cache-Control: max-age=60"

// unsigned returns a JSON Web Token that nobody has signed.
func unsigned(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + ".c2ln"
}

var anHourAgo, inAnHour = time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()

// keptAnswers are requests, and whether the answers about them are kept.
var keptAnswers = []struct {
	name, path, headers string
	isKept              bool
}{
	{"an answer that lets through", askedFor("/all", 200, minute), "", true},
	{"one with a body that is dropped", askedFor("/all", 202, minute), "", true},
	{"a refusal", askedFor("/all", 403, minute), "", true},
	{"a redirect", askedFor("/all", 302, minute, "Location: https://login.example.com/"), "", true},
	{"an error", askedFor("/all", 500, minute), "", false},
	{"an error that durations cannot name", askedFor("/durations", 503), "", false},
	{"s-maxage", askedFor("/all", 200, "Cache-Control: s-maxage=60"), "", true},
	{"capitals and quotes", askedFor("/all", 200, `Cache-Control: PUBLIC, Max-Age="60"`), "", true},
	{"nothing said", askedFor("/all", 200), "", false},
	{"no time", askedFor("/all", 200, "Cache-Control: max-age=0"), "", false},
	{"the shorter one", askedFor("/all", 200, "Cache-Control: max-age=60, s-maxage=0"), "", false},
	{"the shorter one comes first", askedFor("/all", 200, "Cache-Control: max-age=0, s-maxage=60"), "", false},
	{"two that differ", askedFor("/all", 200, minute, "Cache-Control: max-age=0"), "", false},
	{"no number", askedFor("/all", 200, "Cache-Control: max-age=60s"), "", false},
	{"less than none", askedFor("/all", 200, "Cache-Control: max-age=-60"), "", false},
	{"no-store", askedFor("/all", 200, "Cache-Control: no-store, max-age=60"), "", false},
	{"no-cache", askedFor("/all", 200, minute, "Cache-Control: No-Cache"), "", false},
	{"private", askedFor("/all", 200, `Cache-Control: private="x", max-age=60`), "", false},
	{"a cookie", askedFor("/all", 200, minute, "Set-Cookie: a=b"), "", false},
	{"a refusal with a cookie", askedFor("/all", 401, minute, "Set-Cookie: a=b"), "", false},
	{"another time for nginx", askedFor("/all", 200, minute, "X-Accel-Expires: 0"), "", false},
	{"an age", askedFor("/all", 200, minute, "Age: 5"), "", true},
	{"too old", askedFor("/all", 200, minute, "Age: 60"), "", false},
	{"an age that is no number", askedFor("/all", 200, minute, "Age: new"), "", false},
	{"it varies by what is sent", askedFor("/all", 200, minute, "Vary: Cookie, X-Tenant"), "", true},
	{"it varies by anything", askedFor("/all", 200, minute, "Vary: *"), "", false},
	{"too long", askedFor("/all", 403, minute, "X-Long: "+strings.Repeat("a", 2000), "X-Longer: "+strings.Repeat("a", 6000)), "", false},
	{"a token that lives", askedFor("/all", 200, minute), fmt.Sprintf("Authorization: Bearer %s\r\n", unsigned(fmt.Sprintf(`{"exp":%d}`, inAnHour))), true},
	{"a token without an end", askedFor("/all", 200, minute), fmt.Sprintf("Authorization: Bearer %s\r\n", unsigned(`{"sub":"a"}`)), true},
	{"a token that does not live any more", askedFor("/all", 200, minute), fmt.Sprintf("Authorization: Bearer %s\r\n", unsigned(fmt.Sprintf(`{"exp":%d}`, anHourAgo))), false},
	{"such a token in a cookie", askedFor("/all", 200, minute), fmt.Sprintf("Cookie: a=b; session=%s; c=d\r\n", unsigned(fmt.Sprintf(`{"exp":%d.5}`, anHourAgo))), false},
	{"a token whose end is no number", askedFor("/all", 200, minute), fmt.Sprintf("Cookie: session=%s\r\n", unsigned(`{"exp":"never"}`)), false},
	{"a part of what is sent", askedFor("/key", 200, minute), "X-Tenant: shop\r\n", true},
	{"a cookie among others", askedFor("/key", 200, minute), "Cookie: a=b; session=1; c=d\r\n", true},
	{"Authorization", askedFor("/key", 200, minute), "Authorization: me\r\n", true},
	{"none of the parts", askedFor("/key", 200, minute), "Cookie: a=b\r\n", false},
	{"parts without a value", askedFor("/key", 200, minute), "Cookie: session=; id\r\nX-Tenant: \r\nAuthorization:\r\n", false},
	{"it varies by another part", askedFor("/key", 200, minute, "Vary: Cookie"), "X-Tenant: shop\r\n", false},
	{"it varies by the part", askedFor("/key", 200, minute, "Vary: X-Tenant, Host, Authorization"), "X-Tenant: shop\r\n", true},
	{"parts that are not sent", askedFor("/unsent", 200, minute), "X-Unsent: a\r\nGateway-Room: b\r\n", false},
	{"by its status", askedFor("/durations", 200), "", true},
	{"a refusal by its status", askedFor("/durations", 401), "", true},
	{"in a second list", askedFor("/durations", 404), "", true},
	{"another status", askedFor("/durations", 403), "", false},
	{"it says more than its status", askedFor("/durations", 200, "Cache-Control: must-revalidate"), "", false},
	{"it expires", askedFor("/durations", 200, "Expires: Thu, 01 Dec 1994 16:00:00 GMT"), "", false},
	{"in shadow", askedFor("/shadow", 403, minute), "", true},
	{"off", askedFor("/off", 200, minute), "", false},
}

// TestKeptAnswers: an answer is kept if the rule and the answer say so, and only then.
func TestKeptAnswers(t *testing.T) {
	t.Parallel()
	a := startAuthCache(t, byQuery())
	c := newClient(t, a.ports[80])
	for _, test := range keptAnswers {
		request := "GET " + test.path + " HTTP/1.1\r\nHost: " + strings.ReplaceAll(test.name, " ", "-") + "\r\n" + test.headers + "\r\n"
		first, second := c.send(request), c.send(request)
		if asked := len(a.asked); asked != 2-map[bool]int{true: 1}[test.isKept] {
			t.Errorf("%s: the Service was asked %d times", test.name, asked)
		}
		location := first.Header.Get("Location")
		if first.Status != second.Status || test.isKept && first.Body != second.Body || location != second.Header.Get("Location") {
			t.Errorf("%s: got %d %q at %q, then %d %q at %q", test.name, first.Status, first.Body, location, second.Status, second.Body, second.Header.Get("Location"))
		}
		if len(a.web) == 2 {
			first, second := user(<-a.web), user(<-a.web)
			if (first == second) != test.isKept && !strings.HasPrefix(test.path, "/shadow") {
				t.Errorf("%s: the backend got %s and %s", test.name, first, second)
			}
		}
		for len(a.asked) > 0 {
			<-a.asked
		}
	}
}

// user returns the X-User of a request that a Service got.
func user(request string) string {
	_, after, _ := strings.Cut(request, "X-User: ")
	name, _, _ := strings.Cut(after, "\r\n")
	return name
}

// TestKeptAnswersEnd: a kept answer ends with its time, with the rule's, with an edit of the rule and with the process.
func TestKeptAnswersEnd(t *testing.T) {
	t.Parallel()
	a := startAuthCache(t, byQuery())
	c := newClient(t, a.ports[80])
	for name, path := range map[string]string{"the answer's": askedFor("/all", 200, "Cache-Control: max-age=1"), "the rule's": askedFor("/second", 200, minute)} {
		before := len(a.asked)
		eventually(t, name+" time ends", func() bool { return c.send(get("x", path)).Status == 200 && len(a.asked) > before+1 })
	}
	path := askedFor("/all", 200, minute)
	for range 2 {
		c.send(get("edited", path))
	}
	before, running := len(a.asked), render.Render(a.in)
	a.in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) { rule.ExternalAuth.Timeout += time.Second })
	desired := render.Render(a.in)
	change := plan.Diff(desired, running)
	if change.Reload != "" {
		t.Fatalf("an edit takes a reload: %s", change.Reload)
	}
	a.change(t, change, func() {})
	if c.send(get("edited", path)); len(a.asked) != before+1 {
		t.Errorf("the Service was asked %d times after an edit", len(a.asked)-before)
	}
	a.reload(t)
	if newClient(t, a.ports[80]).send(get("edited", path)); len(a.asked) != before+2 {
		t.Errorf("the Service was asked %d times after an edit and a reload", len(a.asked)-before)
	}
}

// TestManyKeptAnswers: however many answers there are, they take so much memory, and the last ones are there.
func TestManyKeptAnswers(t *testing.T) {
	t.Parallel()
	a := startAuthCache(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("X-Long", strings.Repeat("a", 6000))
		w.WriteHeader(http.StatusForbidden)
	})
	c := newClient(t, a.ports[80])
	count := func(path string) int {
		before := len(a.asked)
		c.send(get("x", path))
		return len(a.asked) - before
	}
	first := "/all/0"
	count(first)
	for i := range 4000 {
		count(fmt.Sprint("/all/", i+1))
	}
	if last, again := count("/all/4000"), count(first); last != 0 || again != 1 {
		t.Errorf("the Service was asked %d times about the last request, and %d times about the first one", last, again)
	}
}

// sent is what the Service is sent about a request.
type sent struct {
	Method, URI, Host, Client, Body string
	Authorization, Cookie, Tenant   []string
}

// named is the part that the keys of authCacheWorld name, if there is any.
func (s sent) named() (part sent, isThere bool) {
	part = sent{URI: s.URI[:4], Host: s.Host, Body: s.Body, Authorization: s.Authorization, Tenant: s.Tenant}
	for one := range strings.SplitSeq(strings.Join(s.Cookie, ";"), ";") {
		if one = strings.TrimSpace(one); strings.HasPrefix(one, "session=") || strings.HasPrefix(one, "id=") {
			part.Cookie = append(part.Cookie, one)
		}
	}
	return part, strings.Join(slices.Concat(part.Cookie, s.Authorization, s.Tenant), "") != ""
}

// questionOf returns what a question has.
func questionOf(r *http.Request) sent {
	body, _ := io.ReadAll(r.Body)
	h := r.Header
	return sent{
		h.Get("X-Forwarded-Method"), h.Get("X-Forwarded-Uri"), r.Host, h.Get("X-Forwarded-For"), string(body), h["Authorization"], h["Cookie"], h["X-Tenant"],
	}
}

// TestKeysOfAnswers: a request gets the answer to the question about itself, also where many differ in one thing alone.
// Where parts are named, it gets that to one with the same parts, if it has any.
func TestKeysOfAnswers(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	a := startAuthCache(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := json.Marshal(questionOf(r))
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("X-User", hex.EncodeToString(text))
		if len(text)%3 == 0 {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = fmt.Fprint(w, hex.EncodeToString(text))
	})
	pick := func(texts ...string) string { return texts[g.IntN(len(texts))] }
	lists := func(lists ...[]string) []string { return lists[g.IntN(len(lists))] }
	clients := map[string]*client{}
	for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
		clients[address] = newClientFrom(t, address, a.ports[80])
	}
	const requests = 5000
	for range requests {
		s := sent{
			pick("GET", "POST"), pick("/all", "/body", "/key", "/key/", "/other") + pick("", "/a", "?", "?a"), pick("x", "X", "y"), pick("127.0.0.1", "127.0.0.2"), pick("", "a", "\r\n\r\na"),
			lists(nil, nil, []string{"me"}, []string{"you"}, []string{"me", "you"}, []string{"me,you"}),
			lists(nil, []string{"session=1"}, []string{"session=1; x=2"}, []string{"x=session=1"}, []string{"session=1", "id=1"}, []string{"session=1; id=1"}, []string{"id=1"}),
			lists(nil, nil, []string{"a"}, []string{""}),
		}
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nX-Other: %d\r\n", s.Method, s.URI, s.Host, g.IntN(1000))
		for name, values := range map[string][]string{"Authorization": s.Authorization, "Cookie": s.Cookie, "X-Tenant": s.Tenant} {
			for _, value := range values {
				request += name + ": " + value + "\r\n"
			}
		}
		got := clients[s.Client].send(request + ofLength(s.Body))
		about := got.Body
		if got.Status == http.StatusOK {
			about = user(next(t, a.web))
		}
		var of sent
		if text, err := hex.DecodeString(about); err != nil || json.Unmarshal(text, &of) != nil || (len(text)%3 == 0) != (got.Status == http.StatusForbidden) {
			t.Fatalf("%+v: got %d, the answer about %q", s, got.Status, about)
		}
		if strings.HasPrefix(s.URI, "/all") {
			s.Body = ""
		} else if part, isThere := s.named(); isThere && !strings.HasPrefix(s.URI, "/body") {
			s = part
			of, _ = of.named()
		}
		if !reflect.DeepEqual(of, s) {
			t.Fatalf("%+v got the answer about %+v", s, of)
		}
	}
	if n := len(a.asked); n > requests*9/10 {
		t.Errorf("the Service was asked %d times about %d requests", n, requests)
	} else {
		t.Logf("asked %d times about %d requests", n, requests)
	}
}

// TestOddTextsTakeNoTime: what clients and Services send does not have a thread look for something until HAProxy's
// watchdog ends the process, and all requests with it.
func TestOddTextsTakeNoTime(t *testing.T) {
	t.Parallel()
	const long = 12_000
	a := startAuthCache(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60"+strings.Repeat(" ", len(r.Header.Get("X-Tenant"))*long)+"x")
	})
	for _, header := range []string{
		"Cookie: id=1;" + strings.Repeat(" ", long) + "x",
		"Cookie: id" + strings.Repeat(" ", long) + "x=1",
		"Authorization: Bearer " + strings.Repeat("eyJ", long/3),
		"Authorization: Bearer " + strings.Repeat("eyJ.", long/4),
		"Authorization: Bearer " + strings.Repeat("eyJ", long/6) + "." + strings.Repeat("eyJ", long/6),
		"X-Tenant: a",
	} {
		for _, path := range []string{"/all", "/key"} {
			request := "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + header + "\r\n\r\n"
			if got := newClient(t, a.ports[80]).send(request); got.Status != http.StatusOK {
				t.Errorf("%.40s: got %d", header, got.Status)
			}
		}
	}
}
