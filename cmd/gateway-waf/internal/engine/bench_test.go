package engine_test

import (
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/waf"
)

// BenchmarkJudge is what Coraza takes of the way of a request.
func BenchmarkJudge(b *testing.B) {
	e, err := engine.New()
	if err != nil {
		b.Fatal(err)
	}
	plain := []engine.Header{{Name: "host", Value: "shop.example.com"}, {Name: "user-agent", Value: "Mozilla/5.0"}, {Name: "accept", Value: "*/*"}}
	for name, request := range map[string]*engine.Request{
		"plain": {Method: "GET", URI: "/static/app.js", Version: "HTTP/1.1", Client: "10.0.0.1", Headers: plain},
		"usual": {
			Method: "GET", URI: "/search?q=red+shoes&page=2", Version: "HTTP/1.1", Client: "10.0.0.1",
			Headers: append(
				plain[:3:3],
				engine.Header{Name: "cookie", Value: "session=0123456789abcdef; theme=dark"}, engine.Header{Name: "referer", Value: "https://shop.example.com/"},
				engine.Header{Name: "accept-language", Value: "en"}, engine.Header{Name: "accept-encoding", Value: "gzip"}, engine.Header{Name: "x-forwarded-for", Value: "10.0.0.1"},
			),
		},
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
