package clustertest

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
)

// TestWait waits until a Gateway is programmed.
func TestWait(t *testing.T) {
	namespace := newNamespace(t, "wait")
	args := []string{"apply", "-n", namespace, "-f", "-", "--wait"}
	clitest.Run(t, gateway("a", ""), append(args, "--timeout=1s")...).Want(t, 3,
		"waiting for Gateway wait/a: no operator has looked at it\n", "everything is applied, but Gateway wait/a is not programmed after 1s: no operator has looked at it")
	clitest.RunUntil(t, "a unchanged", gateway("a", ""), args...).Want(t, 3, "interrupted: everything is applied, but Gateway wait/a is not programmed")
	done := make(chan error)
	go func() {
		live := get(t, namespace, "a")
		done <- setStatus(t.Context(), live, programmed(live, ""))
	}()
	clitest.Run(t, gateway("a", ""), args...).Want(t, 0, "gateway.app.example.com/a programmed\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
	// It was for the generation before.
	clitest.Run(t, gateway("a", "  replicas: 3\n"), append(args, "--timeout=1s")...).Want(t, 3, "the operator has not looked at generation 2 yet")
}

// route is a document; the rule has a timeout of so many seconds.
func route(seconds int) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: a}]
  rules: [{timeouts: {request: %ds}}]
`, seconds)
}

// TestWaitForRoute: after an edit, the condition of the previous generation does not count.
func TestWaitForRoute(t *testing.T) {
	namespace := newNamespace(t, "wait-route")
	apply := []string{"apply", "-n", namespace, "-f", "-", "--wait", "--timeout=1s"}
	clitest.Run(t, route(1), apply...).Want(t, 3, "everything is applied, but HTTPRoute wait-route/r is not programmed after 1s: no operator has looked at it")
	setProgrammed := func() error {
		live, err := clients.Routes.GatewayV1().HTTPRoutes(namespace).Get(t.Context(), "r", metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Status.Parents = []gatewayv1.RouteParentStatus{{
			ParentRef: live.Spec.ParentRefs[0], ControllerName: gatewayapi.ControllerName,
			Conditions: []metav1.Condition{{
				Type: "Programmed", Status: metav1.ConditionTrue, Reason: "Programmed", ObservedGeneration: live.Generation, LastTransitionTime: metav1.Now(),
			}},
		}}
		_, err = clients.Routes.GatewayV1().HTTPRoutes(namespace).UpdateStatus(t.Context(), live, metav1.UpdateOptions{})
		return err
	}
	must.Do(t, setProgrammed())
	wait := []string{"wait", "-n", namespace, "--timeout=1s"}
	clitest.Run(t, "", append(wait, "httproute/r")...).Want(t, 0, "httproute.gateway.networking.k8s.io/r programmed\n")
	clitest.Run(t, route(2), apply...).Want(t, 3, "HTTPRoute wait-route/r is not programmed after 1s: the operator has not looked at generation 2 yet")
	clitest.Run(t, "", append(wait, "httproutes", "--all")...).Want(t, 3, "the operator has not looked at generation 2 yet")
	must.Do(t, setProgrammed())
	clitest.Run(t, route(2), apply...).Want(t, 0, "httproute.gateway.networking.k8s.io/r unchanged\nhttproute.gateway.networking.k8s.io/r programmed\n")
	clitest.Run(t, "", append(wait, "httproute/x")...).Want(t, 1, `"x" not found`)
	clitest.Run(t, configMap(1), "apply", "-n", namespace, "-f", "-").Want(t, 0)
	clitest.Run(t, "", append(wait, "configmap/c1")...).Want(t, 2, "ConfigMap wait-route/c1 has no condition Programmed")
	clitest.Run(t, "", wait...).Want(t, 2, "name an object, such as httproute/shop")
}
