package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// TestAgentWatchesTheCluster: an agent goes over from watches of namespaces to watches of the cluster once it may, and
// needs no permission for a namespace from then on. Edits are live in both modes, and no request is lost between them.
func TestAgentWatchesTheCluster(t *testing.T) {
	const team = "cluster-team"
	ctx := t.Context()
	server.InstallGatewayAPI(t)
	gateway, port := setUp(t, "cluster")
	must.Get(server.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{}))(t)
	patch := func(patch string) {
		t.Helper()
		must.Get(server.App.AppV1().Gateways("cluster").Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	patch(`[{"op":"add","path":"/spec/listeners/0/allowedRoutes","value":{"namespaces":{"from":"All"}}}]`)
	bind(t, team)
	attach(t, gateway, team)
	answer := func(body string) {
		t.Helper()
		spec := fmt.Sprintf(`{"apiVersion":"app.example.com/v1","kind":"RouteFilter","metadata":{"name":"answer"},"spec":{"filters":[{"type":"DirectResponse","directResponse":{"body":%q}}]}}`, body)
		must.Get(server.App.AppV1().RouteFilters(team).Patch(ctx, "answer", types.ApplyPatchType, []byte(spec), metav1.PatchOptions{FieldManager: "test"}))(t)
		expectAnswer(t, port, "/team", body)
	}
	paths := haproxytest.NewPaths(t)
	pod := newPod(t, gateway)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0")
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		if _, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg")); err != nil {
			return err
		}
		return agent.Running()
	})
	haproxytest.Start(t, paths, nil)
	answer("one")
	stop := expectNoLoss(t, port)
	defer stop()

	patch(`[{"op":"add","path":"/spec/watch","value":"Cluster"}]`)
	expectWatch(t, appv1.WatchNamespaces)
	answer("two")
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "cluster", Name: proxypod.ChildName(name)}}
	must.Get(server.Kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster.web-gateway"}, Subjects: subject,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gateway-attached"},
	}, metav1.CreateOptions{}))(t)
	expectWatch(t, appv1.WatchCluster)
	must.Do(t, server.Kube.RbacV1().RoleBindings(team).Delete(ctx, "web", metav1.DeleteOptions{}))
	answer("three")
	patch(`[{"op":"remove","path":"/spec/watch"}]`)
	answer("four") // no namespace may be watched by itself: what is known goes on
	bind(t, team)
	expectWatch(t, appv1.WatchNamespaces)
	answer("five")
}

// bind lets agents of the Gateway read a namespace.
func bind(t *testing.T, team string) {
	t.Helper()
	must.Get(server.Kube.RbacV1().RoleBindings(team).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "cluster", Name: proxypod.ChildName(name)}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gateway-attached"},
	}, metav1.CreateOptions{}))(t)
}

// attach makes an HTTPRoute with a RouteFilter for the Gateway, and what the operator makes of it.
func attach(t *testing.T, gateway *appv1.Gateway, team string) {
	t.Helper()
	ctx := t.Context()
	server.Kubectl(t, "apply", "-f", "../../../artifacts/rbac/attached_role.yaml")
	routes := must.Get(routesclient.NewForConfig(server.Admin))(t)
	must.Get(routes.GatewayV1().HTTPRoutes(team).Create(ctx, &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
				Group: ptr.To[gatewayv1.Group](appv1.GroupName), Namespace: ptr.To(gatewayv1.Namespace(gateway.Namespace)), Name: gatewayv1.ObjectName(name),
			}}},
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/team")}}},
				Filters: []gatewayv1.HTTPRouteFilter{{
					Type:         gatewayv1.HTTPRouteFilterExtensionRef,
					ExtensionRef: &gatewayv1.LocalObjectReference{Group: appv1.GroupName, Kind: "RouteFilter", Name: "answer"},
				}},
			}},
		},
	}, metav1.CreateOptions{}))(t)
	must.Get(server.App.AppV1().GatewayAttachments(gateway.Namespace).Create(ctx, &appv1.GatewayAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "." + team, Labels: map[string]string{proxypod.LabelGateway: name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: appv1.SchemeGroupVersion.String(), Kind: "Gateway", Name: name, UID: gateway.UID, Controller: ptr.To(true),
			}},
		},
		Spec: appv1.GatewayAttachmentSpec{
			GatewayName: name, Namespace: team, Resources: []string{"httproutes", "routefilters", "backendpolicies", "backendtlspolicies"},
		},
		Status: appv1.GatewayAttachmentStatus{Conditions: []metav1.Condition{{
			Type: appv1.ConditionBound, Status: metav1.ConditionTrue, Reason: "Bound", LastTransitionTime: metav1.Now(),
		}}},
	}, metav1.CreateOptions{}))(t)
}

// expectWatch waits until the pod reports how it watches. A pod that may not watch the cluster tries again more and
// more seldom, up to once a minute.
func expectWatch(t *testing.T, want appv1.WatchMode) {
	t.Helper()
	testenv.Eventually(t, 2*time.Minute, fmt.Sprint("watches by ", want), func(ctx context.Context) error {
		got, err := server.App.AppV1().GatewayProxies("cluster").Get(ctx, "pod", metav1.GetOptions{})
		if err == nil && got.Status.Watch != want {
			err = fmt.Errorf("it is %+v", got.Status)
		}
		return err
	})
}

// expectNoLoss sends requests until stop is called, and expects that the RouteFilter answers each.
func expectNoLoss(t *testing.T, port int32) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		for ctx.Err() == nil {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/team", port))
			if err != nil {
				t.Errorf("a request was lost: %v", err)
				return
			}
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK || err != nil {
				t.Errorf("a request got %s (%v)", response.Status, err)
				return
			}
		}
	})
	return func() {
		cancel()
		sending.Wait()
	}
}
