package dataplanetest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// startRepeatedAuth runs HAProxy with Gateway API questions below the path /check. The header X-Answer of a request
// sets their answers. At /all, the question has the request's own path, the Service gets bodies of up to 4 bytes, and
// the backend gets all headers of the answer.
func startRepeatedAuth(t *testing.T) *authorized {
	t.Helper()
	a := &authorized{web: make(chan string, 100), asked: make(chan string, 100)}
	answers := func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-User", "alice")
		switch r.Header.Get("X-Answer") {
		case "200":
			header.Set("X-Other", "other")
			header["X_Other"] = []string{"odd"}
			header.Set("Host", "evil")
			header.Set("Upgrade", "evil")
			header.Set("Content-Length", "3")
			_, _ = w.Write([]byte("yes"))
		case "201":
			w.WriteHeader(http.StatusCreated)
		case "204":
			w.WriteHeader(http.StatusNoContent)
		case "302":
			http.Redirect(w, r, "https://login.example.com/", http.StatusFound)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("no"))
		}
	}
	a.gateway = startGatewayWith(t, rendertest.Parse(t, `
generation: 1
repeated: [/check]
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters:
            - type: ExternalAuth
              externalAuth: {backendRef: {name: auth, port: 80}, path: /check, requestHeaders: [Authorization, X-Answer], responseHeaders: [X-User]}
            - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /all}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, path: /check, requestHeaders: [Authorization, X-Answer, User-Agent]}}]
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
`), func(in *render.Input) {
		in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
			if len(rule.ExternalAuth.ResponseHeaders) == 0 {
				rule.ExternalAuth.Path, rule.ExternalAuth.MaxBody = "", 4
			}
		})
		serveAll(t, in, handlers{"web": record(a.web, nil), "auth": record(a.asked, answers)})
	})
	return a
}

// TestRepeatedQuestions: the Service gets the method and the path of the request, no body and the named headers.
// The backend gets the named headers of the answer.
func TestRepeatedQuestions(t *testing.T) {
	t.Parallel()
	a := startRepeatedAuth(t)
	c := newClient(t, a.ports[80])
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
		c.send(method + " /a%20b/c?d=e HTTP/1.1\r\nHost: Shop.example.com\r\nAuthorization: me\r\nX-Answer: 200\r\nX-User: mallory\r\nX-Secret: s\r\n" +
			"User-Agent: curl\r\nGateway-Auth-Method: HEAD\r\nContent-Length: 4\r\n\r\nbody")
		want := method + " /check/a%20b/c?d=e\nHost: Shop.example.com\nAuthorization: me\r\nX-Answer: 200\r\n\n"
		if got := next(t, a.asked); got != want {
			t.Errorf("the Service got\n%s\nwant\n%s", got, want)
		}
		got := next(t, a.web)
		if !strings.HasPrefix(got, method+" /new/a%20b/c?d=e\n") || !strings.Contains(got, "X-User: alice\r\n") || strings.Contains(got, "X-Other") ||
			strings.Contains(got, "mallory") || !strings.HasSuffix(got, "\nbody") {
			t.Errorf("the backend got\n%s", got)
		}
	}
	c.send("OPTIONS * HTTP/1.1\r\nHost: x\r\nX-Answer: 200\r\n\r\n")
	if got := next(t, a.asked); !strings.HasPrefix(got, "OPTIONS /check/\n") {
		t.Errorf("the Service got\n%s", got)
	}
}

// TestRepeatedAnswers: only an answer of 200 lets a request through, with any method.
func TestRepeatedAnswers(t *testing.T) {
	t.Parallel()
	a := startRepeatedAuth(t)
	c := newClient(t, a.ports[80])
	for _, test := range []struct {
		answer string
		status int
		body   string
	}{{"200", 200, ""}, {"201", 503, ""}, {"204", 503, ""}, {"302", 302, ""}, {"403", 403, "no"}} {
		for _, method := range []string{"GET", "POST"} {
			got := c.send(method + " / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX-Answer: " + test.answer + "\r\n\r\n")
			if got.Status != test.status || test.body != "" && got.Body != test.body || (len(a.web) == 1) != (test.status == 200) {
				t.Errorf("%s, %s: got %d %q and the backend %d requests", test.answer, method, got.Status, got.Body, len(a.web))
			}
			for len(a.web) > 0 {
				<-a.web
			}
		}
	}
	for answer, want := range map[string]string{"200": "200 OK", "403": "403 Forbidden"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, fmt.Sprintf("http://127.0.0.1:%d/", a.ports[80]), nil)
		r.Header.Set("X-Answer", answer)
		got, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		_ = got.Body.Close()
		if got.Status != want {
			t.Errorf("HEAD: got %s, want %s", got.Status, want)
		}
	}
}

// TestAllHeadersOfAnswers: where no header is named, the backend gets all headers of the answer but the framing ones.
// Headers of the client that the answer lacks are removed: the client could claim to be an admin.
func TestAllHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	a := startRepeatedAuth(t)
	c := newClient(t, a.ports[80])
	c.send("POST /all HTTP/1.1\r\nHost: shop\r\nX-Answer: 200\r\nX-User: mallory\r\nX-Role: admin\r\nUser-Agent: curl\r\nContent-Length: 4\r\n\r\nbody")
	if asked := next(t, a.asked); !strings.HasPrefix(asked, "POST /all\n") || !strings.Contains(asked, "User-Agent: curl\r\n") || !strings.HasSuffix(asked, "\nbody") {
		t.Errorf("the Service got\n%s", asked)
	}
	got := next(t, a.web)
	if got := strings.ToLower(got); strings.Contains(got, "x_other") {
		t.Errorf("the backend got a header that some take for X-Other:\n%s", got)
	}
	for _, want := range []string{"Host: shop\n", "X-User: alice\r\n", "X-Other: other\r\n", "X-Role: admin\r\n", "Content-Length: 4\r\n", "Date: "} {
		if !strings.Contains(got, want) {
			t.Errorf("the backend lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "evil") || strings.Contains(got, "mallory") || !strings.HasSuffix(got, "\nbody") {
		t.Errorf("the backend got\n%s", got)
	}
	if got := c.send("PUT /all HTTP/1.1\r\nHost: shop\r\nX-Answer: 200\r\n" + chunked("bod", "y!")); got.Status != http.StatusRequestEntityTooLarge || len(a.asked) > 0 {
		t.Errorf("a longer body gets %d, and the Service is asked about %d requests", got.Status, len(a.asked))
	}
	c.send("HEAD /all HTTP/1.1\r\nHost: shop\r\nX-Answer: 200\r\n" + ofLength("a"))
	if asked := next(t, a.asked); !strings.HasPrefix(asked, "HEAD /all\n") || !strings.HasSuffix(asked, "\na") {
		t.Errorf("the Service got\n%s", asked)
	}
}
