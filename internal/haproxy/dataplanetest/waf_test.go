package dataplanetest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/waf"
)

const wafWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - filters:
            - {type: WAF, waf: {paranoiaLevel: 2, excludedRules: [{id: 942100, target: {type: Cookie, name: a}}], maxBodyBytes: 131072}}
            - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /moved}}]
          filters: [{type: WAF, waf: {}}]
          maxRequestBytes: 20
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

// wafed are a gateway for wafWorld, what its Service gets, and what a gateway-waf would get: each question as a text.
// It answers with reply.
type wafed struct {
	*gateway
	web, asked chan string
	reply      func(question string) string
}

func startWAF(t *testing.T, reply func(question string) string) *wafed {
	t.Helper()
	w := &wafed{web: make(chan string, 1000), asked: make(chan string, 1000), reply: reply}
	w.gateway = startGatewayWith(t, rendertest.Parse(t, wafWorld), func(in *render.Input) {
		in.Paths.WAFSocket = filepath.Join(in.Paths.RunDir, "waf.sock")
		serveAll(t, in, handlers{"web": record(w.web, nil)})
		listener := must.Get(net.Listen("unix", in.Paths.WAFSocket))(t)
		t.Cleanup(func() { _ = listener.Close() })
		go w.serve(t, listener)
	})
	return w
}

func (w *wafed) serve(t *testing.T, listener net.Listener) {
	t.Helper()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		go w.answer(conn)
	}
}

// answer answers the questions of a connection, until reply has nothing to say.
func (w *wafed) answer(conn net.Conn) {
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Split(line[:len(line)-1], " ")
		if len(words) != 3 {
			return
		}
		n, _ := strconv.Atoi(words[0])
		text := make([]byte, n)
		if _, err := io.ReadFull(reader, text); err != nil {
			return
		}
		parsed, err := waf.ParseQuestion(words[2])
		w.asked <- fmt.Sprintf("%+v %v\n%s", parsed, err, text)
		reply := w.reply(string(text))
		if reply == "" {
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(reply, "NUMBER", words[1]))
	}
}

const allows = `NUMBER allow {"score":0,"rules":[]}` + "\n"

// TestQuestionsToWAF: gateway-waf gets the request that the backend gets, byte by byte, with the settings of the rule.
func TestQuestionsToWAF(t *testing.T) {
	t.Parallel()
	w := startWAF(t, func(string) string { return allows })
	const largest = 128 << 10
	many := func(size int) string { return strings.Repeat("\x00b\r\n", size/4) }
	for _, body := range []string{"", "a", "\r\n\r\n", many(8192), many(8196), many(40000), many(largest)} {
		for _, rest := range []string{ofLength(body), longHeader + ofLength(body), chunked(strings.SplitAfter(body, "\n")...), longHeader + chunked(body)} {
			got := newClient(t, w.ports[80]).send("POST /a%2fb/;c?d=%00&e=' HTTP/1.1\r\nHost: X.io:80\r\nX-A: 1\r\nX-A: 2,3\r\nx-B:\r\n" + rest)
			if got.Status != http.StatusOK {
				t.Fatalf("%d bytes, %.30q: got %d", len(body), rest, got.Status)
			}
			asked, backend := next(t, w.asked), next(t, w.web)
			head, asks, _ := strings.Cut(asked, "\r\n\r\n")
			_, gets, _ := strings.Cut(backend, "\n\n")
			if asks != body || gets != body {
				t.Errorf("%d bytes, %.30q: gateway-waf got %d, the backend %d", len(body), rest, len(asks), len(gets))
			}
			for _, want := range []string{
				"{Paranoia:2 Threshold:5 Excluded:[{Rule:942100 Target:Cookie Name:a}] Rules:} <nil>\n127.0.0.1 - POST HTTP/1.1 /a%2fb/;c?d=%00&e='\r\n",
				"\r\nhost: X.io:80\r\n", "\r\nx-a: 1\r\nx-a: 2,3\r\nx-b: \r\n", "\r\nx-forwarded-for: 127.0.0.1\r\n",
			} {
				if !strings.Contains(head+"\r\n", want) {
					t.Errorf("gateway-waf got %.600q, which lacks %q", head, want)
				}
			}
		}
	}
	got, err := http2Client(t).Post(fmt.Sprintf("http://127.0.0.1:%d/a?b", w.ports[80]), "text/plain", io.MultiReader(strings.NewReader("body")))
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("got %v: %v", got, err)
	}
	_ = got.Body.Close()
	if asked := next(t, w.asked); !strings.Contains(asked, "\n127.0.0.1 - POST HTTP/2.0 /a?b\r\n") || !strings.HasSuffix(asked, "\r\n\r\nbody") {
		t.Errorf("over HTTP/2, gateway-waf got %q", asked)
	}
	next(t, w.web)
	for request, want := range map[string]int{
		"POST /a HTTP/1.1\r\nHost: x\r\n" + ofLength(many(largest)+"a"):                              413,
		"POST /a HTTP/1.1\r\nHost: x\r\n" + longHeader + chunked(many(largest), many(largest)):       413,
		"POST /moved HTTP/1.1\r\nHost: x\r\n" + chunked(strings.Repeat("a", 10), "b", "c"):           200,
		"POST /moved HTTP/1.1\r\nHost: x\r\n" + chunked(strings.Repeat("a", 10), "b", many(16), "c"): 413,
		"GET /open HTTP/1.1\r\nHost: x\r\n\r\n":                                                      200,
	} {
		if got := newClient(t, w.ports[80]).send(request); got.Status != want {
			t.Errorf("%.60q: got %d, want %d", request, got.Status, want)
		}
	}
}

// TestAnswersOfWAF: a request passes with nothing else than the word for it.
func TestAnswersOfWAF(t *testing.T) {
	t.Parallel()
	const log = ` {"score":5,"rules":[1,2]}` + "\n"
	w := startWAF(t, func(question string) string {
		_, reply, _ := strings.Cut(question, "\r\nx-reply: ")
		reply, _, _ = strings.Cut(reply, "\r\n")
		return strings.NewReplacer("LOG", log, "LF", "\n", "MANY", strings.Repeat("1,", 1000)).Replace(reply)
	})
	c := newClient(t, w.ports[80])
	for reply, want := range map[string]int{
		"NUMBER allowLOG": 200, "NUMBER denyLOG": 403, "allowLOG": 503, "1NUMBER allowLOG": 503, "0 allowLOG": 503, "NUMBER failedLF": 503,
		"": 503, "LF": 503, "NUMBER allowLF": 503, "NUMBER AllowLOG": 503, "NUMBER allow denyLOG": 503, "NUMBER allowedLOG": 503, "NUMBER denyLF": 503, "200 OKLF": 503, "HTTP/1.1 200 OKLFLF": 503,
		`NUMBER allow {"score":5,"rules":[1,2]} x` + "LF": 503, `NUMBER allow {"score":5,"rules":["a"]}LF`: 503, `NUMBER allow {"score":5,"rules":[MANY1]}LF`: 503, `NUMBER allow {"score":0,"rules":[],"status":200}LF`: 503,
	} {
		if got := c.send("GET /a HTTP/1.1\r\nHost: x\r\nX-Reply: " + reply + "\r\n\r\n"); got.Status != want {
			t.Errorf("%q: got %d, want %d", reply, got.Status, want)
		}
	}
	if len(w.web) != 1 {
		t.Errorf("the backend got %d requests", len(w.web))
	}
}

// TestSecondAnswerOfWAF: an answer that nobody asked for is not taken for that to the next question.
func TestSecondAnswerOfWAF(t *testing.T) {
	t.Parallel()
	w := startWAF(t, func(question string) string {
		return allows + map[bool]string{true: allows}[strings.Contains(question, " /a/two\r\n")]
	})
	c := newClient(t, w.ports[80])
	var got []int
	for _, path := range []string{"/a/two", "/a", "/a"} {
		got = append(got, c.send(get("x", path)).Status)
	}
	if !slices.Equal(got, []int{200, 503, 200}) {
		t.Errorf("got %v", got)
	}
}

// TestSilentWAF: a request that gateway-waf does not answer gets 503, and others are served meanwhile.
func TestSilentWAF(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	w := startWAF(t, func(string) string { <-done; return "" })
	defer close(done)
	got := make(chan int)
	go func() { got <- newClient(t, w.ports[80]).send(get("x", "/a")).Status }()
	next(t, w.asked)
	if other := newClient(t, w.ports[80]).send(get("x", "/open")); other.Status != http.StatusOK {
		t.Errorf("another rule got %d", other.Status)
	}
	if status := <-got; status != http.StatusServiceUnavailable {
		t.Errorf("got %d", status)
	}
}

// TestLargeBodiesOfAClient: of the places for long bodies, one client has some and no more.
func TestLargeBodiesOfAClient(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	w := startWAF(t, func(string) string { <-done; return allows })
	const most, more = 64, 5
	large := "POST /a HTTP/1.1\r\nHost: x\r\n" + ofLength(strings.Repeat("a", 100_000))
	got := make(chan int)
	for range most + more {
		go func() { got <- newClient(t, w.ports[80]).send(large).Status }()
	}
	for range more {
		if status := <-got; status != http.StatusServiceUnavailable {
			t.Fatalf("got %d beyond %d bodies of a client", status, most)
		}
	}
	other := newClientFrom(t, "127.0.0.2", w.ports[80])
	go func() { got <- other.send(large).Status }()
	for range most + 1 {
		next(t, w.asked)
	}
	close(done)
	for range most + 1 {
		if status := <-got; status != http.StatusOK {
			t.Errorf("got %d", status)
		}
	}
}
