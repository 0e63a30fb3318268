package jwks

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/model"
	"gateway/internal/must"
)

const (
	first  = `{"keys":[{"kid":"a","kty":"EC","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}]}`
	second = `{"keys":[{"kid":"b","kty":"OKP","crv":"Ed25519","x":"AAAA"},{"kid":"c","kty":"EC","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}]}`
)

// issuer answers with what it was told last.
type issuer struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	from   model.KeySource
	pem    string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*i.answer.Load())(w, r) }))
	t.Cleanup(i.Close)
	i.Config.ErrorLog = nil
	i.from = model.KeySource{URL: i.URL + "/keys", Authorities: "ca", Interval: time.Minute}
	i.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
	i.says(first)
	return i
}

func (i *issuer) does(answer http.HandlerFunc) { i.answer.Store(&answer) }

func (i *issuer) says(body string) {
	i.does(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
}

// rig is a Fetcher whose fetches a test allows one by one.
type rig struct {
	t *testing.T
	*Fetcher
	issuer  *issuer
	changes chan struct{}
	// asked has an element after an answer.
	asked chan struct{}
}

func newRig(t *testing.T, i *issuer, dir string) *rig {
	t.Helper()
	r := &rig{t: t, issuer: i, changes: make(chan struct{}, 100), asked: make(chan struct{}, 1)}
	r.Fetcher = New(dir, true, func() { r.changes <- struct{}{} })
	r.Pause = func(time.Duration, int) time.Duration {
		select {
		case r.asked <- struct{}{}:
		default:
		}
		return time.Millisecond
	}
	return r
}

func (r *rig) want(authorities string) {
	r.Want(r.t.Context(), map[model.KeySource]string{r.issuer.from: authorities})
}

// set returns the IDs of the keys and the problem.
func (r *rig) set() (string, string) {
	sets, _ := r.Sets()
	set := sets[r.issuer.from]
	var ids []string
	for _, key := range set.Keys {
		ids = append(ids, key.ID)
	}
	return strings.Join(ids, " "), set.Problem
}

// expect waits for keys and a problem.
func (r *rig) expect(wantIDs, wantProblem string) {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		ids, problem := r.set()
		if ids == wantIDs && (problem == "") == (wantProblem == "") && strings.Contains(problem, wantProblem) {
			return
		}
		select {
		case <-r.changes:
		case <-deadline:
			r.t.Fatalf("the keys are %q and the problem %q, want %q and %q", ids, problem, wantIDs, wantProblem)
		}
	}
}

// TestKeysAreFetched: keys come and change. An unusable answer is reported, and leaves the earlier keys.
func TestKeysAreFetched(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	r := newRig(t, i, t.TempDir())
	i.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	r.want(i.pem)
	r.expect("", "the answer has the status 404")
	i.says(first)
	r.expect("a", "")
	i.says(second)
	r.expect("c", "")
	const secret = "a text of somebody else"
	for problem, answer := range map[string]string{
		"the answer is no JSON Web Key Set":                                secret,
		"the answer has no key that can be used, or two with one kid":      `{"keys":[{"kid":"` + secret + `","kty":"oct"}]}`,
		"the answer has a private key or a secret":                         strings.Replace(first, `"kid"`, `"d":"AAAA","kid"`, 1),
		"the answer has more than 65536 bytes":                             strings.Repeat(" ", maxBytes) + first,
		"the answer is no JSON Web Key Set, said of a set that is cut off": first[:40],
	} {
		problem, _, _ = strings.Cut(problem, ", said")
		i.says(answer)
		r.expect("c", problem)
		if _, told := r.set(); strings.Contains(told, secret) {
			t.Errorf("the problem tells what is there: %s", told)
		}
		i.says(second)
		r.expect("c", "")
	}
	i.does(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1/", http.StatusFound)
	})
	r.expect("c", "the answer has the status 302")
	i.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r.expect("c", "EOF")
	i.Close()
	r.expect("c", "connection refused")
}

// TestKeysOnTheDisk: a Fetcher that starts has the keys without the issuer, but for those that nobody wants any more.
func TestKeysOnTheDisk(t *testing.T) {
	t.Parallel()
	i, dir := newIssuer(t), t.TempDir()
	r := newRig(t, i, dir)
	r.want(i.pem)
	r.expect("a", "")
	if r.IsAwaited() {
		t.Error("keys are awaited that are there")
	}
	i.Close()
	again := newRig(t, i, dir)
	again.want("")
	if ids, problem := again.set(); ids != "a" || problem != "" || again.IsAwaited() {
		t.Errorf("the keys are %q, the problem is %q", ids, problem)
	}
	again.want(i.pem)
	again.expect("a", "connection refused")

	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("there are the files %q (%v)", files, err)
	}
	must.Do(t, os.WriteFile(files[0], []byte(first[:40]), 0o600))
	damaged := newRig(t, i, dir)
	damaged.want("")
	damaged.expect("", "they were not fetched yet")
	damaged.Want(t.Context(), nil)
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("there are the files %q", files)
	}
}

// TestOneURLTwice: two sources with one URL have keys of their own on the disk, and one that takes the place of another
// begins with its keys.
func TestOneURLTwice(t *testing.T) {
	t.Parallel()
	i, dir := newIssuer(t), t.TempDir()
	one, two := i.from, i.from
	two.Authorities = "other"
	r := newRig(t, i, dir)
	r.Pause = func(time.Duration, int) time.Duration { return time.Hour }
	r.Want(t.Context(), map[model.KeySource]string{one: i.pem})
	r.expect("a", "")
	i.says(second)
	r.Want(t.Context(), map[model.KeySource]string{one: i.pem, two: i.pem})
	i.from = two
	r.expect("c", "")
	again := newRig(t, i, dir)
	again.Want(t.Context(), map[model.KeySource]string{one: "", two: ""})
	for from, want := range map[model.KeySource]string{one: "a", two: "c"} {
		i.from = from
		if ids, _ := again.set(); ids != want {
			t.Errorf("the keys by %s are %q, want %q", from.Authorities, ids, want)
		}
	}
	again.Want(t.Context(), map[model.KeySource]string{two: ""})
	i.from = two
	i.from.Interval = time.Hour
	again.want("")
	if ids, _ := again.set(); ids != "c" {
		t.Errorf("with another interval, the keys are %q", ids)
	}
}

// TestKeysAreAwaited: until the source was asked once, it is not known that there are no keys.
func TestKeysAreAwaited(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	i.does(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
		panic(http.ErrAbortHandler)
	})
	r := newRig(t, i, t.TempDir())
	r.Pause = func(time.Duration, int) time.Duration { return time.Hour }
	r.want(i.pem)
	<-asked
	if !r.IsAwaited() {
		t.Error("no keys are awaited")
	}
	close(answer)
	r.expect("", "EOF")
	if r.IsAwaited() {
		t.Error("keys are awaited that do not come")
	}
}

// TestConditionalRequests: what did not change is not sent again, once its keys are in use. An answer whose keys are
// not is asked for again, whatever ETag it has.
func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	tag, body := atomic.Pointer[string]{}, atomic.Pointer[string]{}
	serve := func(etag, keys string) { tag.Store(&etag); body.Store(&keys) }
	unchanged := make(chan string, 1)
	i.does(func(w http.ResponseWriter, r *http.Request) {
		if *tag.Load() != "" {
			w.Header().Set("ETag", *tag.Load())
		}
		if known := r.Header.Get("If-None-Match"); known != "" && known == *tag.Load() {
			w.WriteHeader(http.StatusNotModified)
			select {
			case unchanged <- known:
			default:
			}
			return
		}
		_, _ = io.WriteString(w, *body.Load())
	})
	const bad = "the answer has no key that can be used, or two with one kid"
	serve(`"1"`, `{"keys":[]}`)
	r := newRig(t, i, t.TempDir())
	r.want(i.pem)
	expect := func(wantIDs, wantProblem string) {
		t.Helper()
		r.expect(wantIDs, wantProblem)
		for range 3 { // what comes later changes nothing
			<-r.asked
		}
		r.expect(wantIDs, wantProblem)
	}
	expect("", bad)
	serve(`"2"`, first)
	expect("a", "")
	if known := <-unchanged; known != `"2"` {
		t.Errorf("the answer %s is known", known)
	}
	serve(`"3"`, `{"keys":[]}`)
	expect("a", bad)
	serve("", second)
	expect("c", "")
	serve(`"2"`, first)
	expect("a", "")
}

// TestUnverified: an issuer has to show a certificate that can be verified.
func TestUnverified(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	r := newRig(t, i, t.TempDir())
	r.want("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	r.expect("", "certificate signed by unknown authority")
}

// TestRefusedAddresses: nobody reaches this machine, its link or a cloud's credentials by way of a Gateway, whatever
// name leads there. Issuers in the cluster can be reached.
func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	r := newRig(t, i, t.TempDir())
	r.local = false
	r.want(i.pem)
	r.expect("", "keys are not fetched from 127.0.0.1, which is this machine")
	for want, addresses := range map[string][]string{
		"this machine": {
			"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.0.0.1", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1",
		},
		"an address of the link alone": {
			"169.254.169.254", "169.254.170.2", "192.0.0.192", "fe80::1", "fe80::1%eth0", "fe80::a9fe:a9fe", "::ffff:169.254.169.254",
			"64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:2::a9fe:a9fe", "2002:a9fe:a9fe::1",
		},
		"a multicast or broadcast address": {"224.0.0.1", "239.1.1.1", "255.255.255.255", "ff02::1"},
		"a metadata service of a cloud": {
			"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "168.63.129.16", "100.100.100.200",
			"64:ff9b::6464:64c8",
		},
		"": {
			"10.0.0.1", "10.96.0.10", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.201", "240.0.0.1", "192.0.2.1", "2001:db8::1",
			"fd00::1", "fd00:10:96::a", "fd00:42::43", "64:ff9b::c000:201", "2002:c000:201::1",
		},
	} {
		for _, address := range addresses {
			if got := refused(netip.MustParseAddr(address)); got != want {
				t.Errorf("%s is %q, want %q", address, got, want)
			}
		}
	}
}

// TestSlowIssuer: a source that does not answer is given up, also while it sends a body.
func TestSlowIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient("", true)
		c.http.Transport = roundTripper(func(request *http.Request) (*http.Response, error) {
			body, sender := io.Pipe()
			context.AfterFunc(request.Context(), func() { _ = sender.CloseWithError(request.Context().Err()) })
			return &http.Response{StatusCode: http.StatusOK, Body: body, Header: http.Header{}}, nil
		})
		begin := time.Now()
		_, err := c.fetch(t.Context(), "https://issuer/")
		if err == nil || err.Error() != "there was no answer within 10s" || time.Since(begin) != timeout {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// TestPause: not all proxies ask at once, and one that failed asks soon, but not ever more often.
func TestPause(t *testing.T) {
	for _, test := range []struct {
		failures int
		want     time.Duration
	}{{0, 10 * time.Minute}, {1, 5 * time.Second}, {2, 10 * time.Second}, {3, 20 * time.Second}, {8, 10 * time.Minute}, {1000, 10 * time.Minute}} {
		for range 100 {
			if got := pause(10*time.Minute, test.failures); got < test.want*9/10 || got > test.want*11/10 {
				t.Errorf("after %d failures: %s, want about %s", test.failures, got, test.want)
			}
		}
	}
}

// TestPlain: messages leave out what differs from try to try.
func TestPlain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: 40001}, Err: errors.New("connection refused")}
	for want, err := range map[string]error{
		"a":                                 errors.New("a"),
		"dial: connection refused":          &url.Error{Op: "Get", URL: "https://issuer/", Err: refused},
		"EOF":                               &url.Error{Op: "Get", URL: "https://issuer/", Err: io.EOF},
		"there was no answer within 10s":    &url.Error{Op: "Get", URL: "https://issuer/", Err: context.DeadlineExceeded},
		"read: connection reset by a proxy": &net.OpError{Op: "read", Err: errors.New("connection reset by a proxy")},
	} {
		if got := plain(err); got.Error() != want {
			t.Errorf("%v is told as %q, want %q", err, got, want)
		}
	}
}
