package gatewayapi_test

import (
	"path/filepath"
	"slices"
	"testing"

	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
)

// TestPoliciesAreAttachedWithAnything: agents see the policies of a namespace before a route has its first backend
// there. Otherwise, the backend would get plain text until the operator has named them.
func TestPoliciesAreAttachedWithAnything(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.yaml"))(t)
	alone := 0
	for _, file := range files {
		result := gatewayapi.Translate(read(t, file))
		for parent := range result.Planes {
			attachments := result.Attachments(parent, gatewayapi.WatchedResources)
			for name, namespace := range attachments {
				for _, policies := range []string{"backendpolicies", "backendtlspolicies"} {
					if !slices.Contains(namespace.Resources, policies) {
						t.Errorf("%s: %s of %s has %v without %s", file, name, parent.Name, namespace.Resources, policies)
					}
				}
				if !slices.Contains(namespace.Resources, "httproutes") {
					alone++
				}
			}
		}
	}
	if alone == 0 {
		t.Error("there is no namespace without routes")
	}
}
