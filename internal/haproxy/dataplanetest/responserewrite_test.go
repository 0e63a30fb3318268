package dataplanetest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

const responseRewriteWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: r
      rules:
        - matches: [{path: {value: /all}}]
          filters:
            - type: ResponseRewrite
              responseRewrite:
                location: {from: "http://app:8080/a%b&c+d/", to: "https://shop.io/%1&+x/"}
                cookieDomain: {from: app.internal, to: shop.io}
                cookiePath: {from: /app, to: /}
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /location}}]
          filters: [{type: ResponseRewrite, responseRewrite: {location: {from: /, to: /prefix/}}}]
          backendRefs: [{name: app, port: 80}]
        - matches: [{path: {value: /path}}]
          filters: [{type: ResponseRewrite, responseRewrite: {cookiePath: {from: /a(.)*, to: "/%1\\1$"}}}]
          backendRefs: [{name: app, port: 80}]
        - {matches: [{path: {value: /none}}], backendRefs: [{name: app, port: 80}]}
backends: [{service: app, port: 80}]
`

// TestResponseRewrite: Location, Refresh, and attributes of every cookie, by what the rule says.
func TestResponseRewrite(t *testing.T) {
	t.Parallel()
	app := func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Location", "Refresh", "Set-Cookie"} {
			for _, value := range r.Header["Give-"+name] {
				w.Header().Add(name, value)
			}
		}
		w.WriteHeader(http.StatusCreated)
	}
	g := startServing(t, rendertest.Parse(t, responseRewriteWorld), handlers{"app": app})
	tests := map[string]struct {
		path, header string
		give, want   []string
	}{
		"a location":                {"/all", "Location", []string{"http://app:8080/a%b&c+d/x?y=1"}, []string{"https://shop.io/%1&+x/x?y=1"}},
		"another location":          {"/all", "Location", []string{"http://app:8080/other"}, []string{"http://app:8080/other"}},
		"a path":                    {"/location", "Location", []string{"/x"}, []string{"/prefix/x"}},
		"a URL that has it later":   {"/location", "Location", []string{"http://x/y"}, []string{"http://x/y"}},
		"a refresh":                 {"/location", "Refresh", []string{"5; URL=/x?url=/y"}, []string{"5; URL=/prefix/x?url=/y"}},
		"a refresh without a URL":   {"/location", "Refresh", []string{"5"}, []string{"5"}},
		"no rule for cookies":       {"/location", "Set-Cookie", []string{"a=b; Path=/app"}, []string{"a=b; Path=/app"}},
		"no filter":                 {"/none", "Set-Cookie", []string{"a=b; Path=/app"}, []string{"a=b; Path=/app"}},
		"signs with a meaning":      {"/path", "Set-Cookie", []string{"a=b; path=/a(.)*/c", "a=b; path=/abc"}, []string{`a=b; path=/%1\1$/c`, "a=b; path=/abc"}},
		"a path that is a value":    {"/all", "Set-Cookie", []string{"path=/app; Path=/app"}, []string{"path=/app; Path=/"}},
		"attributes without values": {"/all", "Set-Cookie", []string{"a=b; Secure; HttpOnly", "a"}, []string{"a=b; Secure; HttpOnly", "a"}},
		"several cookies": {
			"/all", "Set-Cookie",
			[]string{"a=1; Domain=.APP.internal; Path=/app/x; Secure", "b=2;path = /app ;DOMAIN=app.internal", "c=3; Domain=x.app.internal; Path=/x/app"},
			[]string{"a=1; Domain=.shop.io; Path=//x; Secure", "b=2;path = /;DOMAIN=shop.io", "c=3; Domain=x.app.internal; Path=/x/app"},
		},
	}
	client := newClient(t, g.ports[80])
	for name, test := range tests {
		request := strings.TrimSuffix(get("x", test.path), "\r\n")
		for _, value := range test.give {
			request += "Give-" + test.header + ": " + value + "\r\n"
		}
		if got := client.send(request + "\r\n").Header[test.header]; !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestLongResponseRewrite: an answer that is as long as any takes little time. HAProxy gives up when a program goes on
// for about a second, and ends with all connections.
func TestLongResponseRewrite(t *testing.T) {
	t.Parallel()
	cookie := "a=b; Path=/" + strings.Repeat(" ", 24<<10) + "x; Path="
	app := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", cookie+"/app") }
	g := startServing(t, rendertest.Parse(t, responseRewriteWorld), handlers{"app": app})
	got := newClient(t, g.ports[80]).send(get("x", "/all"))
	if end, ok := strings.CutPrefix(got.Header.Get("Set-Cookie"), cookie); got.Status != 200 || !ok || end != "/" {
		t.Errorf("got %d, and a cookie that ends with %q", got.Status, end)
	}
}
