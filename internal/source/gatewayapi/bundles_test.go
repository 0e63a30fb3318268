package gatewayapi_test

import (
	"strings"
	"testing"

	"gateway/internal/source/gatewayapi"
)

// TestWithoutTrustBundles: where the API server has none, a reference has the wrong kind, and opens nothing. What needs
// none goes on.
func TestWithoutTrustBundles(t *testing.T) {
	objects := read(t, "testdata/bundles.yaml")
	objects.NoTrustBundles = true
	got := describe(gatewayapi.Translate(objects))
	const problem = "the API server has no ClusterTrustBundles of certificates.k8s.io/v1: name a ConfigMap"
	for _, want := range []string{
		`good: 0 routes of [HTTPRoute GRPCRoute] Accepted=False(NoValidCACertificate) "no CA certificate for clients can be used" ResolvedRefs=False(InvalidCACertificateKind) "caCertificateRefs[0]: ` + problem,
		`both: 0 routes of [HTTPRoute GRPCRoute] Accepted=True ResolvedRefs=False(InvalidCACertificateKind) "caCertificateRefs[1]: ` + problem,
		`BackendTLSPolicy team/web at gw: Accepted=False(NoValidCACertificate) "no CA certificate can be used: caCertificateRefs[0]: ` + problem + `" ResolvedRefs=False(InvalidKind)`,
		"HTTPRoute team/web at gw/http: Accepted=True",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}
