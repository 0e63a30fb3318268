package main

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// TestPermissions compares what the ClusterRole grants, which is generated from the markers in controller.go, with what
// is asked for at the start.
func TestPermissions(t *testing.T) {
	source, err := os.ReadFile("controller.go")
	must(t, err)
	var granted, leases []string
	marker := regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:groups=([^,]*),(namespace=[^,]*,)?resources=([^,]*),verbs=(\S*)$`)
	for _, match := range marker.FindAllStringSubmatch(string(source), -1) {
		for resource := range strings.SplitSeq(match[3], ";") {
			permission := strings.Trim(match[1], `"`) + "/" + resource + ": " + strings.ReplaceAll(match[4], ";", ",")
			if match[2] == "" {
				granted = append(granted, permission)
			} else {
				leases = append(leases, permission)
			}
		}
	}
	expectPermissions(t, granted, slices.Concat(preflight.Permissions, preflight.ClusterPermissions))
	expectPermissions(t, leases, preflight.LeasePermissions)
	for _, resource := range []string{"secrets", "configmaps", "*"} {
		if strings.Contains(strings.Join(granted, " "), "/"+resource+":") {
			t.Errorf("the operator may read %s", resource)
		}
	}
}

func expectPermissions(t *testing.T, granted []string, permissions []preflight.Permission) {
	t.Helper()
	var asked []string
	for _, permission := range permissions {
		asked = append(asked, permission.Group+"/"+permission.Resource+": "+strings.Join(permission.Verbs, ","))
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if !slices.Equal(granted, asked) {
		t.Errorf("granted\n  %s\nasked for\n  %s", strings.Join(granted, "\n  "), strings.Join(asked, "\n  "))
	}
}
