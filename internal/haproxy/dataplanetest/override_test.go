package dataplanetest_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
)

const overrideWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: r
      rules:
        - matches: [{path: {value: /pages}}]
          filters:
            - type: ResponseOverride
              responseOverride:
                responses:
                  - {statuses: [404, 503], body: "<p>Möglich: \"ja\"\n100 %</p>\n"}
                  - {statuses: [500, 404], statusCode: 418, contentType: text/plain, body: fine}
            - {type: CORS, cors: {allowOrigins: ["*"]}}
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /asked}}]
          filters:
            - {type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /new}}}
            - type: ResponseOverride
              responseOverride:
                responses: [{statuses: [404, 500, 502], backendRef: {name: errors, port: 80}}, {statuses: [410], statusCode: 404, backendRef: {name: errors, port: 80}}]
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /keys}}]
          filters:
            - {type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: QueryParam, name: api_key}]}}
            - {type: ResponseOverride, responseOverride: {responses: [{statuses: [404], backendRef: {name: errors, port: 80}}]}}
          shadow: [APIKey]
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /tokens}}]
          filters:
            - {type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: 'KEYS'}}], from: [{type: QueryParam, name: access_token}]}}
            - {type: ResponseOverride, responseOverride: {responses: [{statuses: [404], backendRef: {name: errors, port: 80}}]}}
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /gone}}]
          filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [404], backendRef: {name: missing, port: 80}}]}}]
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /counted}}]
          maxRequestBytes: 10
          filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [404, 413, 503], body: replaced}]}}]
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /down}}]
          filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [503], body: replaced}]}}]
          backendRefs: [{name: down, port: 80}]
        - {matches: [{path: {value: /plain}}], backendRefs: [{name: app, port: 80}]}
        - {matches: [{path: {value: /none}}], filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [500], body: not for this}]}}]}
backends: [{service: app, port: 80}, {service: errors, port: 80}, {service: down, port: 80}]
`

// startOverriding starts a gateway whose backend answers with the status of the header Want, and whose Service for
// errors tells what it was asked.
func startOverriding(t *testing.T) *gateway {
	t.Helper()
	app := func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscan(r.Header.Get("Want"), &status)
		w.Header().Set("Backend", "app")
		maps.Copy(w.Header(), http.Header{"Set-Cookie": {"of=backend; Path=/", "b=2"}, "Www-Authenticate": {`Basic realm="a, b"`, "Bearer"}, "Allow": {"GET, PUT"}, "Retry-After": {"7"}})
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "the backend: "+r.URL.Path)
	}
	errors := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Format") == "long":
			_, _ = io.WriteString(w, strings.Repeat("a", 16<<10))
		case r.Header.Get("X-Format") == "cut":
			w.Header().Set("Content-Length", "100")
		}
		w.Header().Set("X-Page", "1")
		w.Header().Set("Set-Cookie", "of=page")
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "%s %s %s: %s %s %s é\n", r.Method, r.Host, r.RequestURI, r.Header.Get("X-Code"), r.Header.Get("X-Format"), r.Header.Get("X-Original-Uri"))
	}
	return startServing(t, rendertest.Parse(t, strings.ReplaceAll(overrideWorld, "KEYS", keySet("ES256"))), handlers{"app": app, "errors": errors})
}

// TestResponseOverrideOfCountedBodies: the backend's errors are replaced also where HAProxy counts the body of a
// request on its way. The proxy's own stay: 413 for the body, and 503 without an endpoint.
func TestResponseOverrideOfCountedBodies(t *testing.T) {
	t.Parallel()
	g := startOverriding(t)
	for _, c := range []struct {
		path, body string
		status     int
		isReplaced bool
	}{
		{"/counted", "1\r\na\r\n0\r\n\r\n", 404, true},
		{"/counted", "b\r\n0123456789a\r\n0\r\n\r\n", 413, false},
		{"/down", "1\r\na\r\n0\r\n\r\n", 503, false},
	} {
		got := newClient(t, g.ports[80]).send("POST " + c.path + " HTTP/1.1\r\nHost: x\r\nWant: 404\r\nTransfer-Encoding: chunked\r\n\r\n" + c.body)
		if got.Status != c.status || (got.Body == "replaced") != c.isReplaced {
			t.Errorf("%s with %q: got %d %q", c.path, c.body, got.Status, got.Body)
		}
	}
}

// TestResponseOverrideOfLeavers: clients that leave while the Service is asked change nothing for others.
func TestResponseOverrideOfLeavers(t *testing.T) {
	t.Parallel()
	g := startOverriding(t)
	worker := runtime.NewWorker(g.WorkerSocket)
	before := must.Get(worker.Process(t.Context()))(t)
	var leavers sync.WaitGroup
	for range 100 {
		leavers.Go(func() {
			connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[80]))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(connection, "GET /asked HTTP/1.1\r\nHost: x\r\nWant: 404\r\n\r\n")
			_ = connection.Close()
		})
	}
	leavers.Wait()
	if got := newClient(t, g.ports[80]).send("GET /asked HTTP/1.1\r\nHost: x\r\nWant: 404\r\n\r\n"); got.Status != 404 || got.Header.Get("X-Page") == "" {
		t.Errorf("got %d %q", got.Status, got.Body)
	}
	if after, err := worker.Process(t.Context()); err != nil || after != before {
		t.Errorf("the worker is %+v, %v, and was %+v", after, err, before)
	}
}

// TestResponseOverride: errors of the backend with these statuses are replaced, and no other answers are.
func TestResponseOverride(t *testing.T) {
	t.Parallel()
	g := startOverriding(t)
	const page = "<p>Möglich: \"ja\"\n100 %</p>\n"
	for _, c := range []struct {
		path    string
		want    int
		accept  string
		status  int
		content string
		body    string
	}{
		{"/pages", 404, "", 404, "text/html; charset=utf-8", page},
		{"/pages", 503, "", 503, "text/html; charset=utf-8", page},
		{"/pages", 500, "", 418, "text/plain", "fine"},
		{"/pages", 403, "", 403, "", "the backend: /pages"},
		{"/pages", 200, "", 200, "", "the backend: /pages"},
		{"/plain", 404, "", 404, "", "the backend: /plain"},
		{"/gone", 404, "", 404, "", "the backend: /gone"},
		{"/none", 404, "", 500, "", "the route has no backend that can be used\n"},
		{"/asked?a=b", 404, "text/html", 404, "", "GET x /: 404 text/html /asked?a=b é\n"},
		{"/keys/a%20&b?api_key=K", 404, "", 404, "", "GET x /: 404  /keys/a%20&b é\n"},
		{"/keys?a=b&api%5Fkey=K&c;d&api_key=K", 404, "", 404, "", "GET x /: 404  /keys?a=b&c;d é\n"},
		{"/tokens?access_token=" + token(t, "ES256", nil) + "&a=api_key=K", 404, "", 404, "", "GET x /: 404  /tokens?a=api_key=K é\n"},
		{"/asked", 500, "", 500, "", "GET x /: 500  /asked é\n"},
		{"/asked", 410, "", 404, "", "GET x /: 410  /asked é\n"},
		{"/asked", 403, "", 403, "", "the backend: /new"},
		{"/asked", 404, "long", 404, "", "the backend: /new"},
		{"/asked", 404, "cut", 404, "", "the backend: /new"},
	} {
		headers := fmt.Sprintf("Host: x\r\nWant: %d\r\n", c.want)
		if c.accept != "" {
			headers += "Accept: " + c.accept + "\r\n"
		}
		got := newClient(t, g.ports[80]).send("GET " + c.path + " HTTP/1.1\r\n" + headers + "\r\n")
		isReplaced := !strings.HasPrefix(c.body, "the backend")
		if got.Status != c.status || got.Body != c.body || c.content != "" && got.Header.Get("Content-Type") != c.content || (got.Header.Get("Backend") == "") != isReplaced {
			t.Errorf("%s with %d, %q: got %d %q %q %v, want %d %q %q", c.path, c.want, c.accept, got.Status, got.Header.Get("Content-Type"), got.Body, got.Header, c.status, c.content, c.body)
		}
		if isAsked := strings.HasPrefix(c.body, "GET"); isAsked != (got.Header.Get("X-Page") != "") || got.Header.Get("Gateway-Override-Answer") != "" {
			t.Errorf("%s with %d: the headers are %v", c.path, c.want, got.Header)
		}
	}
	head := newClient(t, g.ports[80]).send("HEAD /asked HTTP/1.1\r\nHost: x\r\nWant: 404\r\n\r\n")
	if head.Status != 404 || head.Body != "" || head.Header.Get("X-Page") == "" {
		t.Errorf("HEAD: got %d %q %v", head.Status, head.Body, head.Header)
	}
}

// TestHeadersOfOverriddenErrors: the client gets cookies of the error, and what its status needs.
func TestHeadersOfOverriddenErrors(t *testing.T) {
	t.Parallel()
	g := startOverriding(t)
	ofError := http.Header{"Set-Cookie": {"of=backend; Path=/", "b=2"}, "Www-Authenticate": {`Basic realm="a, b"`, "Bearer"}, "Allow": {"GET, PUT"}, "Retry-After": {"7"}}
	asked := maps.Clone(ofError)
	asked["Set-Cookie"], asked["Retry-After"] = []string{"of=page", "of=backend; Path=/", "b=2"}, []string{"9"}
	none := http.Header{}
	for _, c := range []struct {
		path, headers string
		want          http.Header
	}{
		{"/pages", "Want: 404\r\n", ofError}, {"/pages", "Want: 500\r\n", ofError}, {"/pages", "Want: 403\r\n", ofError}, {"/pages", "Want: 200\r\n", ofError},
		{"/asked", "Want: 404\r\n", asked}, {"/asked", "Want: 404\r\nAccept: long\r\n", ofError}, {"/asked", "Want: 403\r\n", ofError}, {"/down", "Want: 503\r\n", none},
	} {
		got := newClient(t, g.ports[80]).send("GET " + c.path + " HTTP/1.1\r\nHost: x\r\n" + c.headers + "\r\n")
		for name := range ofError {
			if !slices.Equal(got.Header.Values(name), c.want.Values(name)) {
				t.Errorf("%s with %q: got %s %q, want %q", c.path, c.headers, name, got.Header.Values(name), c.want.Values(name))
			}
		}
	}
}
