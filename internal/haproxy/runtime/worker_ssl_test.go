package runtime

import (
	"crypto/sha1" //nolint:gosec // it is what HAProxy shows
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
)

func TestShowCertificate(t *testing.T) {
	const fingerprint = "B1D5DA9E2D01C6A30196754F67619C8A86B44C3D"
	tests := map[string]struct {
		file, answer string
		want         Certificate
		err          string
	}{
		"as 2.6 answers": {
			"/c/tls.crt", "Filename: /c/tls.crt\nStatus: Used\nSerial: 6F2F\nnotBefore: Nov 21 07:00:36 2026 GMT\nSHA1 FingerPrint: " + fingerprint + "\n\n",
			Certificate{Serial: "6F2F", Fingerprint: fingerprint}, "",
		},
		"one it does not have": {
			"/c/tls.crt", "Can't display the certificate: Not found or the certificate is a bundle!\n\n", Certificate{}, ErrNoCertificate.Error(),
		},
		"something else":            {"/c/tls.crt", "Unknown command\n", Certificate{}, `unexpected answer to show ssl cert: "Unknown command"`},
		"no answer":                 {"/c/tls.crt", "", Certificate{}, "without an answer"},
		"a path that says too much": {"/c/tls.crt;quit", "", Certificate{}, "is not a path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			worker := NewWorker(answering(t, map[string]string{"show ssl cert /c/tls.crt\n": test.answer}))
			got, err := worker.Certificate(t.Context(), test.file)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// What counts is what HAProxy has loaded, not what the file holds by now.
func TestShowCertificateOfHAProxy(t *testing.T) {
	authority, dir := certtest.NewAuthority(t), t.TempDir()
	file := filepath.Join(dir, "tls.crt")
	write := func(pair certtest.Pair) {
		t.Helper()
		for name, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := authority.Issue(t, []string{"a.example.com"})
	write(first)
	p := &proxy{port: haproxytest.FreePort(t)}
	p.Instance = &haproxytest.Instance{Paths: haproxytest.NewPaths(t)}
	tls := fmt.Sprintf("\nglobal\n    ssl-load-extra-del-ext\nfrontend tls\n    bind 127.0.0.1:%d ssl crt %s\n", haproxytest.FreePort(t), file)
	p.Instance = haproxytest.Start(t, p.Paths, p.files("one", tls))
	worker := NewWorker(p.WorkerSocket)
	write(authority.Issue(t, []string{"b.example.com"}))
	got, err := worker.Certificate(t.Context(), file)
	want := Certificate{
		Serial: fmt.Sprintf("%X", first.Leaf.SerialNumber), Fingerprint: fmt.Sprintf("%X", sha1.Sum(first.Leaf.Raw)), //nolint:gosec // see above
	}
	if err != nil || strings.TrimLeft(got.Serial, "0") != want.Serial || got.Fingerprint != want.Fingerprint {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := worker.Certificate(t.Context(), filepath.Join(dir, "other.crt")); !errors.Is(err, ErrNoCertificate) {
		t.Errorf("a file that is not in use: %v", err)
	}
}
