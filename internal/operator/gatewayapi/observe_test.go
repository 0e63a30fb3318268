package gatewayapi

import (
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/status"
	source "gateway/internal/source/gatewayapi"
)

// TestReportsAreOfOneDataPlane: two Gateways of a namespace have a broken ConfigMap in common, and each a certificate.
func TestReportsAreOfOneDataPlane(t *testing.T) {
	one, two := source.GatewayParent("infra", "one"), source.GatewayParent("infra", "two")
	problem := func(reason appv1.ProxyProblemReason, listener, name, message string) appv1.ProxyProblem {
		return appv1.ProxyProblem{Origin: appv1.ProblemOrigin{Name: name}, Listener: listener, Reason: reason, Message: message}
	}
	seen := &observed{live: map[source.Parent]status.Live{
		one: {Problems: []appv1.ProxyProblem{
			problem(appv1.ProblemInvalidKeysRef, "", "keys", "keys at one"),
			problem(appv1.ProblemInvalidCertificateRef, "a", "tls", "tls at one"),
			problem(appv1.ProblemInvalidCACertificateRef, "a", source.LocalName("infra", "certs", "ca"), "ca at one"),
		}},
		two: {Problems: []appv1.ProxyProblem{problem(appv1.ProblemInvalidKeysRef, "", "keys", "keys at two")}},
	}}
	for _, test := range []struct {
		of   source.Subject
		want string
	}{
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidKeysRef, Namespace: "infra", Name: "keys"}, "keys at one"},
		{source.Subject{Plane: two, Reason: appv1.ProblemInvalidKeysRef, Namespace: "infra", Name: "keys"}, "keys at two"},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidUsersRef, Namespace: "infra", Name: "keys"}, ""},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCertificateRef, Listener: "a", Namespace: "infra", Name: "tls"}, "tls at one"},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCertificateRef, Listener: "b", Namespace: "infra", Name: "tls"}, ""},
		{source.Subject{Plane: two, Reason: appv1.ProblemInvalidCertificateRef, Listener: "a", Namespace: "infra", Name: "tls"}, ""},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCACertificateRef, Namespace: "certs", Name: "ca"}, "ca at one"},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCACertificateRef, Namespace: "infra", Name: "ca"}, ""},
	} {
		if got := seen.reported(test.of); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.of, got, test.want)
		}
	}
}
