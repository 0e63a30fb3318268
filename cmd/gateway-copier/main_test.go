package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		arguments []string
		options   options
		want      string
	}{
		"nothing is needed":    {nil, options{}, ""},
		"a cluster":            {[]string{"-kubeconfig=file", "-master=https://api"}, options{kubeconfig: "file", master: "https://api"}, ""},
		"its version":          {[]string{"-version"}, options{}, "version"},
		"an argument too many": {[]string{"web"}, options{}, `unexpected argument "web"`},
		"an unknown flag":      {[]string{"-kubeconf=file"}, options{}, "-kubeconf"},
		"its help":             {[]string{"-help"}, options{}, flag.ErrHelp.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var o options
			err := o.program().Parse(flag.NewFlagSet("gateway-copier", flag.ContinueOnError), test.arguments)
			if test.want == "" && (err != nil || o != test.options) {
				t.Errorf("got %+v, error %v", o, err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got error %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestMissingKubeconfig(t *testing.T) {
	err := (&options{kubeconfig: "testdata/no-such-file"}).run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "testdata/no-such-file does not exist") {
		t.Errorf("got the error %v, want one that names the file", err)
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Error("the error repeats what the system said")
	}
}

// TestPermissions: of Secrets, it has what it needs, and it changes nothing else.
func TestPermissions(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "copier", "copier.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				got = append(got, strings.TrimSpace(strings.Join(rule.APIGroups, " ")+" "+resource+": "+strings.Join(rule.Verbs, " ")))
			}
		}
	}
	want := []string{
		"secrets: list watch create update delete", "namespaces: list watch",
		"gateway.networking.k8s.io gatewayclasses: list watch", "gateway.networking.k8s.io gateways: list watch",
		"gateway.networking.k8s.io listenersets: list watch", "gateway.networking.k8s.io referencegrants: list watch",
	}
	if !slices.Equal(got, want) {
		t.Errorf("its permissions are\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
