//go:build slow

package gatewayapi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const crowd = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {namespace: crowd, name: shop}
spec:
  watch: Cluster
  service: {type: ClusterIP}
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
`

// TestCrowd: a Gateway gets more namespaces than a list would have room for. A RoleBinding of somebody else keeps one
// of them out. The Gateway may watch the cluster, so there is one ClusterRoleBinding, which goes with the wish.
func TestCrowd(t *testing.T) {
	const many = 1010
	root := testbuild.MustRoot(t)
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(root, "artifacts", "rbac"), "-f", filepath.Join(root, "artifacts", "cluster-watch"))
	server.InstallGatewayAPI(t)
	operator := startOperator(t, "-cluster-watch-namespaces=crowd", "-leader-elect-name=crowd")
	api := routesClient(t)
	createNamespace(t, "crowd", nil)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	must.Do(t, os.WriteFile(file, []byte(crowd), 0o600))
	server.Kubectl(t, "apply", "-f", file)
	createNamespace(t, "crowd-0007", nil)
	foreign := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "crowd.shop-gateway"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	must.Get(server.Kube.RbacV1().RoleBindings("crowd-0007").Create(t.Context(), foreign, metav1.CreateOptions{}))(t)

	parent := gatewayv1.ParentReference{
		Group: ptr.To(gatewayv1.Group(appv1.GroupName)), Kind: ptr.To(gatewayv1.Kind("Gateway")), Namespace: ptr.To(gatewayv1.Namespace("crowd")), Name: "shop",
	}
	begin := time.Now()
	createCrowd(t, api, parent, many)
	created := time.Now()
	var out string
	testenv.Eventually(t, 4*time.Minute, "all namespaces are attached", func(ctx context.Context) error {
		list, err := server.App.AppV1().GatewayAttachments("crowd").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		bound := 0
		for i := range list.Items {
			if one := &list.Items[i]; meta.IsStatusConditionTrue(one.Status.Conditions, appv1.ConditionBound) {
				bound++
			} else {
				out = one.Spec.Namespace + ": " + one.Status.Conditions[0].Message
			}
		}
		if bound < many { // with the Gateway's, and without the foreign one
			return fmt.Errorf("%d of %d are, %w", bound, len(list.Items), operator.Running())
		}
		return nil
	})
	t.Logf("created in %v, and attached %v later; out is %s", created.Sub(begin), time.Since(created), out)

	expectClusterBinding := func(what string, want bool) {
		t.Helper()
		testenv.Eventually(t, soon, what, func(ctx context.Context) error {
			list, err := server.Kube.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/attached"})
			if got := err == nil && len(list.Items) == 1 && len(list.Items[0].Subjects) == 1; err == nil && got != want {
				err = fmt.Errorf("there are %+v", list.Items)
			}
			return err
		})
	}
	expectClusterBinding("the ClusterRoleBinding", true)
	must.Get(server.App.AppV1().Gateways("crowd").Patch(t.Context(), "shop", types.MergePatchType, []byte(`{"spec":{"watch":"Namespaces"}}`), metav1.PatchOptions{}))(t)
	expectClusterBinding("no ClusterRoleBinding", false)
}

// createCrowd makes namespaces with one route each. One namespace is there.
func createCrowd(t *testing.T, api routesclient.Interface, parent gatewayv1.ParentReference, many int) {
	t.Helper()
	workqueue.ParallelizeUntil(t.Context(), 16, many, func(i int) {
		name := fmt.Sprintf("crowd-%04d", i)
		if i != 7 {
			if _, err := server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
		if _, err := api.GatewayV1().HTTPRoutes(name).Create(t.Context(), newRoute(name, "web", parent, "/"+name, service("api")), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}
