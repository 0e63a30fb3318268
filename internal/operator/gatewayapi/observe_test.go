package gatewayapi

import (
	"strings"
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
		two: {Problems: []appv1.ProxyProblem{problem(appv1.ProblemInvalidKeysRef, "", "keys", "keys at two")}, Omitted: "there are more"},
	}}
	for _, test := range []struct {
		of      source.Subject
		want    string
		unknown string
	}{
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidKeysRef, Namespace: "infra", Name: "keys"}, "keys at one", ""},
		{source.Subject{Plane: two, Reason: appv1.ProblemInvalidKeysRef, Namespace: "infra", Name: "keys"}, "keys at two", ""},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidUsersRef, Namespace: "infra", Name: "keys"}, "", ""},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCertificateRef, Listener: "a", Namespace: "infra", Name: "tls"}, "tls at one", ""},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCertificateRef, Listener: "b", Namespace: "infra", Name: "tls"}, "", ""},
		{source.Subject{Plane: two, Reason: appv1.ProblemInvalidCertificateRef, Listener: "a", Namespace: "infra", Name: "tls"}, "", "there are more"},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCACertificateRef, Namespace: "certs", Name: "ca"}, "ca at one", ""},
		{source.Subject{Plane: one, Reason: appv1.ProblemInvalidCACertificateRef, Namespace: "infra", Name: "ca"}, "", ""},
	} {
		if got, want := seen.reported(test.of), (source.Report{Problem: test.want, Unknown: test.unknown}); got != want {
			t.Errorf("%+v: got %q, want %q", test.of, got, want)
		}
	}
}

// TestAReportReplacesNoPods: the ConfigMap that clients are verified by is missing, and the pods go on mounting the
// certificate of the listener.
func TestAReportReplacesNoPods(t *testing.T) {
	f := newFixture(t, strings.Replace(shop, "listeners: [{name: http, port: 80, protocol: HTTP}]",
		`listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: tls}]}}, {name: http, port: 80, protocol: HTTP}]
  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}}`, 1))
	f.settle()
	f.program("web", "shop")
	before := f.ownGateway("web", "shop")
	for _, object := range f.list(ownKind("GatewayProxy")) {
		report := object.(*appv1.GatewayProxy)
		report.Status.Problems = []appv1.ProxyProblem{{
			Origin:   appv1.ProblemOrigin{Kind: "ConfigMap", Namespace: "web", Name: "ca"},
			Listener: "https", Reason: appv1.ProblemInvalidCACertificateRef, Message: "ConfigMap web/ca does not exist",
		}}
		f.putObject(ownKind("GatewayProxy"), report)
	}
	f.settle()
	if own := f.ownGateway("web", "shop"); own.Generation != before.Generation || len(own.Spec.Listeners) != 2 {
		t.Errorf("our Gateway has generation %d, and listeners %+v", own.Generation, own.Spec.Listeners)
	}
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=True Programmed",
		"listeners[0] Accepted=False NoValidCACertificate: no CA certificate for clients can be used",
		"listeners[0] ResolvedRefs=False InvalidCACertificateRef: caCertificateRefs[0]: ConfigMap web/ca does not exist",
		"listeners[1] Programmed=True Programmed")
}
