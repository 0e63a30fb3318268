package engine_test

import (
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// BenchmarkJudge is what Coraza takes of the way of a request, with the headers that HAProxy adds.
func BenchmarkJudge(b *testing.B) {
	e := must.Get(engine.New())(b)
	short := []engine.Header{
		{"host", "shop.example.com"}, {"user-agent", "Mozilla/5.0 (X11; Linux x86_64)"}, {"accept", "*/*"},
		{"forwarded", `for=10.0.0.1;proto=http;host="shop.example.com"`}, {"x-forwarded-for", "10.0.0.1"}, {"x-forwarded-proto", "http"},
		{"x-forwarded-host", "shop.example.com"}, {"x-forwarded-port", "80"}, {"x-request-id", "f47ac10b-58cc-4372-a567-0e02b2c3d479"},
	}
	long := append(
		short[:9:9],
		engine.Header{"cookie", "session=0123456789abcdef; theme=dark"}, engine.Header{"referer", "https://shop.example.com/"},
		engine.Header{"accept-language", "en"}, engine.Header{"accept-encoding", "gzip"},
	)
	for name, request := range map[string]*engine.Request{
		"short": {Method: "GET", URI: "/app.js", Version: "HTTP/1.1", Client: "10.0.0.1", Headers: short},
		"long":  {Method: "GET", URI: "/search?q=red+shoes&page=2", Version: "HTTP/1.1", Client: "10.0.0.1", Headers: long},
	} {
		for _, paranoia := range []int32{1, 4} {
			b.Run(name+"/"+string('0'+paranoia), func(b *testing.B) {
				for b.Loop() {
					if verdict, err := e.Judge(waf.Settings{Paranoia: paranoia, Threshold: 1000}, request); err != nil || verdict.Denied {
						b.Fatal(verdict, err)
					}
				}
			})
		}
	}
}
