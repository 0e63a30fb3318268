package kinds_test

import (
	"testing"

	"gateway/internal/kinds"
)

// TestResources: kinds have the resources that the CRDs name.
func TestResources(t *testing.T) {
	for kind, want := range map[string]string{
		"Gateway":          "gateway.networking.k8s.io/v1, Resource=gateways",
		"HTTPRoute":        "gateway.networking.k8s.io/v1, Resource=httproutes",
		"GatewayClass":     "gateway.networking.k8s.io/v1, Resource=gatewayclasses",
		"BackendTLSPolicy": "gateway.networking.k8s.io/v1, Resource=backendtlspolicies",
		"XTelemetryPolicy": "gateway.networking.x-k8s.io/v1alpha1, Resource=xtelemetrypolicies",
		"BackendPolicy":    "app.example.com/v1, Resource=backendpolicies",
		"Pod":              "/, Resource=",
	} {
		if got := kinds.ResourceOf(kind).String(); got != want {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
}
