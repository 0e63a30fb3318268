//go:build slow

package gatewayapi

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const (
	manyIngresses  = 500
	manyNamespaces = 50
	// inTime is how long it may take until all Ingresses have routes and an address, and until an edit of one has.
	inTime, editInTime = 2 * time.Minute, 5 * time.Second
)

// TestManyIngresses: many Ingresses are served soon, an edit of one is as soon, and nothing is written afterwards, nor
// after a restart.
func TestManyIngresses(t *testing.T) {
	server.InstallGatewayAPI(t)
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "ingress"))
	apply(t, ingressClass)
	defer server.Kubectl(t, "delete", "gatewayclass", "gateway")
	var documents []string
	for i := range manyNamespaces {
		documents = append(documents, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: many-%d}", i))
	}
	for i := range manyIngresses {
		documents = append(documents, manyIngress(i, "web"))
	}
	apply(t, strings.Join(documents, "\n---\n"))
	begin := time.Now()
	operator := startOperator(t, "-ingress-namespace="+gateways)
	expectAllServed(t)
	t.Logf("%d Ingresses in %d namespaces are served after %v", manyIngresses, manyNamespaces, time.Since(begin))
	testSteadyState(t, operator)

	begin = time.Now()
	apply(t, manyIngress(0, "other"))
	testenv.Eventually(t, editInTime, "the edit", func(ctx context.Context) error {
		route, err := routesClient(t).GatewayV1().HTTPRoutes("many-0").Get(ctx, "gateway-host-0-test", metav1.GetOptions{})
		if err == nil && route.Spec.Rules[0].BackendRefs[0].Name != "other" {
			err = fmt.Errorf("its Service is %s", route.Spec.Rules[0].BackendRefs[0].Name)
		}
		return err
	})
	t.Logf("an edit takes %v", time.Since(begin))
	testSteadyState(t, operator)

	operator.Kill()
	since := time.Now()
	operator = startOperator(t, "-ingress-namespace="+gateways)
	testenv.Eventually(t, time.Minute, "the operator to serve them again", func(context.Context) error {
		if !strings.Contains(operator.Output(), "Serving Ingresses") {
			return operator.Running()
		}
		return nil
	})
	testSteadyState(t, operator)
	for _, write := range server.Writes(t, "system:serviceaccount:gateway-system:gateway-operator", since) {
		if write.Resource != "events" && write.Resource != "selfsubjectaccessreviews" {
			t.Errorf("after a restart, the operator wrote %s", write)
		}
	}
}

// manyIngress returns an Ingress with a host of its own, a RouteFilter and a note.
func manyIngress(i int, service string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: many-%[1]d
  name: host-%[2]d
  annotations: {nginx.ingress.kubernetes.io/limit-rps: "100"}
spec:
  ingressClassName: gateway
  rules: [{host: host-%[2]d.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[3]s, port: {number: 80}}}}]}}]`,
		i%manyNamespaces, i, service)
}

// expectAllServed waits until each Ingress has an address.
func expectAllServed(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, inTime, "all Ingresses to be served", func(ctx context.Context) error {
		list, err := server.Kube.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		served := 0
		for i := range list.Items {
			if len(list.Items[i].Status.LoadBalancer.Ingress) > 0 {
				served++
			}
		}
		routes, err := routesClient(t).GatewayV1().HTTPRoutes("").List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/ingress-class"})
		if err == nil && (served != manyIngresses || len(routes.Items) != manyIngresses) {
			err = fmt.Errorf("%d have an address, and there are %d routes", served, len(routes.Items))
		}
		return err
	})
}
