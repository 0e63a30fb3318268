package dataplanetest_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
)

// pair issues a certificate for the names, as crypto/tls takes it.
func pair(t testing.TB, authority *certtest.Authority, names ...string) tls.Certificate {
	t.Helper()
	return keyPair(t, authority.Issue(t, names))
}

func keyPair(t testing.TB, issued certtest.Pair) tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatalf("failed to pair a certificate with its key: %v", err)
	}
	return certificate
}

// writeSecret writes a certificate and its key where HAProxy looks for a Secret's.
func writeSecret(t testing.TB, paths ir.Paths, secret string, pair certtest.Pair) {
	t.Helper()
	dir := filepath.Join(paths.CertificateDir, secret)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("failed to make a directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.pem"), slices.Concat(pair.Certificate, pair.Key), 0o600); err != nil {
		t.Fatalf("failed to write a certificate: %v", err)
	}
}

// withRealCertificates gives an Input, whose certificates are only named, files and authorities that HAProxy can load.
func withRealCertificates(t testing.TB, in render.Input) render.Input {
	t.Helper()
	in.Paths.CertificateDir = t.TempDir()
	ca := certtest.NewAuthority(t)
	for _, certificates := range in.Certificates {
		for _, c := range certificates {
			writeSecret(t, in.Paths, c.Secret, ca.Issue(t, c.Names))
		}
	}
	if secret := in.Table.BackendCertificate; secret != "" {
		writeSecret(t, in.Paths, secret, ca.Issue(t, nil))
	}
	authorities := map[string][]byte{}
	for name := range in.Authorities {
		authorities[name] = ca.PEM
	}
	in.Authorities = authorities
	return in
}

// listWorld has a port that refuses names it has no certificate for, and one that shows its first certificate then.
const listWorld = `
spec:
  listeners:
    - {name: one, port: 443, protocol: HTTPS, hostname: one.io, tls: {certificateRefs: [{name: one}]}}
    - {name: wild, port: 443, protocol: HTTPS, hostname: "*.io", tls: {certificateRefs: [{name: wild}]}}
    - {name: any, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: any}]}}
  routes: [{name: r, rules: [{backendRefs: [{name: one, port: 80}]}]}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
certificates:
  one: [{secret: one, names: [one.io]}]
  wild: [{secret: wild, names: ["*.io"]}]
  any: [{secret: any, names: [any.io]}, {secret: more, names: [more.io]}]
`

// TestListChanges: which changes of certificates HAProxy gets by commands, and which take a reload.
func TestListChanges(t *testing.T) { //nolint:funlen // a flat table
	const line = "/etc/haproxy-certificates/%s/tls.pem [ssl-min-ver TLSv1.2] "
	change := func(port int, add, remove []string) string {
		byFile := func(lines []string) map[string][]string {
			if len(lines) == 0 {
				return map[string][]string{}
			}
			return map[string][]string{fmt.Sprintf("certificates-%d.list", port): lines}
		}
		return fmt.Sprint(byFile(add), byFile(remove))
	}
	of := func(secret, names string) string { return fmt.Sprintf(line, secret) + names }
	for name, test := range map[string]struct {
		from, to string
		want     string
		reload   string
	}{
		"nothing": {"", "", change(0, nil, nil), ""},
		"one more": {
			"{secret: one, names: [one.io]}", "{secret: one, names: [one.io]}, {secret: new, keyType: RSA, names: [one.io]}",
			change(443, []string{of("new", "one.io")}, nil), "",
		},
		"the first of a strict port goes": {
			"one: [{secret: one, names: [one.io]}]", "",
			change(443, nil, []string{of("one", "one.io")}), "",
		},
		"other names": {
			`{secret: wild, names: ["*.io"]}`, `{secret: wild, names: [a.io, b.io]}`,
			change(443, []string{of("wild", "a.io b.io")}, []string{of("wild", "*.io")}), "",
		},
		"the second of a port that is not strict": {
			"{secret: more, names: [more.io]}", "{secret: more, names: [other.io]}",
			change(444, []string{of("more", "other.io")}, []string{of("more", "more.io")}), "",
		},
		"the first of a port that is not strict, for other names": {
			"{secret: any, names: [any.io]}", "{secret: any, names: [other.io]}",
			change(444, []string{of("any", "other.io")}, []string{of("any", "any.io")}), "",
		},
		"the first of a port that is not strict": {"{secret: any, names: [any.io]}", "{secret: new, names: [any.io]}", change(0, nil, nil), ir.ReloadCertificates},
		"the minimum version of one": {
			"tls: {certificateRefs: [{name: wild}]}", "tls: {certificateRefs: [{name: wild}], minVersion: TLSv1.3}",
			change(443, []string{strings.Replace(of("wild", "*.io"), "1.2", "1.3", 1)}, []string{of("wild", "*.io")}), "",
		},
		"an exact name with another type of key": {
			"{secret: one, names: [one.io]}", "{secret: one, keyType: RSA, names: [one.io]}",
			change(443, []string{of("wild", "*.io !one.io")}, []string{of("wild", "*.io")}), "",
		},
		"the same, of one listener": {
			`{secret: wild, names: ["*.io"]}`, `{secret: wild, names: ["*.io"]}, {secret: exact, keyType: RSA, names: [two.io]}`,
			change(443, []string{of("exact", "two.io"), of("wild", "*.io !two.io")}, []string{of("wild", "*.io")}), "",
		},
		"a name that shares a certificate": {
			`{secret: wild, names: ["*.io"]}`, `{secret: one, names: ["*.io"]}`,
			change(443, []string{of("one", "*.io one.io")}, []string{of("one", "one.io"), of("wild", "*.io")}), "",
		},
		"the first of a port": {"any: [{secret: any, names: [any.io]}, {secret: more, names: [more.io]}]", "", change(0, nil, nil), ir.ReloadPorts},
	} {
		running := render.Render(rendertest.Parse(t, listWorld).Input(t))
		if !strings.Contains(listWorld, test.from) {
			t.Fatalf("%s: there is no %s", name, test.from)
		}
		desired := render.Render(rendertest.Parse(t, strings.Replace(listWorld, test.from, test.to, 1)).Input(t))
		p := plan.Diff(desired, running)
		got := fmt.Sprint(p.AddCertificates, p.RemoveCertificates)
		if p.Reload != "" {
			got = change(0, nil, nil)
		}
		if p.Reload != test.reload || got != test.want {
			t.Errorf("%s: got %q and %s, want %q and %s", name, p.Reload, got, test.reload, test.want)
		}
		if again := plan.Diff(desired, plan.Change(p.After, desired, p.After, true).After); !again.Empty() {
			t.Errorf("%s: when it was carried out, the plan is %+v", name, again)
		}
	}
}
