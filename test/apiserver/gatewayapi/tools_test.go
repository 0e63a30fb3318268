package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// testSolver: the HTTPRoute that cert-manager makes for an HTTP-01 challenge answers for its one path, beside a route
// that takes all paths of the host, and the host is as before when it goes. See
// https://cert-manager.io/docs/configuration/acme/http01.
func testSolver(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	routes, ctx := api.GatewayV1().HTTPRoutes("team"), t.Context()
	createService(t, "team", "cm-acme-http-solver-abcde")
	must.Get(routes.Create(ctx, newRoute("team", "site", shop(), "/", service("api")), metav1.CreateOptions{}))(t)
	const challenge = "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"
	expectAnswer(t, port, challenge, 200, "team/api")

	solver := newRoute("team", "", shop(), challenge, service("cm-acme-http-solver-abcde"))
	exact := gatewayv1.PathMatchExact
	solver.GenerateName, solver.Spec.Rules[0].Matches[0].Path.Type = "cm-acme-http-solver-", &exact
	solver.Labels = map[string]string{"acme.cert-manager.io/http01-solver": "true"}
	made := must.Get(routes.Create(ctx, solver, metav1.CreateOptions{}))(t)
	expectAnswer(t, port, challenge, 200, "team/cm-acme-http-solver-abcde")
	expectAnswer(t, port, "/other", 200, "team/api")
	must.Do(t, routes.Delete(ctx, made.Name, metav1.DeleteOptions{}))
	expectAnswer(t, port, challenge, 200, "team/api")
	must.Do(t, routes.Delete(ctx, "site", metav1.DeleteOptions{}))
}

// listenerSet is a new one, whose certificate cert-manager orders because of its annotation. The Secret is not there.
const listenerSet = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata:
  namespace: team
  name: blog
  annotations: {cert-manager.io/cluster-issuer: letsencrypt}
spec:
  parentRef: {namespace: %[1]s, name: shop}
  listeners:
    - {name: http, port: %[2]d, protocol: HTTP, hostname: blog.example.com}
    - {name: https, port: %[3]d, protocol: HTTPS, hostname: blog.example.com, tls: {certificateRefs: [{name: blog-tls}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: team, name: blog}
spec:
  parentRefs: [{kind: ListenerSet, name: blog, sectionName: http}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]}]`

// solverOfSet is the HTTPRoute that cert-manager 1.21.2 makes for the challenge of such a ListenerSet
// (pkg/controller/acmeorders/util.go): its parent is the whole ListenerSet.
const solverOfSet = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  namespace: team
  name: cm-acme-http-solver-set
  labels: {acme.cert-manager.io/http-domain: "756613453", acme.cert-manager.io/http-token: "1123847839", acme.cert-manager.io/http01-solver: "true"}
spec:
  hostnames: [blog.example.com]
  parentRefs: [{kind: ListenerSet, namespace: team, name: blog}]
  rules:
    - matches: [{path: {type: Exact, value: /.well-known/acme-challenge/set}}]
      backendRefs: [{group: "", kind: Service, name: cm-acme-http-solver-set, namespace: team, port: 80, weight: 1}]`

// testSolverOfSet: the HTTP listener of a new ListenerSet answers the challenge of HTTP-01 before there is a
// certificate for the HTTPS one.
func testSolverOfSet(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	createService(t, "team", "cm-acme-http-solver-set")
	apply(t, fmt.Sprintf(listenerSet, infra, port, haproxytest.FreePort(t)))
	apply(t, solverOfSet)
	expectOverHTTP(t, port, "blog.example.com", "/.well-known/acme-challenge/set", 200, "team/cm-acme-http-solver-set")
	expectOverHTTP(t, port, "blog.example.com", "/", 301, "")
	testenv.Eventually(t, soon, "the listeners of the ListenerSet", func(ctx context.Context) error {
		set, err := api.GatewayV1().ListenerSets("team").Get(ctx, "blog", metav1.GetOptions{})
		if err != nil || len(set.Status.Listeners) != 2 {
			return errors.Join(err, fmt.Errorf("it has %d listeners", len(set.Status.Listeners)))
		}
		return errors.Join(
			expect(set.Status.Conditions, set.Generation, "Accepted=True"),
			expect(set.Status.Listeners[0].Conditions, set.Generation, "Accepted=True", "ResolvedRefs=True"),
			expect(set.Status.Listeners[1].Conditions, set.Generation, "Programmed=False"))
	})
	must.Do(t, api.GatewayV1().HTTPRoutes("team").Delete(t.Context(), "blog", metav1.DeleteOptions{}))
	must.Do(t, api.GatewayV1().HTTPRoutes("team").Delete(t.Context(), "cm-acme-http-solver-set", metav1.DeleteOptions{}))
	must.Do(t, api.GatewayV1().ListenerSets("team").Delete(t.Context(), "blog", metav1.DeleteOptions{}))
	expectOverHTTP(t, port, "blog.example.com", "/", 404, "")
}

// testTargets: external-dns finds the host of a route, and the address of the Gateway for it, in the way that it
// documents: by those parents in the route's status that have accepted its generation. See
// https://kubernetes-sigs.github.io/external-dns/latest/docs/sources/gateway.
func testTargets(t *testing.T, api routesclient.Interface) {
	t.Helper()
	ctx := t.Context()
	route := newRoute("team", "named", shop(), "/", service("api"))
	route.Spec.Hostnames = []gatewayv1.Hostname{"named.example.com"}
	must.Get(api.GatewayV1().HTTPRoutes("team").Create(ctx, route, metav1.CreateOptions{}))(t)
	own := must.Get(server.Kube.CoreV1().Services(infra).Get(ctx, "shop-gateway", metav1.GetOptions{}))(t)
	testenv.Eventually(t, soon, "a target for named.example.com", func(ctx context.Context) error {
		targets, err := targetsOf(ctx, api, "team", "named")
		if err == nil && !slices.Equal(targets, []string{"named.example.com " + own.Spec.ClusterIP}) {
			err = fmt.Errorf("got %q", targets)
		}
		return err
	})
	must.Do(t, api.GatewayV1().HTTPRoutes("team").Delete(ctx, "named", metav1.DeleteOptions{}))
}

// targetsOf returns HOST ADDRESS for all hosts of a route.
func targetsOf(ctx context.Context, api routesclient.Interface, namespace, name string) ([]string, error) {
	route, err := api.GatewayV1().HTTPRoutes(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, parent := range route.Status.Parents {
		if err := expect(parent.Conditions, route.Generation, "Accepted=True"); err != nil {
			return nil, err
		}
		ref := types.NamespacedName{Namespace: namespace, Name: string(parent.ParentRef.Name)}
		if parent.ParentRef.Namespace != nil {
			ref.Namespace = string(*parent.ParentRef.Namespace)
		}
		gateway, err := api.GatewayV1().Gateways(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, hostname := range route.Spec.Hostnames {
			for _, address := range gateway.Status.Addresses {
				targets = append(targets, string(hostname)+" "+address.Value)
			}
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("there is none")
	}
	return targets, nil
}
