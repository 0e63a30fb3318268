package gatewayapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"gateway/test/internal/testenv"
)

// secureIngress redirects to HTTPS, as its host has a certificate.
const secureIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {namespace: front, name: secure}
spec:
  ingressClassName: gateway
  tls: [{hosts: [secure.test], secretName: secure}]
  rules: [{host: secure.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`

// The objects that the code of cert-manager 1.21.2 (pkg/issuer/acme/http) makes for a challenge of HTTP-01: Ingresses
// with the class in the field or the annotation, whose path is Exact, or ImplementationSpecific if its feature gate is
// off, and an HTTPRoute. Here, they have other names and no owner.
const (
	solverIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: front
  name: cm-acme-http-solver-%[1]s
  annotations: {nginx.ingress.kubernetes.io/whitelist-source-range: "0.0.0.0/0,::/0"%[2]s}
  labels: {acme.cert-manager.io/http-domain: "756613453", acme.cert-manager.io/http-token: "1123847839", acme.cert-manager.io/http01-solver: "true"}
spec:
  rules:
    - host: secure.test
      http:
        paths:
          - path: /.well-known/acme-challenge/%[1]s
            pathType: %[3]s
            backend: {service: {name: cm-acme-http-solver, port: {number: 8089}}}%[4]s`
	solverRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  namespace: front
  name: cm-acme-http-solver-route
  labels: {acme.cert-manager.io/http-domain: "756613453", acme.cert-manager.io/http-token: "1123847839", acme.cert-manager.io/http01-solver: "true"}
spec:
  hostnames: [secure.test]
  parentRefs: [{name: gateway, namespace: gateway-ingress}]
  rules:
    - matches: [{path: {type: Exact, value: /.well-known/acme-challenge/route}}]
      backendRefs: [{group: "", kind: Service, name: cm-acme-http-solver, namespace: front, port: 8089, weight: 1}]`
)

// testChallenges: over HTTP, cert-manager's solvers answer without a redirect to HTTPS, and all else is redirected.
func testChallenges(t *testing.T, port int32) {
	t.Helper()
	createService(t, "front", "cm-acme-http-solver")
	server.Kubectl(t, "-n", "front", "patch", "service", "cm-acme-http-solver", "--type=merge", "-p", `{"spec":{"ports":[{"port":8089}]}}`)
	const field = "\n  ingressClassName: gateway"
	apply(t, secureIngress)
	apply(t, fmt.Sprintf(solverIngress, "field", "", "Exact", field))
	apply(t, fmt.Sprintf(solverIngress, "older", "", "ImplementationSpecific", field))
	apply(t, fmt.Sprintf(solverIngress, "annotation", ", kubernetes.io/ingress.class: gateway", "Exact", ""))
	apply(t, solverRoute)
	for _, c := range []struct {
		path   string
		status int
		text   string
	}{
		{"/.well-known/acme-challenge/field", 200, "front/cm-acme-http-solver"},
		{"/.well-known/acme-challenge/older", 200, "front/cm-acme-http-solver"},
		{"/.well-known/acme-challenge/annotation", 200, "front/cm-acme-http-solver"},
		{"/.well-known/acme-challenge/route", 200, "front/cm-acme-http-solver"},
		{"/.well-known/acme-challenge/other", 308, ""},
		{"/", 308, ""},
	} {
		expectOverHTTP(t, port, "secure.test", c.path, c.status, c.text)
	}
}

// expectOverHTTP waits until a request is answered with a status and a text. It follows no redirect.
func expectOverHTTP(t *testing.T, port int32, host, path string, status int, text string) {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	testenv.Eventually(t, soon, fmt.Sprintf("%s%s to be answered with %d %s", host, path, status, text), func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
		if err != nil {
			return err
		}
		request.Host = host
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		body, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != status || string(body) != text && text != "") {
			err = fmt.Errorf("got %d %q", response.StatusCode, body)
		}
		return err
	})
}
