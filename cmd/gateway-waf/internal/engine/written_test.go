package engine_test

import (
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// TestWrittenHeaders: the Core Rule Set does not see what HAProxy wrote, but what has something else. Rules of users
// see all headers.
func TestWrittenHeaders(t *testing.T) {
	const id = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
	own := must.Get(engine.New(mustParse(t, `SecRule REQUEST_HEADERS:X-Request-Id "@streq `+id+`" "id:1,phase:1,deny"`)...))(t)
	plain := must.Get(engine.New())(t)
	for _, test := range []struct {
		engine      *engine.Engine
		name, value string
		denied      bool
	}{
		{plain, "forwarded", `for="[2001:db8::1]";proto=https;host="a.example.com"`, false},
		{plain, "forwarded", `for="[2001:db8::2]";proto=https;host="a.example.com"`, true},
		{plain, "forwarded", `for="[2001:db8::1]";proto=https;host="b.example.com"`, true},
		{plain, "forwarded", `for="[2001:db8::1]";proto=https;host="a.example.com",for=<script>`, true},
		{plain, "x-forwarded-host", "a.example.com", false},
		{plain, "x-forwarded-host", "[::1]", true},
		{plain, "x-request-id", id, false},
		{plain, "x-request-id", id[1:] + "<", true},
		{own, "x-request-id", id, true},
		{own, "x-request-id", id[1:] + "0", false},
	} {
		headers := []engine.Header{{"host", "a.example.com"}, {"user-agent", "Mozilla/5.0"}, {"accept", "*/*"}, {test.name, test.value}}
		settings := waf.Settings{Paranoia: 4, Threshold: 1}
		verdict, err := test.engine.Judge(settings, &engine.Request{Method: "GET", URI: "/", Version: "HTTP/1.1", Client: "2001:db8::1", Headers: headers})
		if err != nil || verdict.Denied != test.denied {
			t.Errorf("%s: %s: got %+v, %v; denied should be %v", test.name, test.value, verdict, err, test.denied)
		}
	}
}
