package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/must"
)

const content = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://from-file:6443"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

func TestLoad(t *testing.T) {
	good, broken := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "broken")
	for path, text := range map[string]string{good: content, broken: "\t"} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	tests := map[string]struct {
		master, kubeconfig, env string
		wantHost, wantErr       string
	}{
		"a kubeconfig":                        {"", good, "", "https://from-file:6443", ""},
		"$KUBECONFIG":                         {"", "", good, "https://from-file:6443", ""},
		"the flag wins over $KUBECONFIG":      {"", good, "/no/such/file", "https://from-file:6443", ""},
		"the master wins over the kubeconfig": {"https://master:6443", good, "", "https://master:6443", ""},
		"the master alone is enough":          {"http://localhost:8080", "", "", "http://localhost:8080", ""},
		"the file does not exist":             {"", "/no/such/file", "", "", "the kubeconfig file /no/such/file does not exist"},
		"$KUBECONFIG does not exist":          {"", "", "/no/such/file", "", "$KUBECONFIG is /no/such/file, which does not exist"},
		"nothing at all":                      {"", "", "", "", "there is no cluster to work on: pass -kubeconfig, or set $KUBECONFIG"},
		"the file is broken":                  {"", broken, "", "", "the kubeconfig cannot be used: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.env)
			t.Setenv("HOME", t.TempDir())
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			config, err := Load(test.master, test.kubeconfig)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got the error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != test.wantHost {
				t.Errorf("got the server %s, want %s", config.Host, test.wantHost)
			}
		})
	}
}
