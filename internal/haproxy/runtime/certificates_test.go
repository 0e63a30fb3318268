package runtime

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	encodedpem "encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
)

// certificateRig is a HAProxy with one certificate of a file, which it shows for every name, and with a backend to
// check others.
type certificateRig struct {
	*proxy
	t         *testing.T
	authority *certtest.Authority
	https     int32
	// file is the certificate's path, line the only line of the list.
	file, line, list string
}

func newCertificateRig(t *testing.T, first certtest.Pair, authority *certtest.Authority) *certificateRig {
	t.Helper()
	p := &proxy{port: haproxytest.FreePort(t), Instance: &haproxytest.Instance{Paths: haproxytest.NewPaths(t)}}
	r := &certificateRig{proxy: p, t: t, authority: authority, file: filepath.Join(t.TempDir(), "tls.pem"), https: haproxytest.FreePort(t)}
	r.write(first)
	r.list, r.line = filepath.Join(t.TempDir(), "certificates.list"), r.file+" [ssl-min-ver TLSv1.2] shop.example.com"
	must.Do(t, os.WriteFile(r.list, []byte(r.line+"\n"), 0o600))
	p.Instance = haproxytest.Start(t, p.Paths, p.files("one", fmt.Sprintf(
		"backend certificates\nfrontend tls\n    bind 127.0.0.1:%d ssl crt-list %s strict-sni\n    http-request return status 200\n", r.https, r.list)))
	p.worker, p.master = NewWorker(p.WorkerSocket), NewMaster(filepath.Join(p.Paths.RunDir, "master.sock"))
	return r
}

func pem(pair certtest.Pair) []byte { return slices.Concat(pair.Certificate, pair.Key) }

func (r *certificateRig) write(pair certtest.Pair) {
	must.Do(r.t, os.WriteFile(r.file, pem(pair), 0o600))
}

func (r *certificateRig) expectShown(pair certtest.Pair) {
	r.t.Helper()
	connection := must.Get(tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.https), &tls.Config{RootCAs: r.authority.Pool(), ServerName: "shop.example.com"}))(r.t)
	defer connection.Close() //nolint:errcheck // nothing was sent
	if !connection.ConnectionState().PeerCertificates[0].Equal(pair.Leaf) {
		r.t.Error("another certificate is shown")
	}
}

// A certificate is used at once, and without a reload; one that HAProxy has nowhere changes nothing, until it is in a
// list.
func TestReplaceCertificate(t *testing.T) {
	authority, names := certtest.NewAuthority(t), []string{"shop.example.com"}
	first, second := authority.Issue(t, names), authority.Issue(t, names, certtest.RSA(t, 2048))
	r := newCertificateRig(t, first, authority)
	r.expectShown(first)
	before := must.Get(r.worker.Process(t.Context()))(t)
	must.Do(t, r.worker.ReplaceCertificate(t.Context(), r.file, pem(second)))
	r.expectShown(second)
	must.Do(t, r.worker.ReplaceCertificate(t.Context(), "/nowhere/tls.pem", pem(first)))
	r.expectShown(second)
	of := func(file string, filters ...string) ir.CertificateLine {
		return ir.CertificateLine{File: file, Options: "ssl-min-ver TLSv1.2", Filters: filters}
	}
	list, line := r.list, of("/nowhere/tls.pem", "shop.example.com", "!not.example.com")
	own, other := of(r.file, "shop.example.com"), of(r.file, "other.example.com")
	for range 3 {
		must.Do(t, r.worker.AddCertificates(t.Context(), list, []ir.CertificateLine{line, other}))
		must.Do(t, r.worker.RemoveCertificates(t.Context(), list, []ir.CertificateLine{own}))
		r.expectShown(first)
		must.Do(t, r.worker.AddCertificates(t.Context(), list, []ir.CertificateLine{own}))
		must.Do(t, r.worker.RemoveCertificates(t.Context(), list, []ir.CertificateLine{line, other}))
		r.expectShown(second)
	}
	if err := r.worker.RemoveCertificates(t.Context(), list, []ir.CertificateLine{line}); err == nil {
		t.Error("what is not there is removed")
	}
	if err := r.worker.AddCertificates(t.Context(), list, []ir.CertificateLine{of("/unknown/tls.pem", "x")}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("what HAProxy does not have: %v", err)
	}
	if after, err := r.worker.Process(t.Context()); after != before {
		t.Errorf("HAProxy was reloaded: %v", err)
	}
}

// HAProxy names the certificates that it refuses, and goes on with its earlier ones. Nothing is left of the refused
// ones.
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

// Who handed certificates over before may have been killed halfway: HAProxy takes one at a time. That is no fault of
// the next one.
func TestCertificatesAfterOneThatWasNotCommitted(t *testing.T) {
	authority, names := certtest.NewAuthority(t), []string{"shop.example.com"}
	first, second := authority.Issue(t, names), authority.Issue(t, names)
	r := newCertificateRig(t, first, authority)
	leave := func(file string) {
		t.Helper()
		r.Worker("new ssl cert " + file)
		if reply := r.Worker("set ssl cert " + file + " <<\n" + string(pem(first)) + "\n"); !strings.Contains(reply, "Transaction ") {
			t.Fatal(reply)
		}
	}
	leave(checked)
	must.Do(t, r.worker.ReplaceCertificate(t.Context(), r.file, pem(second)))
	r.expectShown(second)
	leave("/nowhere/tls.pem")
	must.Do(t, r.worker.CheckCertificate(t.Context(), pem(first)))
	must.Do(t, r.worker.ReplaceCertificate(t.Context(), r.file, pem(first)))
	r.expectShown(first)
}

// A certificate is taken whatever its length.
func TestCertificatesOfAnyLength(t *testing.T) {
	authority, names := certtest.NewAuthority(t), []string{"shop.example.com"}
	pair := authority.Issue(t, names)
	r := newCertificateRig(t, pair, authority)
	for size := 1000; size < 60_000; size += 3989 {
		filler := strings.Repeat(strings.Repeat("#", 63)+"\n", size/64)
		if err := r.worker.ReplaceCertificate(t.Context(), r.file, append([]byte(filler), pem(pair)...)); err != nil {
			t.Errorf("%d bytes more than the certificate: %v", size, err)
		}
	}
	r.expectShown(pair)
}

// TestPadded: a command that is longer than a buffer ends in the middle of one.
func TestPadded(t *testing.T) {
	const command, middle = "set ssl cert x <<\n", 8 << 10
	for size := 1; size < 70_000; size += 7 {
		pem := strings.Repeat("a", size)
		got := padded(command, pem)
		comment, ok := strings.CutPrefix(strings.TrimSuffix(got, pem), command)
		if !ok || !strings.HasSuffix(got, pem) || strings.Contains(comment, "\n\n") || strings.Trim(comment, "#\n") != "" {
			t.Fatalf("%d bytes: there is more than a comment: %.40q", size, comment)
		}
		if most := len(command) + size; most <= maxCommand {
			if comment != "" {
				t.Errorf("%d bytes: a comment of %d bytes", size, len(comment))
			}
		} else if end := len(got) % (2 * middle); end > middle || end <= middle-64 {
			t.Errorf("%d bytes: it ends %d bytes into a buffer", size, end)
		}
	}
}

// TestSureCertificates: HAProxy takes all pairs of which gateway-keys is sure. It need not be asked about them.
func TestSureCertificates(t *testing.T) {
	authority := certtest.NewAuthority(t)
	r := newCertificateRig(t, authority.Issue(t, []string{"shop.example.com"}), authority)
	again := func(pair certtest.Pair, encode func(key any) (string, []byte)) certtest.Pair {
		block, _ := encodedpem.Decode(pair.Key)
		key := must.Get(x509.ParsePKCS8PrivateKey(block.Bytes))(t)
		block.Type, block.Bytes = encode(key)
		pair.Key = encodedpem.EncodeToMemory(block)
		return pair
	}
	chained := authority.Issue(t, nil, certtest.RSA(t, 4096))
	chained.Certificate = slices.Concat(chained.Certificate, authority.PEM)
	sec1 := again(authority.Issue(t, nil), func(key any) (string, []byte) {
		der := must.Get(x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey)))(t)
		return "EC PRIVATE KEY", der
	})
	pkcs1 := again(authority.Issue(t, nil, certtest.RSA(t, 2048)), func(key any) (string, []byte) {
		return "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key.(*rsa.PrivateKey))
	})
	weak := certtest.Weak(t, nil)
	for name, test := range map[string]struct {
		pair certtest.Pair
		sure bool
	}{
		"P-256":                            {authority.Issue(t, nil), true},
		"P-384":                            {authority.Issue(t, nil, certtest.ECDSA(t, elliptic.P384())), true},
		"P-521":                            {authority.Issue(t, nil, certtest.ECDSA(t, elliptic.P521())), true},
		"P-224":                            {authority.Issue(t, nil, certtest.ECDSA(t, elliptic.P224())), false},
		"RSA":                              {authority.Issue(t, nil, certtest.RSA(t, 2048)), true},
		"a chain":                          {chained, true},
		"SEC 1":                            {sec1, true},
		"PKCS #1":                          {pkcs1, true},
		"of an authority with a short key": {weak, false},
		"of a kind that Go does not know":  {certtest.Refused(), false},
	} {
		pair, problem := certificates.Join(test.pair.Certificate, test.pair.Key)
		if problem != "" || pair.Sure != test.sure {
			t.Errorf("%s: sure is %t, problem %q", name, pair.Sure, problem)
		}
		if err := r.worker.CheckCertificate(t.Context(), pair.Joined); pair.Sure && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForgetCertificate: HAProxy forgets what no list has.
func TestForgetCertificate(t *testing.T) {
	authority := certtest.NewAuthority(t)
	first := authority.Issue(t, []string{"shop.example.com"})
	r := newCertificateRig(t, first, authority)
	must.Do(t, r.worker.ReplaceCertificate(t.Context(), "/nowhere/tls.pem", pem(first)))
	for range 2 {
		must.Do(t, r.worker.ForgetCertificate(t.Context(), "/nowhere/tls.pem"))
	}
	if shown := r.Worker("show ssl cert\n"); strings.Contains(shown, "nowhere") {
		t.Errorf("it has %s", shown)
	}
	if err := r.worker.ForgetCertificate(t.Context(), r.file); !errors.Is(err, ErrCertificateInUse) {
		t.Errorf("one that is in use: %v", err)
	}
	r.expectShown(first)
}

// TestTwoAtOnce: HAProxy takes certificates from one program and lines of a list from another at the same time.
func TestTwoAtOnce(t *testing.T) {
	authority, dir := certtest.NewAuthority(t), t.TempDir()
	first := authority.Issue(t, []string{"shop.example.com"})
	r := newCertificateRig(t, first, authority)
	r.worker.Exclusively(dir)
	must.Do(t, r.worker.ReplaceCertificate(t.Context(), "/nowhere/tls.pem", pem(first)))
	other, replaced := NewWorker(r.WorkerSocket).Exclusively(dir), make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 100 && err == nil; i++ {
			err = other.ReplaceCertificate(t.Context(), r.file, pem(first))
		}
		replaced <- err
	}()
	line := []ir.CertificateLine{{File: "/nowhere/tls.pem", Options: "ssl-min-ver TLSv1.2", Filters: []string{"other.example.com"}}}
	for range 100 {
		must.Do(t, r.worker.AddCertificates(t.Context(), r.list, line))
		must.Do(t, r.worker.RemoveCertificates(t.Context(), r.list, line))
	}
	must.Do(t, <-replaced)
}
