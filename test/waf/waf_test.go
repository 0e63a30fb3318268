package waf_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gateway/test/internal/testenv"
)

const shopWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - filters: [{type: WAF, waf: {}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters: [{type: WAF, waf: {maxBodyBytes: 10}}]
          shadow: [WAF]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /strict}}]
          filters: [{type: WAF, waf: {paranoiaLevel: 4}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /lenient}}]
          filters: [{type: WAF, waf: {anomalyThreshold: 1000}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /excluded}}]
          filters:
            - type: WAF
              waf:
                excludedRules:
                  - {id: 911100}
                  - {id: 941100, target: {type: Argument, name: html}}
                  - {id: 941110, target: {type: Argument, name: html}}
                  - {id: 941160, target: {type: Argument, name: html}}
                  - {id: 941390, target: {type: Argument, name: html}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /any}}]
          filters: [{type: WAF, waf: {excludedRules: [{id: 920420}, {id: 911101}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /own}}]
          filters: [{type: WAF, waf: {rulesRef: {name: shop}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /others}}]
          filters: [{type: WAF, waf: {rulesRef: {name: others}, anomalyThreshold: 10}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /small}}]
          filters: [{type: WAF, waf: {maxBodyBytes: 10}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

// logged is a line of the access log.
type logged struct {
	ClientPort int            `json:"clientPort"`
	Filter     string         `json:"filter"`
	Shadow     map[string]int `json:"shadow"`
	WAF        struct {
		Score int   `json:"score"`
		Rules []int `json:"rules"`
	} `json:"waf"`
}

// exchanged sends a request, and returns the status of the answer and the line of the access log.
func (s *site) exchanged(request string) (int, logged) {
	s.t.Helper()
	c := s.connect()
	status, err := c.send(request)
	if err != nil {
		s.t.Fatalf("failed to send %.200q: %v", request, err)
	}
	port := c.conn.LocalAddr().(*net.TCPAddr).Port
	var line logged
	testenv.Eventually(s.t, 10*time.Second, "a line in the log", func(context.Context) error {
		for text := range strings.SplitSeq(s.Log(), "\n") {
			if strings.Contains(text, `"clientPort":`+strconv.Itoa(port)+",") {
				return json.Unmarshal([]byte(text), &line)
			}
		}
		return errors.New("there is none")
	})
	return status, line
}

// TestWAF sends all requests to one HAProxy and one gateway-waf.
func TestWAF(t *testing.T) {
	s := start(t, shopWorld)
	for _, test := range []struct {
		name string
		run  func()
	}{
		{"families", s.families}, {"settings", s.settings}, {"bodies", s.bodies}, {"examples", s.examples}, {"smuggling", s.smuggling}, {"rules", s.ownRules}, {"crash", s.crash},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.t = t
			s.drain()
			test.run()
		})
	}
}

const strictWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP, proxyProtocol: Any}]
  trustedProxies: [127.0.0.1/32]
  routes:
    - name: shop
      rules:
        - filters: [{type: WAF, waf: {paranoiaLevel: 4, anomalyThreshold: 1}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

// TestWrittenHeaders: no rule finds anything in headers that HAProxy has written, such as the brackets around addresses
// in Forwarded. In what trusted proxies say there, rules do.
func TestWrittenHeaders(t *testing.T) {
	s := start(t, strictWorld)
	const v4, v6, trusted = "TCP4 192.0.2.1 192.0.2.2", "TCP6 2001:db8::1 2001:db8::2", "TCP4 127.0.0.1 192.0.2.2"
	for _, test := range []struct {
		client, header string
		status         int
	}{
		{v4, "", 200},
		{v6, "", 200},
		{v6, "X-Forwarded-For: " + attack + "\r\n", 200},
		{trusted, "X-Forwarded-For: 2001:db8::1\r\n", 200},
		{trusted, "X-Forwarded-For: " + attack + "\r\n", 403},
		{trusted, "X-Forwarded-Host: " + attack + "\r\n", 403},
		{trusted, "X-Forwarded-Port: " + attack + "\r\n", 403},
		{trusted, "X-Forwarded-Proto: " + attack + "\r\n", 403},
		{trusted, "Forwarded: for=" + attack + "\r\n", 403},
	} {
		if got := s.send("PROXY " + test.client + " 1234 80\r\nGET /a HTTP/1.1\r\n" + usual + test.header + "\r\n"); got != test.status {
			t.Errorf("%s with %q: got %d, want %d", test.client, test.header, got, test.status)
		}
	}
}

// families: five requests and more of each family are stopped by its rules, and as many pass.
func (s *site) families() {
	for _, family := range families {
		if len(family.stopped) < 5 || len(family.pass) < 5 {
			s.t.Errorf("%d has too few requests", family.number)
		}
		for _, request := range family.stopped {
			status, line := s.exchanged(request)
			isFamily := func(rule int) bool { return rule/1000 == family.number }
			if status != http.StatusForbidden || line.Filter != "WAF" || line.WAF.Score < 5 || !slices.ContainsFunc(line.WAF.Rules, isFamily) || len(s.got) > 0 {
				s.t.Errorf("%d should stop %q: got %d with %+v", family.number, request, status, line)
			}
			s.drain()
		}
		for _, request := range family.pass {
			status, line := s.exchanged(request)
			if status != http.StatusOK || line.Filter != "-" || len(s.got) != 1 {
				s.t.Errorf("%d should not stop %q: got %d with %+v", family.number, request, status, line)
			}
			s.drain()
		}
	}
}

// attack is one that several rules find.
const attack = "<script>alert(1)</script>"

// settings: a rule does what its own filter says.
func (s *site) settings() {
	at := func(path, request string) string { return strings.Replace(request, " /", " "+path+"/", 1) }
	encoded := url.QueryEscape(attack)
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"no WAF", at("/open", arg(attack)), 200},
		{"a method whose rule is not excluded by another ID", "PUT /any HTTP/1.1\r\n" + usual + ofLength(""), 403},
		{"a type that is allowed", strings.Replace(post("application/x-other", "a"), "/orders", "/any", 1), 200},
		{"a method that is not excluded", "PUT /a HTTP/1.1\r\n" + usual + ofLength(""), 403},
		{"an excluded rule", "PUT /excluded HTTP/1.1\r\n" + usual + ofLength(""), 200},
		{"an excluded argument", get("/excluded?html=" + encoded), 200},
		{"an excluded argument in upper case", get("/excluded?HTML=" + encoded), 200},
		{"an excluded argument of a form", at("/excluded", strings.Replace(form(attack), "text=", "html=", 1)), 200},
		{"an argument that is not excluded", get("/excluded?text=" + encoded), 403},
		{"an excluded argument beside one that is not", get("/excluded?html=a&text=" + encoded), 403},
		{"an excluded argument, found by another rule", get("/excluded?html=" + url.QueryEscape("1' UNION SELECT a FROM b--")), 403},
		{"a threshold that nothing reaches", at("/lenient", arg(attack)), 200},
		{"an odd request at level 1", get("/a", "Accept-Charset: utf-8"), 200},
		{"an odd request at level 4", get("/strict", "Accept-Charset: utf-8"), 403},
		{"a usual request at level 4", get("/strict"), 200},
		{"a gRPC call", post("application/grpc", "\x00\x00\x00\x00\x05\n\x03abc"), 403},
		{"a gRPC call whose type is allowed", strings.Replace(post("application/grpc", "\x00\x00\x00\x00\x05\n\x03abc"), "/orders", "/any", 1), 200},
	} {
		if status, line := s.exchanged(test.request); status != test.status {
			s.t.Errorf("%s: got %d with %+v, want %d", test.name, status, line, test.status)
		}
	}
	if status, line := s.exchanged(at("/shadow", arg(attack))); status != 200 || line.Shadow["WAF"] != 403 || line.WAF.Score < 5 || len(line.WAF.Rules) == 0 {
		s.t.Errorf("in shadow, an attack got %d with %+v", status, line)
	}
	if status, line := s.exchanged(at("/shadow", form("hello, world"))); status != 200 || line.Shadow["WAF"] != 413 {
		s.t.Errorf("in shadow, a long body got %d with %+v", status, line)
	}
	if status, line := s.exchanged(at("/shadow", arg("a"))); status != 200 || len(line.Shadow) > 0 {
		s.t.Errorf("in shadow, a harmless request got %d with %+v", status, line)
	}
}

// bodies: the rules see the whole body, however it comes.
func (s *site) bodies() {
	for end, want := range map[string]int{"": 200, "&a=" + url.QueryEscape(attack): 403} {
		body := "text=" + strings.Repeat("b", 12000) + end
		var parts []string
		for rest := body; rest != ""; {
			n := min(97, len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		for how, rest := range map[string]string{"at once": ofLength(body), "in one chunk": chunked(body), "in many chunks": chunked(parts...)} {
			if status := s.send("POST /a HTTP/1.1\r\n" + usual + "Content-Type: application/x-www-form-urlencoded\r\n" + rest); status != want {
				s.t.Errorf("a body %s, attack %v: got %d, want %d", how, end != "", status, want)
			}
		}
	}
	if status := s.send(strings.Replace(form("hello, world"), "/orders", "/small", 1)); status != 413 {
		s.t.Errorf("a body over the limit of its rule got %d", status)
	}
}

// examples: requests like the ones of our examples and clients pass.
func (s *site) examples() {
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
		"GET /api/users?limit=10&sort=-name HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n",
		"POST /api HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nAuthorization: Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhIn0.c2ln\r\n" +
			"Content-Type: application/json\r\n" + ofLength(`{"name": "Jo", "items": [{"id": 1, "note": "2 of them, please"}], "price": 12.50}`),
		get("/socket", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
		get("/a", "Origin: https://www.example.com", "Sec-Fetch-Mode: cors", "Accept-Language: de-DE,de;q=0.9", "Cookie: a=b; session=0123456789abcdef", "If-None-Match: W/\"a\""),
		"GET /a HTTP/1.0\r\n" + usual + "\r\n",
		post("application/json", `{}`, "Expect: 100-continue"),
	} {
		if status, line := s.exchanged(request); status != 200 {
			s.t.Errorf("%q got %d with %+v", request, status, line)
		}
	}
}

// smuggling: an attack does not pass where it is odd.
func (s *site) smuggling() {
	encoded := url.QueryEscape(attack)
	attacked := "text=" + encoded
	for name, request := range map[string]string{
		"a length beside chunks":            "POST /a HTTP/1.1\r\n" + usual + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n" + chunked(attacked),
		"a second request in a body":        "POST /a HTTP/1.1\r\n" + usual + "Content-Type: text/plain\r\n" + ofLength("GET /search?q="+encoded+" HTTP/1.1\r\nHost: x\r\n\r\n"),
		"an absolute URI":                   "GET http://shop.example.com/a?q=" + encoded + " HTTP/1.1\r\n" + usual + "\r\n",
		"the second of two arguments":       get("/a?q=a&q=" + encoded),
		"the second of two headers":         get("/a", "X-Test: a", "X-Test: () { :; }; echo a"),
		"a second type":                     post("text/plain", attacked, "Content-Type: application/x-www-form-urlencoded"),
		"no type":                           "POST /a HTTP/1.1\r\n" + usual + ofLength(attacked),
		"a type of which nobody knows":      post("application/x-other", attacked),
		"a type in upper case":              post("APPLICATION/JSON", `{"text": "`+attack+`"}`),
		"a body that is not of its type":    post("application/json", attacked),
		"an encoded body":                   post("application/json", "{}", "Content-Encoding: gzip"),
		"a form in parts":                   post("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n"+attack+"\r\n--b--\r\n"),
		"a form in parts that does not end": post("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\na"),
		"more arguments than are looked at": post("application/x-www-form-urlencoded", strings.Repeat("a=b&", 2000)+"c=d"),
		"a cookie":                          get("/a", "Cookie: a="+attack),
		"a path":                            get("/a/" + encoded),
		"HEAD":                              "HEAD /a?q=" + encoded + " HTTP/1.1\r\n" + usual + "\r\n",
		"XML":                               post("text/xml", "<a>"+url.QueryEscape("1' UNION SELECT a FROM b--")+"</a>"),
	} {
		if status, line := s.exchanged(request); status < 400 || status >= 500 {
			s.t.Errorf("%s: got %d with %+v", name, status, line)
		}
	}
	if len(s.got) > 0 {
		s.t.Errorf("the backend got %q", <-s.got)
	}
}

// crash: without gateway-waf, requests of rules with a WAF get 503, and no others. When it is back, all is as it was.
func (s *site) crash() {
	s.send(get("/a"))
	s.waf.Kill()
	for path, want := range map[string]int{"/a": 503, "/shadow": 200, "/open": 200} {
		if got := s.send(get(path)); got != want {
			s.t.Errorf("without gateway-waf, %s got %d, want %d", path, got, want)
		}
	}
	s.startWAF()
	if got := s.send(get("/a")); got != 200 {
		s.t.Errorf("with gateway-waf again, got %d", got)
	}
	if got := s.send(arg(attack)); got != 403 {
		s.t.Errorf("with gateway-waf again, an attack got %d", got)
	}
}

// drain forgets what the backend got.
func (s *site) drain() {
	for len(s.got) > 0 {
		<-s.got
	}
}
