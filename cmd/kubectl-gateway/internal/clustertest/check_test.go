package clustertest

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
	"gateway/internal/operator/status"
)

// TestCheck begins without an operator, and ends with what the reference shows.
func TestCheck(t *testing.T) {
	namespace := newNamespace(t, "check")
	check := []string{"check", "-n", namespace}
	clitest.Run(t, "", check...).Want(t, 3, "ok       API server: Kubernetes v1.",
		"ok       CRD gatewayproxies.app.example.com: the same as this plugin has\n", "ok       CRD gateways.app.example.com: the same as this plugin has\n",
		"wrong    operator: there is none: no Deployment has the label app.kubernetes.io/name=gateway-operator\n         -> Install it",
		"ok       permissions: you may use every command in namespace check\nok       Gateways: there are none in namespace check\n1 of ")
	newOperator(t)
	clitest.Run(t, "", check...).Want(t, 0, "ok       operator gateway-system/gateway-operator: 2 of 2 replicas are ready\n")

	shop := must.Get(os.ReadFile(filepath.Join(clitest.Root, "artifacts/examples/shop.yaml")))(t)
	clitest.Run(t, string(shop), "apply", "-f", "-").Want(t, 0)
	t.Cleanup(func() {
		_ = clients.Gateways.AppV1().Gateways("shop").Delete(context.Background(), "shop", metav1.DeleteOptions{}) // for other tests
	})
	clitest.Run(t, "", "check", "-A").Want(t, 3, "wrong    Gateway shop/shop: no operator has looked at it\n")
	live := get(t, "shop", "shop")
	// Without the Service echo-v2.
	computed := status.Compute(live, status.Observed{Backends: map[string]*corev1.Service{"echo-v1": {Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}}}, time.Now())
	written := programmed(live, "")
	written.Conditions, written.Routes = append(written.Conditions, computed.Conditions[1]), computed.Routes
	must.Do(t, setStatus(t.Context(), live, written))
	result := clitest.Run(t, "", "check", "-n", "shop")
	result.Want(t, 3, " checks failed\n")
	expectDocumented(t, result.Out+result.Err)
}

// newOperator makes the Deployment of an operator that is ready.
func newOperator(t *testing.T) {
	t.Helper()
	newNamespace(t, "gateway-system")
	file := filepath.Join(clitest.Root, "artifacts/operator/deployment.yaml")
	clitest.Run(t, "", "apply", "-f", file).Want(t, 0)
	deployments := clients.Core.AppsV1().Deployments("gateway-system")
	t.Cleanup(func() { _ = deployments.Delete(context.Background(), "gateway-operator", metav1.DeleteOptions{}) }) // for other tests
	live := must.Get(deployments.Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	live.Status = k8sappsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2}
	must.Get(deployments.UpdateStatus(t.Context(), live, metav1.UpdateOptions{}))(t)
}

// expectDocumented compares an output with that in the reference, but for the version of Kubernetes.
func expectDocumented(t *testing.T, got string) {
	t.Helper()
	page := must.Get(os.ReadFile(filepath.Join(clitest.Root, "docs/reference/kubectl-gateway.md")))(t)
	version := regexp.MustCompile(`Kubernetes v[\d.]+`)
	got = version.ReplaceAllString(got, "Kubernetes VERSION")
	if !strings.Contains(version.ReplaceAllString(string(page), "Kubernetes VERSION"), "\n$ kubectl gateway check -n shop\n"+got+"```\n") {
		t.Errorf("the reference does not show\n%s", got)
	}
}

// TestCheckAsAnother: who may do less gets warnings, and a refusal if that are the Gateways.
func TestCheckAsAnother(t *testing.T) {
	clitest.Run(t, "", "check", "-n", newNamespace(t, "check-json"), "-o", "json").Want(t, 3, `"findings": [`, `"level": "ok"`, `"about": "API server"`)
	namespace := newNamespace(t, "check-as")
	check := []string{"check", "-n", namespace, "--as", "somebody"}
	clitest.Run(t, "", check...).Want(t, 3, "warning  CRD gateways.app.example.com: not known whether it is current", "warning  operator: not known",
		"warning  permissions: you may not do everything in namespace check-as\n         get gateways: for get,", "         create pods/portforward: for proxy-config",
		"wrong    Gateways: you may not list them in namespace check-as\n")
	allow(t, namespace, rbacv1.PolicyRule{APIGroups: []string{"app.example.com"}, Resources: []string{"gateways"}, Verbs: []string{"list"}})
	eventually(t, succeeds, check...)
	clitest.Run(t, "", check...).Want(t, 0, "ok       Gateways: there are none in namespace check-as\n")
}

// allow lets the user somebody do something in a namespace.
func allow(t *testing.T, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "somebody"}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "somebody"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "somebody"}},
	}
	must.Get(clients.Core.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}))(t)
	must.Get(clients.Core.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}))(t)
}

// eventually waits until a command of somebody does what a Role allows: the authorizer reads Roles from a cache.
func eventually(t *testing.T, does func(clitest.Result) bool, command ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for result := clitest.Run(t, "", command...); !does(result); result = clitest.Run(t, "", command...) {
		if time.Now().After(deadline) {
			t.Fatalf("%v does not what is allowed:\n%s%s", command, result.Out, result.Err)
		}
	}
}

func succeeds(result clitest.Result) bool { return result.Code == 0 }
