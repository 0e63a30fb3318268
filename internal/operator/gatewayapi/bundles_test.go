package gatewayapi

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

// TestTrustBundles: a policy that names a ClusterTrustBundle says what proxies report of it, and no ConfigMap of the
// same name counts. Where the cluster has none, the reference has the wrong kind.
func TestTrustBundles(t *testing.T) {
	f := newFixture(t, shop+`---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: web, name: policy}
spec: {targetRefs: [{group: "", kind: Service, name: api}], validation: {hostname: a.io, caCertificateRefs: [{group: certificates.k8s.io, kind: ClusterTrustBundle, name: public}]}}
`)
	f.kube.Lock()
	f.kube.Resources = append(f.kube.Resources, &metav1.APIResourceList{GroupVersion: "certificates.k8s.io/v1"})
	bundles := f.kube.Resources[len(f.kube.Resources)-1]
	f.kube.Unlock()
	kind := routeKind("BackendTLSPolicy")
	f.settle()
	f.programShop()
	const problem = "the API server has no ClusterTrustBundles of certificates.k8s.io/v1: name a ConfigMap"
	f.expectConditions(kind, "web", "policy",
		"ancestors[0] Accepted=False NoValidCACertificate: no CA certificate can be used: caCertificateRefs[0]: "+problem,
		"ancestors[0] ResolvedRefs=False InvalidKind: caCertificateRefs[0]: "+problem)

	bundles.APIResources = []metav1.APIResource{{Name: resourceBundles}}
	f.controller.discover(context.Background())
	f.settle()
	f.expectConditions(kind, "web", "policy", "ancestors[0] Accepted=True Accepted", "ancestors[0] ResolvedRefs=True ResolvedRefs")

	for _, test := range []struct{ kind, want string }{
		{"ConfigMap", "ancestors[0] ResolvedRefs=True ResolvedRefs"},
		{kindBundle, "ancestors[0] ResolvedRefs=False InvalidCACertificateRef: caCertificateRefs[0]: it does not exist"},
	} {
		for _, object := range f.list(ownKind("GatewayProxy")) {
			report := object.(*appv1.GatewayProxy)
			report.Status.Problems = []appv1.ProxyProblem{{
				Origin: appv1.ProblemOrigin{Kind: test.kind, Namespace: "web", Name: "public"},
				Reason: appv1.ProblemInvalidCACertificateRef, Message: "it does not exist",
			}}
			f.putObject(ownKind("GatewayProxy"), report)
		}
		f.settle()
		f.expectConditions(kind, "web", "policy", test.want)
	}

	// An API server that is not upgraded yet does not know them.
	bundles.APIResources = nil
	f.controller.discover(context.Background())
	f.settle()
	f.expectConditions(kind, "web", "policy", "ancestors[0] ResolvedRefs=False InvalidCACertificateRef: caCertificateRefs[0]: it does not exist")
}
