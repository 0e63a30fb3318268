package gatewayapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/must"
	source "gateway/internal/source/gatewayapi"
)

// TestGatewaysTakeTurns: one with many namespaces does not hold up another one.
func TestGatewaysTakeTurns(t *testing.T) {
	queue := &turns{waiting: map[types.NamespacedName][]place{}}
	for _, p := range []string{"large 1", "large 2", "large 3", "small 1", "large 4", "small 2"} {
		gateway, namespace, _ := strings.Cut(p, " ")
		queue.Push(place{types.NamespacedName{Name: gateway}, namespace})
	}
	var got []string
	for queue.Len() > 0 {
		p := queue.Pop()
		got = append(got, p.gateway.Name+" "+p.namespace)
	}
	if want := []string{"large 1", "small 1", "large 2", "small 2", "large 3", "large 4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestManyNamespaces: each has a small object, and a RoleBinding that cannot be made keeps one of them from nothing
// else.
func TestManyNamespaces(t *testing.T) {
	const many = 100
	f := newFixture(t, shop)
	f.put(strings.Split(other, "\n---\n")[0])
	for i := range many {
		f.put(strings.ReplaceAll(strings.Join(strings.Split(other, "\n---\n")[1:], "\n---\n"), "team", fmt.Sprintf("team-%04d", i)))
	}
	f.put(strings.Replace(foreignBinding, "namespace: team,", "namespace: team-0007,", 1))
	for range 4 {
		f.mustSync()
	}
	if got := strings.Fields(f.attached()); len(got) != many || slices.Contains(got, "team-0007") || !slices.Contains(got, "web") {
		t.Errorf("the agents are told of %d namespaces", len(got))
	}
	f.expectConditions(ownKind("GatewayAttachment"), "web", "shop.team-0007", "Bound=False ChildNotOwned: "+
		"RoleBinding team-0007/web.shop-gateway exists and does not belong to Gateway shop: delete or rename one of them")
}

// putList has an operator of an earlier release write a list to the status of a Gateway of our own.
func (f *fixture) putList(name string, namespaces ...*applyappv1.AttachedNamespaceApplyConfiguration) {
	f.t.Helper()
	list := applyappv1.Attachments().WithNamespaces(namespaces...)
	must.Get(f.own.AppV1().Gateways("web").ApplyStatus(f.t.Context(),
		applyappv1.Gateway(name, "web").WithStatus(applyappv1.GatewayStatus().WithAttachments(list)), force))(f.t)
}

// listInStatus replaces the GatewayAttachments of Gateway shop by what an operator of an earlier release wrote.
func (f *fixture) listInStatus() {
	f.t.Helper()
	var list []*applyappv1.AttachedNamespaceApplyConfiguration
	for _, object := range f.list(ownKind("GatewayAttachment")) {
		spec := object.(*appv1.GatewayAttachment).Spec
		list = append(list, applyappv1.AttachedNamespace().WithName(spec.Namespace).WithResources(spec.Resources...).WithSince("7"))
		f.remove(ownKind("GatewayAttachment"), "web", object.GetName())
	}
	f.putList("shop", list...)
}

// TestAListIsReplaced: an operator of an earlier release wrote one. It stays while a pod reads it, and so do the
// permissions in its namespaces.
func TestAListIsReplaced(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.settle()
	f.putList("shop", applyappv1.AttachedNamespace().WithName("team"), applyappv1.AttachedNamespace().WithName("web"))
	f.program("web", "shop")
	old := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy)
	old.Status.Watch = ""
	f.putObject(ownKind("GatewayProxy"), old)
	f.settle()
	f.remove(routeKind("HTTPRoute"), "team", "api")
	f.settle()
	f.expectAttached("web")
	if list := f.ownGateway("web", "shop").Status.Attachments; list == nil || len(f.list(roleBindings)) != 1 {
		t.Errorf("the list is %+v, the RoleBindings are %+v", list, f.list(roleBindings))
	}

	f.remove(ownKind("GatewayProxy"), "web", old.Name) // which says nothing about the pod
	f.settle()
	if list := f.ownGateway("web", "shop").Status.Attachments; list == nil || len(f.list(roleBindings)) != 1 {
		t.Errorf("without a report, the list is %+v, the RoleBindings are %+v", list, f.list(roleBindings))
	}

	f.program("web", "shop") // the pod is replaced
	f.settle()
	if list := f.ownGateway("web", "shop").Status.Attachments; list != nil || len(f.list(roleBindings)) != 0 {
		t.Errorf("the list is %+v, the RoleBindings are %+v", list, f.list(roleBindings))
	}
}

// TestRoutesStayProgrammedDuringAnUpgrade: an operator and agents of an earlier release ran them. An edit is Programmed
// once these agents run it.
func TestRoutesStayProgrammedDuringAnUpgrade(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.settle()
	f.programShop()
	f.listInStatus()
	report := func(since string) {
		t.Helper()
		f.program("web", "shop")
		old := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy)
		lines := []appv1.ProxiedResource{
			{Resource: "attachments", Namespace: "web", ResourceVersion: since},
			{Resource: "gateways", Namespace: "web", ResourceVersion: old.Status.ResourceVersion},
			{Resource: "httproutes", Namespace: "team", ResourceVersion: old.Status.ResourceVersion},
		}
		old.Status.Watch, old.Status.ResourceVersion, old.Status.Resources = "", "", lines
		f.putObject(ownKind("GatewayProxy"), old)
		f.settle()
	}
	f.controller.index, f.controller.compilers, f.controller.versions = nil, nil, map[source.Object]*version{}
	expect := func(want string) {
		t.Helper()
		f.expectConditions(routeKind("HTTPRoute"), "team", "api", "parents[0] Programmed="+want)
	}
	report("7")
	expect("True Programmed")
	f.put(strings.Replace(other, "/team}", "/other}", 1))
	f.settle()
	expect("False Pending: not all proxies run it yet")
	report("6")
	expect("False Pending: not all proxies watch namespace team yet")
	report("7")
	expect("True Programmed")
}

// TestAGatewayThatWatchesTheCluster has one ClusterRoleBinding. It has no RoleBindings while all its pods watch
// the cluster.
func TestAGatewayThatWatchesTheCluster(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.settle()
	f.programShop()
	config := "apiVersion: app.example.com/v1\nkind: GatewayConfig\nmetadata: {namespace: web, name: config}\nspec: {watch: Cluster}"
	f.put(config)
	f.put(strings.Replace(strings.Split(other, "\n---")[0], "gatewayClassName: app",
		"gatewayClassName: app\n  infrastructure: {parametersRef: {group: app.example.com, kind: GatewayConfig, name: config}}", 1))
	expect := func(what string, clusterBindings, bindings int) {
		t.Helper()
		f.settle()
		all := f.list(clusterRoleBindings)
		if len(all) != clusterBindings || len(f.list(roleBindings)) != bindings {
			t.Errorf("%s: the ClusterRoleBindings are %+v, the RoleBindings %+v", what, all, f.list(roleBindings))
		}
		for _, one := range all {
			if got := one.(*rbacv1.ClusterRoleBinding); got.Name != "web.shop-gateway" || got.RoleRef.Name != clusterRole || got.Subjects[0] != subjectOf(place{gateway: nameOf(f.ownGateway("web", "shop"))}) {
				t.Errorf("%s: the ClusterRoleBinding is %+v", what, got)
			}
		}
		f.expectAttached("team web")
	}
	report := func(mode appv1.WatchMode) {
		t.Helper()
		f.program("web", "shop")
		report := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy)
		report.Status.Watch = mode
		f.putObject(ownKind("GatewayProxy"), report)
	}
	expect("it is asked for", 1, 1)
	report(appv1.WatchCluster)
	expect("all pods watch the cluster", 1, 0)
	report(appv1.WatchNamespaces)
	expect("a pod does not any more", 1, 1)
	report(appv1.WatchCluster)
	expect("it does again", 1, 0)
	f.put(strings.Replace(config, "Cluster", "Namespaces", 1))
	expect("it is not asked for any more", 0, 1)
	f.remove(routeKind("Gateway"), "web", "shop")
	f.remove(ownKind("Gateway"), "web", "shop")
	f.settle()
	if left := len(f.list(roleBindings)) + len(f.list(ownKind("GatewayAttachment"))); left > 0 {
		t.Errorf("after the Gateway, there are %d objects", left)
	}
}

// TestAListIsReplacedWithoutRoutes: the last route of a Gateway of our own went during an upgrade.
func TestAListIsReplacedWithoutRoutes(t *testing.T) {
	f := newFixture(t, shop)
	f.put("apiVersion: app.example.com/v1\nkind: Gateway\nmetadata: {namespace: web, name: own}\n" +
		"spec: {listeners: [{name: http, port: 81, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}")
	f.put("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}")
	f.put("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {namespace: team, name: api}\n" +
		"spec: {parentRefs: [{group: app.example.com, kind: Gateway, namespace: web, name: own}]}")
	f.settle()
	f.putList("own", applyappv1.AttachedNamespace().WithName("team"))
	f.program("web", "own")
	old := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy)
	old.Status.Watch = ""
	f.putObject(ownKind("GatewayProxy"), old)
	f.remove(routeKind("HTTPRoute"), "team", "api")
	f.settle()
	expect := func(what string, hasList bool, bindings int) {
		t.Helper()
		if list := f.ownGateway("web", "own").Status.Attachments; (list != nil) != hasList || len(f.list(roleBindings)) != bindings {
			t.Errorf("%s, the list is %+v, the RoleBindings are %+v", what, list, f.list(roleBindings))
		}
	}
	expect("before", true, 1)
	old = old.DeepCopy()
	old.Status.Watch = appv1.WatchNamespaces
	f.putObject(ownKind("GatewayProxy"), old)
	f.settle()
	expect("after", false, 0)
}
