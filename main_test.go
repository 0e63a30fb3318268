package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
	"gateway/internal/operator/options"
	"gateway/internal/operator/preflight"
)

func TestMissingKubeconfig(t *testing.T) {
	err := run(t.Context(), options.Options{Kubeconfig: "testdata/no-such-file"})
	if err == nil || !strings.Contains(err.Error(), "testdata/no-such-file does not exist") {
		t.Errorf("got the error %v, want one that names the file", err)
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Error("the error repeats what the system said")
	}
}

// TestPermissions: the operator asks at its start for all that artifacts/rbac grants it, and for nothing else. Nothing
// of that is Secrets or ConfigMaps.
func TestPermissions(t *testing.T) {
	granted := grantedIn(t, "artifacts/rbac/role.yaml")
	expectPermissions(t, granted["ClusterRole"], slices.Concat(preflight.Permissions, preflight.ClusterPermissions))
	expectPermissions(t, granted["Role"], preflight.LeasePermissions)
	for _, permission := range slices.Concat(granted["ClusterRole"], granted["Role"]) {
		if strings.Contains(permission, "*") || strings.HasPrefix(permission, "/secrets ") || strings.HasPrefix(permission, "/configmaps ") {
			t.Errorf("the operator has the permission %q", permission)
		}
	}
}

// TestIngressPermissions: so it does for those that artifacts/ingress grants it, if it serves Ingresses.
func TestIngressPermissions(t *testing.T) {
	granted := grantedIn(t, "artifacts/ingress/ingress.yaml")
	expectPermissions(t, granted["ClusterRole"], preflight.IngressPermissions)
	expectPermissions(t, granted["Role"], preflight.GatewayPermissions)
}

// TestClusterWatchPermissions: so it does for those that artifacts/cluster-watch grants it.
func TestClusterWatchPermissions(t *testing.T) {
	expectPermissions(t, grantedIn(t, "artifacts/cluster-watch/role.yaml")["ClusterRole"], preflight.ClusterWatchPermissions)
}

// grantedIn returns the permissions that the roles of a file grant, by kind of role.
func grantedIn(t *testing.T, file string) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(file) //nolint:gosec // a file of ours
	must.Do(t, err)
	granted := map[string][]string{}
	for document := range strings.SplitSeq(strings.TrimPrefix(string(content), "---\n"), "\n---\n") {
		if !strings.Contains(document, "\nkind: Role\n") && !strings.Contains(document, "\nkind: ClusterRole\n") {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		must.Do(t, yaml.UnmarshalStrict([]byte(document), &role))
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs)+len(rule.ResourceNames) > 0 {
				t.Errorf("%s has a rule that is not compared: %v", role.Kind, rule)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[role.Kind] = append(granted[role.Kind], group+"/"+resource+" "+verb)
					}
				}
			}
		}
	}
	return granted
}

func expectPermissions(t *testing.T, granted []string, permissions []preflight.Permission) {
	t.Helper()
	var asked []string
	for _, permission := range permissions {
		for _, verb := range permission.Verbs {
			asked = append(asked, permission.Group+"/"+permission.Resource+" "+verb)
		}
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if len(asked) == 0 || !slices.Equal(granted, asked) {
		t.Errorf("granted\n  %s\nasked for\n  %s", strings.Join(granted, "\n  "), strings.Join(asked, "\n  "))
	}
}
