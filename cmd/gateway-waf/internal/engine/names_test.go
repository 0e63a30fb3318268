package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// TestRepeatedNames: each rule sees each value of a name that a request has twice, every time.
func TestRepeatedNames(t *testing.T) {
	e := must.Get(engine.New(mustParse(t, `SecRule ARGS|REQUEST_COOKIES "@streq shoes" "id:1000,phase:2,pass,t:lowercase,log"
SecRule ARGS|REQUEST_COOKIES "@streq shoes" "id:1001,phase:2,pass,t:lowercase,log"
SecRule ARGS|REQUEST_COOKIES "@streq shoes" "id:1002,phase:2,pass,t:lowercase,log"
`)...))(t)
	const pairs = "colour=red&size=5&page=2&q=Shoes&q=boots"
	for what, r := range map[string]*engine.Request{
		"query":   {Method: "GET", URI: "/?" + pairs},
		"no name": {Method: "GET", URI: "/?colour=red&size=5&page=2&=Shoes&=boots"},
		"form":    {Method: "POST", URI: "/", Body: []byte(pairs), Headers: []engine.Header{{"content-type", "application/x-www-form-urlencoded"}}},
		"JSON":    {Method: "POST", URI: "/", Body: []byte(`{"colour": "red", "size": 5, "page": 2, "q": "Shoes", "q": "boots"}`), Headers: []engine.Header{{"content-type", "application/json"}}},
		"cookies": {Method: "GET", URI: "/", Headers: []engine.Header{{"cookie", "colour=red; size=5; page=2; q=Shoes; q=boots"}}},
	} {
		r.Version, r.Client = "HTTP/1.1", "192.0.2.1"
		r.Headers = append(r.Headers, engine.Header{"host", "shop.example.com"}, engine.Header{"user-agent", "Mozilla/5.0"}, engine.Header{"accept", "*/*"}, engine.Header{"content-length", fmt.Sprint(len(r.Body))})
		for range 40 {
			verdict, err := e.Judge(waf.Settings{Paranoia: 1, Threshold: 1000}, r)
			own := slices.DeleteFunc(slices.Clone(verdict.Rules), func(id int) bool { return id > 99999 })
			if err != nil || !slices.Equal(own, []int{1000, 1001, 1002}) {
				t.Errorf("%s: got %+v, %v", what, verdict, err)
				break
			}
		}
	}
}

// TestApart: each rule transforms what was matched before it, and what it counts, and not what another rule did.
func TestApart(t *testing.T) {
	e := must.Get(engine.New(mustParse(t, `SecRule ARGS:a "@rx ." "id:1000,phase:2,pass,chain"
    SecRule MATCHED_VAR "@streq x" "t:lowercase"
SecRule ARGS:b "@rx ." "id:1001,phase:2,pass,chain"
    SecRule MATCHED_VAR "@streq shoes" "t:none,t:lowercase,t:trim"
SecRule ARGS:c "@rx ." "id:1002,phase:2,pass,chain"
    SecRule matched_var "@streq boots" "t:lowercase,multiMatch"
SecRule ARGS:c "@rx ." "id:1003,phase:2,pass,chain"
    SecRule MATCHED_VAR_NAME "@streq args:c" "t:lowercase"
SecRule REQUEST_FILENAME "@rx ." "id:1004,phase:2,pass,chain"
    SecRule MATCHED_VARS "@streq /shop" "t:lowercase"
SecRule REQUEST_FILENAME "@rx ." "id:1005,phase:2,pass,t:lowercase,t:length,chain"
    SecRule MATCHED_VARS "@streq 5" "t:lowercase"
SecRule &ARGS "@eq 3" "id:1006,phase:2,pass,t:lowercase"
SecRule &ARGS|!ARGS:a "@eq 2" "id:1007,phase:2,pass,t:lowercase"
`)...))(t)
	r := &engine.Request{Method: "GET", URI: "/Shop?a=1&b=%20Shoes&c=Boots", Version: "HTTP/1.1", Client: "192.0.2.1", Headers: []engine.Header{{"host", "shop.example.com"}, {"user-agent", "Mozilla/5.0"}, {"accept", "*/*"}}}
	verdict, err := e.Judge(waf.Settings{Paranoia: 1, Threshold: 1000}, r)
	if want := []int{1001, 1002, 1003, 1004, 1005, 1006, 1007}; err != nil || !slices.Equal(verdict.Rules, want) {
		t.Errorf("got %+v, %v, want %v", verdict, err, want)
	}
}
