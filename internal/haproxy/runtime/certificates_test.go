package runtime

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
)

// certificateRig is a HAProxy with a certificate of a file, which is that of every name, and what it takes to check others.
type certificateRig struct {
	*proxy
	t         *testing.T
	authority *certtest.Authority
	file      string
	https     int32
}

func newCertificateRig(t *testing.T, first certtest.Pair, authority *certtest.Authority) *certificateRig {
	t.Helper()
	p := &proxy{port: haproxytest.FreePort(t), Instance: &haproxytest.Instance{Paths: haproxytest.NewPaths(t)}}
	r := &certificateRig{proxy: p, t: t, authority: authority, file: filepath.Join(t.TempDir(), "tls.pem"), https: haproxytest.FreePort(t)}
	r.write(first)
	list := filepath.Join(t.TempDir(), "certificates.list")
	must(t, os.WriteFile(list, []byte(r.file+" [ssl-min-ver TLSv1.2] shop.example.com\n"), 0o600))
	p.Instance = haproxytest.Start(t, p.Paths, p.files("one", fmt.Sprintf(
		"backend certificates\nfrontend tls\n    bind 127.0.0.1:%d ssl crt-list %s\n    http-request return status 200\n", r.https, list)))
	p.worker, p.master = NewWorker(p.WorkerSocket), NewMaster(filepath.Join(p.Paths.RunDir, "master.sock"))
	return r
}

func pem(pair certtest.Pair) []byte { return slices.Concat(pair.Certificate, pair.Key) }

func (r *certificateRig) write(pair certtest.Pair) { must(r.t, os.WriteFile(r.file, pem(pair), 0o600)) }

func (r *certificateRig) expectShown(pair certtest.Pair) {
	r.t.Helper()
	connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.https), &tls.Config{RootCAs: r.authority.Pool(), ServerName: "shop.example.com"})
	must(r.t, err)
	defer connection.Close() //nolint:errcheck // nothing was sent
	if !connection.ConnectionState().PeerCertificates[0].Equal(pair.Leaf) {
		r.t.Error("another certificate is shown")
	}
}

// A certificate is used at once, and without a reload; one that HAProxy has nowhere changes nothing.
func TestReplaceCertificate(t *testing.T) {
	authority, names := certtest.NewAuthority(t), []string{"shop.example.com"}
	first, second := authority.Issue(t, names), authority.Issue(t, names, certtest.RSA(t, 2048))
	r := newCertificateRig(t, first, authority)
	r.expectShown(first)
	before, err := r.worker.Process(t.Context())
	must(t, err)
	must(t, r.worker.ReplaceCertificate(t.Context(), r.file, pem(second)))
	r.expectShown(second)
	must(t, r.worker.ReplaceCertificate(t.Context(), "/nowhere/tls.pem", pem(first)))
	r.expectShown(second)
	if after, err := r.worker.Process(t.Context()); after != before {
		t.Errorf("HAProxy was reloaded: %v", err)
	}
}

// What HAProxy refuses it names, and it goes on with what it had. Nothing is left of it.
func TestCheckCertificate(t *testing.T) {
	authority, names := certtest.NewAuthority(t), []string{"shop.example.com"}
	good := authority.Issue(t, names)
	r := newCertificateRig(t, good, authority)
	var many []string
	for i := range 900 {
		many = append(many, fmt.Sprintf("name-%d.shop.example.com", i))
	}
	fitting := certtest.Pair{Certificate: certtest.Refused().Certificate, Key: certtest.RefusedCertificatesKey()}
	wrong := certtest.Pair{Certificate: good.Certificate, Key: authority.Issue(t, names).Key}
	huge := certtest.Pair{Certificate: slices.Repeat(good.Certificate, 300), Key: good.Key}
	for name, test := range map[string]struct {
		pair certtest.Pair
		want string
	}{
		"a good one":                         {good, ""},
		"one with empty lines":               {certtest.Pair{Certificate: append(good.Certificate, "\n\n"...), Key: good.Key}, ""},
		"one with many names":                {authority.Issue(t, many), ""},
		"one of a key that Go does not know": {fitting, ""},
		"one whose key is another's":         {certtest.Refused(), "inconsistencies between private key and certificate loaded"},
		"another one whose key is another's": {wrong, "inconsistencies between private key and certificate loaded"},
		"a key that is too small": {
			authority.Issue(t, names, certtest.RSA(t, 1024)), "unable to load SSL certificate into SSL Context: ee key too small",
		},
		"an authority whose key is too small": {certtest.Weak(t, names), "unable to load chain certificate into SSL Context: ca key too small"},
		"no certificate":                      {certtest.Pair{Certificate: []byte("hello\n")}, "unable to load certificate from file: no start line"},
		"one that is too large":               {huge, "bytes: HAProxy takes"},
	} {
		err := r.worker.CheckCertificate(t.Context(), pem(test.pair))
		var refused *RefusedCertificateError
		if is := errors.As(err, &refused); test.want == "" && err != nil || test.want != "" && (!is || !strings.Contains(refused.Reason, test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if test.want != "" {
			if err := r.worker.ReplaceCertificate(t.Context(), r.file, pem(test.pair)); err == nil {
				t.Errorf("%s is used", name)
			}
			r.expectShown(good)
		}
	}
	if left := r.Worker("show ssl cert"); strings.Contains(left, checked) || strings.Contains(left, "*") {
		t.Errorf("HAProxy still has\n%s", left)
	}
	if left := r.Worker("show servers state certificates"); strings.Contains(left, checked) {
		t.Errorf("HAProxy still has\n%s", left)
	}
}
