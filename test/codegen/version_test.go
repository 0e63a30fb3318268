package codegen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// prepareWebhook says where the conversion webhook is to listen, and makes its certificate.
func prepareWebhook(t *testing.T, r *recipe) {
	t.Helper()
	r.env = append(r.env, fmt.Sprint("WEBHOOK=localhost:", haproxytest.FreePort(t)))
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{"localhost"})
	for name, content := range map[string][]byte{"ca.crt": authority.PEM, "tls.crt": pair.Certificate, "tls.key": pair.Key} {
		must.Do(t, os.WriteFile(filepath.Join(r.tree, name), content, 0o600))
	}
}

// checkNewVersion: what was written as v1 is stored as v2, where the typed client of v2 finds and changes it.
func checkNewVersion(t *testing.T, r *recipe) {
	t.Helper()
	copyFile(t, "testdata/newversion/main.go", filepath.Join(r.tree, "newversion/main.go"))
	want := "30s 40s\n"
	if got := testenv.Run(t, r.tree, r.env, "go", "run", "./newversion", server.Kubeconfig); !strings.HasSuffix(got, want) {
		t.Errorf("the program that uses v2 prints %q, want %q", got, want)
	}
}
