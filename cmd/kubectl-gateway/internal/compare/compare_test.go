package compare_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// serve starts a server, and returns its address and the file of its certificate.
func serve(t *testing.T, handler http.HandlerFunc) (address, ca string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.Listener.Addr().String(), clitest.WriteFile(t, "ca.crt", string(encoded))
}

// site answers as a Gateway may: example.com is what Go's certificate for tests is for.
func site(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	switch r.URL.Path {
	case "/moved":
		w.Header().Set("Location", "https://example.com/new")
		w.WriteHeader(http.StatusMovedPermanently)
	case "/gone":
		w.WriteHeader(http.StatusGone)
	default:
		_, _ = fmt.Fprintf(w, "%s %s of %s", r.Method, r.RequestURI, r.Host)
	}
}

// moved answers like site, but for some paths.
func moved(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/moved":
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Location", "https://example.com/newer")
		w.WriteHeader(http.StatusPermanentRedirect)
	case "/body":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprint(w, "another")
	case "/type":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "GET /type of %s", r.Host)
	case "/broken":
		panic(http.ErrAbortHandler)
	default:
		site(w, r)
	}
}

// log has requests as all known formats have them. Those of the second half are not sent.
const log = `https://example.com/equal?a=1&b=%2F
{"client":"192.0.2.1","method":"GET","host":"example.com","path":"\/gone","status":410,"termination":"--"}
192.0.2.1 - - [28/Nov/2026:11:00:00 +0000] "HEAD /head HTTP/1.1" 200 12 "-" "curl/8"
192.0.2.1 - me [28/Nov/2026:11:00:00 +0000] "GET /equal HTTP/2.0" 200 12 "-" "curl/8" 120 0.001 [default-web-80] [] 10.0.0.1:80 12 0.001 200 abc
https://example.com/equal?a=1&b=%2F
192.0.2.1 - - [28/Nov/2026:11:00:00 +0000] "POST /order HTTP/1.1" 200 12 "-" "curl/8"
{"client":"192.0.2.1","port":"5432","bytesOut":12,"termination":"--"}
nonsense
`

func TestCompareEqual(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	counted := func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		site(w, r)
	}
	old, ca := serve(t, counted)
	current, _ := serve(t, counted)
	got := clitest.Run(t, log, "compare", "-", "--old", old, "--new", current, "--ca", ca, "--host", "example.com", "--rate", "1000")
	got.Want(t, 0, "4 requests: 4 equal, 0 different, 0 without an answer; not sent: 1 repeated, 1 with other methods, 2 not understood\n",
		`warning: 2 lines were not understood, the first is "{\"client\"`)
	if n := requests.Load(); n != 8 {
		t.Errorf("%d requests were sent, want 8", n)
	}
}

func TestCompareDifferent(t *testing.T) {
	t.Parallel()
	old, ca := serve(t, site)
	current, _ := serve(t, moved)
	file := clitest.WriteFile(t, "urls.txt", "https://example.com/moved\nhttps://example.com/body\nhttps://example.com/type\nhttps://example.com/broken\nhttps://example.com/equal\n")
	args := []string{"compare", file, "--old", old, "--new", current, "--ca", ca, "--rate", "1000", "--header", "content-type"}
	got := clitest.Run(t, "", args...)
	got.Want(t, 3, `GET https://example.com/moved
  status    301 -> 308
  Location  "https://example.com/new" -> "https://example.com/newer"
`, `GET https://example.com/body
  body      24 bytes (sha256 `, `GET https://example.com/type
  Content-Type ["text/plain"] -> ["text/html"]
GET https://example.com/broken
  answer    200 -> `, "5 requests: 1 equal, 4 different, 0 without an answer")
	clitest.Run(t, "", append(args, "--no-body")...).Want(t, 3, "5 requests: 2 equal, 3 different")
}

// TestCompareMethods: other methods are sent if that is asked for.
func TestCompareMethods(t *testing.T) {
	t.Parallel()
	old, ca := serve(t, site)
	current, _ := serve(t, site)
	got := clitest.Run(t, log, "compare", "-", "--old", old, "--new", current, "--ca", ca, "--host", "example.com", "--method", "POST")
	got.Want(t, 0, "1 requests: 1 equal", "5 with other methods")
}

// TestCompareFails: what is wrong is named, and nothing passes for equal.
func TestCompareFails(t *testing.T) {
	t.Parallel()
	address, ca := serve(t, site)
	both := func(address string) []string { return []string{"compare", "-", "--old", address, "--new", address} }
	for name, test := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"no CA":              {"https://example.com/\n", both(address), 1, "certificate signed by unknown authority"},
		"another name":       {"https://example.org/\n", append(both(address), "--ca", ca), 1, "failed    tls: failed to verify certificate: x509: certificate is valid for example.com"},
		"nothing listens":    {"http://example.com/\n", both("127.0.0.1:1"), 1, "1 requests: 0 equal, 0 different, 1 without an answer"},
		"a log without host": {strings.Split(log, "\n")[2], both(address), 1, "it does not have the host: name it with --host"},
		"an empty log":       {"", both(address), 1, "there is no request to send in -"},
		"no file":            {"", []string{"compare", "/nonexistent", "--old", address, "--new", address}, 1, "failed to read the requests: open /nonexistent"},
		"no CA certificate":  {"https://example.com/\n", append(both(address), "--ca", clitest.WriteFile(t, "empty", "")), 1, "there is no CA certificate in"},
		"no address":         {"", []string{"compare", "-", "--old", address}, 2, `--new "" has to be an address like`},
		"a URL":              {"", both("https://example.com"), 2, "has to be an address like 192.0.2.10 or 192.0.2.10:8443"},
		"no rate":            {"", append(both(address), "--rate", "0"), 2, "--concurrency, --rate and --timeout have to be above 0"},
		"no log":             {"", []string{"compare"}, 2, "name one file with requests, or -"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clitest.Run(t, test.stdin, test.args...).Want(t, test.code, test.want)
		})
	}
}
