// Package schema tests the CRD on a real API server: what it admits, what it refuses and says then, and what kubectl
// shows of it.
package schema

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"gateway/test/internal/testenv"
)

var (
	server   *testenv.Server
	gateways = schema.GroupVersionResource{Group: "app.example.com", Version: "v1", Resource: "gateways"}
)

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// object is a Gateway with the spec, a YAML fragment.
func object(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	text := fmt.Sprintf("apiVersion: app.example.com/v1\nkind: Gateway\nmetadata: {name: %q}\n%s", name, spec)
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("bad YAML in the test: %v\n%s", err, text)
	}
	return &unstructured.Unstructured{Object: object}
}

// create asks the server for the object as kubectl does: unknown fields are errors.
func create(ctx context.Context, object *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return server.Dynamic.Resource(gateways).Namespace("default").Create(ctx, object, options)
}
