package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// withClients is an Ingress that asks for client certificates, with what else it has, and one of the same host and of
// another beside it.
func withClients(annotations string) string {
	const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: b, annotations: {%[2]s}}
spec:
  tls: [{hosts: [%[3]s], secretName: tls}]
  rules: [{host: %[3]q, http: {paths: [{path: %[4]s, pathType: Prefix, backend: {service: {name: %[1]s, port: {number: 80}}}}]}}]
---`
	return fmt.Sprintf(ingress, "guard", Prefix+"auth-tls-secret: b/ca"+annotations, "api.test", "/") + fmt.Sprintf(ingress, "beside", "", "api.test", "/beside") +
		fmt.Sprintf(ingress, "other", "", "shop.test", "/")
}

// TestClientCertificates: a host that asks for them has a Gateway that does, and no other one serves its paths.
func TestClientCertificates(t *testing.T) {
	for _, test := range []struct {
		name, annotations string
		mode              gatewayv1.FrontendValidationModeType
		remove, set       []string
	}{
		{"required", "", "", ofCertificates, []string{"ssl-client-verify"}},
		{"optional", ", " + Prefix + "auth-tls-verify-client: optional", gatewayv1.AllowInsecureFallback, append(slices.Clone(ofCertificates), verifyHeader), nil},
		{"over HTTP", ", " + Prefix + "ssl-redirect: 'false'", "", ofCertificates, []string{"ssl-client-verify"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := convertText(t, withClients(test.annotations))
			gateways := objects[*gatewayv1.Gateway](result)
			if len(gateways) != 2 || gateways[0].Spec.TLS != nil || gateways[1].Name != "ingress-02" {
				t.Fatalf("got the Gateways %+v", gateways)
			}
			clients := gateways[1].Spec.TLS.Frontend.Default.Validation
			if len(clients.CACertificateRefs) != 1 || clients.CACertificateRefs[0].Name != "b.ca" || clients.Mode != test.mode {
				t.Errorf("it asks for %+v", clients)
			}
			for _, route := range objects[*gatewayv1.HTTPRoute](result) {
				want := gatewayv1.ObjectName("ingress")
				if route.Spec.Hostnames[0] == "api.test" {
					want = "ingress-02"
				}
				for _, ref := range route.Spec.ParentRefs {
					if ref.Name != want {
						t.Errorf("route %s of %s is at %s", route.Name, route.Spec.Hostnames, ref.Name)
					}
				}
			}
			for _, rule := range flatten(result) {
				isHost := slices.ContainsFunc(rule.BackendRefs, func(ref gatewayv1.HTTPBackendRef) bool { return ref.Name != "other" })
				if isHost && slices.Contains(rule.parents, portHTTP) {
					t.Errorf("path %s of %s is at %s", rule.path(), rule.route, rule.parents)
				}
				headers := rule.filter(func(f *gatewayv1.HTTPRouteFilter) bool { return f.RequestHeaderModifier != nil })
				if !isHost {
					continue
				}
				if headers == nil || !slices.Equal(headers.RequestHeaderModifier.Remove, test.remove) || len(headers.RequestHeaderModifier.Set) != len(test.set) {
					t.Errorf("path %s has the filters %+v", rule.path(), rule.Filters)
				}
			}
		})
	}
}

// TestClientCertificatesOverHTTP: where requests over HTTP get in, the backend is not told of valid certificates.
func TestClientCertificatesOverHTTP(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {no-tls-redirect-locations: /beside}}\n---"
	for _, rule := range flatten(convertText(t, controller+withClients(""))) {
		headers := rule.filter(func(f *gatewayv1.HTTPRouteFilter) bool { return f.RequestHeaderModifier != nil })
		if isBeside := rule.path() == "/beside"; headers != nil && isBeside == (len(headers.RequestHeaderModifier.Set) > 0) {
			t.Errorf("path %s at %s has %+v", rule.path(), rule.parents, headers.RequestHeaderModifier)
		}
	}
}

// TestClosedClientCertificates: what cannot be asked for closes the whole host.
func TestClosedClientCertificates(t *testing.T) {
	for annotations, open := range map[string]bool{
		", " + Prefix + "auth-tls-verify-client: optional_no_ca":                                          false,
		", " + Prefix + "auth-tls-match-cn: CN=a":                                                         false,
		", " + Prefix + "ssl-passthrough: 'true'":                                                         false,
		", " + Prefix + "auth-tls-verify-client: 'off'":                                                   true,
		", " + Prefix + "auth-tls-error-page: 'https://a.test', " + Prefix + "auth-tls-verify-depth: '2'": true,
	} {
		for _, answer := range answers(convertText(t, withClients(annotations))) {
			path, becomes, _ := strings.Cut(answer, " ")
			if becomes == "503" && (open || path == "/" && becomes == "Service other") || !open && becomes == "Service beside" {
				t.Errorf("%s: got %s", annotations, answer)
			}
		}
	}
	// Another name in the Secret, and a host without a certificate.
	for _, text := range []string{
		strings.Replace(withClients(""), "b/ca", "ca", 1), strings.ReplaceAll(withClients(""), "tls: [{hosts: [api.test], secretName: tls}]", "tls: []"),
	} {
		if got := answers(convertText(t, text)); !slices.Contains(got, "/ 503") || !slices.Contains(got, "/beside 503") || slices.Contains(got, "/beside Service beside") {
			t.Errorf("got %q", got)
		}
	}
}
