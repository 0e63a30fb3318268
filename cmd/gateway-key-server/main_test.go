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

	"gateway/internal/must"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		arguments []string
		name      string
		want      string
	}{
		"in a pod":                  {nil, "gateway-key-server.gateway-system.svc", ""},
		"another namespace":         {[]string{"-namespace=keys"}, "gateway-key-server.keys.svc", ""},
		"another name":              {[]string{"-name=keys.example.com", "-namespaces=shop,web"}, "keys.example.com", ""},
		"a name that none has":      {[]string{"-namespace=A"}, "", `"A" is not the name of a namespace`},
		"a namespace that none has": {[]string{"-namespaces=shop,,web"}, "", `"" is not the name of a namespace`},
		"its version":               {[]string{"-version"}, "", "version"},
		"an argument too many":      {[]string{"web"}, "", `unexpected argument "web"`},
		"an unknown flag":           {[]string{"-kubeconf=file"}, "", "-kubeconf"},
		"its help":                  {[]string{"-help"}, "", flag.ErrHelp.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAMESPACE", "gateway-system")
			var o options
			err := o.program().Parse(flag.NewFlagSet("gateway-key-server", flag.ContinueOnError), test.arguments)
			if test.want == "" && (err != nil || o.name != test.name) {
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

// TestPermissions: it reads what it needs, and changes nothing but its own certificate.
func TestPermissions(t *testing.T) {
	want := map[string][]string{
		"key-server.yaml": {
			"app.example.com gateways: list watch", "app.example.com gatewayattachments: list watch",
			"gateway.networking.k8s.io gateways: list watch", "gateway.networking.k8s.io listenersets: list watch",
			"gateway.networking.k8s.io referencegrants: list watch", "namespaces: list watch",
			"rbac.authorization.k8s.io rolebindings: list watch", "rbac.authorization.k8s.io clusterrolebindings: list watch",
			"authentication.k8s.io tokenreviews: create",
			"secrets: create", "configmaps: create", "secrets gateway-key-server: get update", "configmaps gateway-key-server-ca: get update",
		},
		"secrets.yaml": {"secrets: list watch", "configmaps: list watch"},
	}
	for file, want := range want {
		content := must.Get(os.ReadFile(filepath.Join("..", "..", "artifacts", "key-server", file)))(t)
		var got []string
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			var role rbacv1.ClusterRole
			must.Do(t, yaml.Unmarshal([]byte(document), &role))
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					what := strings.Join(append(append(slices.Clone(rule.APIGroups), resource), rule.ResourceNames...), " ")
					got = append(got, strings.TrimSpace(what+": "+strings.Join(rule.Verbs, " ")))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in %s, its permissions are\n  %s\nwant\n  %s", file, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
}
