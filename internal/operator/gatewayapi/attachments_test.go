package gatewayapi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	appv1 "gateway/api/app/v1"
)

// other is a namespace with a route of Gateway shop, whose listener takes routes from everywhere.
const other = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: web, name: shop}
spec:
  gatewayClassName: app
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: team, name: api}
spec:
  parentRefs: [{namespace: web, name: shop}]
  rules: [{matches: [{path: {value: /team}}], backendRefs: [{name: api, port: 80}]}]`

// binding lets the agents of Gateway shop read in the namespace.
const binding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: team, name: web.shop-gateway, labels: {app.example.com/attached: "true"}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gateway-attached}
subjects: [{kind: ServiceAccount, namespace: web, name: shop-gateway}]`

// foreignBinding has the name of that, and somebody else made it.
var foreignBinding = strings.NewReplacer("labels: {app.example.com/attached: \"true\"}", "labels: {}", "name: shop-gateway}", "name: theirs}").Replace(binding)

// unreadableTeam is what it prevents.
const unreadableTeam = "the proxies cannot read namespace team: RoleBinding team/web.shop-gateway exists and does not belong to Gateway shop: delete or rename one of them"

const bindingInTeam = "patch rolebindings team/web.shop-gateway"

// attached returns the namespaces that the agents of Gateway shop know of, and may read.
func (f *fixture) attached() string {
	f.t.Helper()
	var names []string
	for _, object := range f.list(ownKind("GatewayAttachment")) {
		attachment := object.(*appv1.GatewayAttachment)
		if attachment.Spec.GatewayName == "shop" && meta.IsStatusConditionTrue(attachment.Status.Conditions, "Bound") {
			names = append(names, attachment.Spec.Namespace)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// told returns what the agents of Gateway shop know of its own namespace.
func (f *fixture) told() *appv1.GatewayAttachmentSpec {
	f.t.Helper()
	for _, object := range f.list(ownKind("GatewayAttachment")) {
		if object.GetName() == "shop.web" {
			return &object.(*appv1.GatewayAttachment).Spec
		}
	}
	return &appv1.GatewayAttachmentSpec{}
}

func (f *fixture) expectAttached(want string) {
	f.t.Helper()
	if got := f.attached(); got != want {
		f.t.Errorf("the agents are told of namespaces %q, want %q", got, want)
	}
}

// TestAgentsMayReadANamespaceWhileItHasSomething: they get the permission before the GatewayAttachment is written, and
// lose it after the GatewayAttachment is gone.
func TestAgentsMayReadANamespaceWhileItHasSomething(t *testing.T) {
	f := newSettled(t, shop)
	f.put(other)
	f.settle()
	f.expectAttached("team web")
	bindings := f.list(roleBindings)
	if len(bindings) != 1 || bindings[0].(*rbacv1.RoleBinding).Subjects[0].Name != "shop-gateway" {
		t.Errorf("the RoleBindings are %v", bindings)
	}

	f.remove(routeKind("HTTPRoute"), "team", "api")
	f.expectWrites(f.mustSync(), "delete own gatewayattachments web/shop.team", "update gateways/status web/shop")
	f.expectAttached("web")
	f.expectWrites(f.mustSync(), "delete rolebindings team/web.shop-gateway")
}

func TestARoleBindingIsRepaired(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.settle()
	f.put(strings.Replace(binding, "name: shop-gateway}", "name: somebody}", 1))
	f.expectWrites(f.mustSync(), bindingInTeam)
	f.remove(roleBindings, "team", "web.shop-gateway")
	f.expectWrites(f.mustSync(), bindingInTeam)
	f.expectWrites(f.mustSync(), bindingInTeam)
	f.expectWrites(f.mustSync())
	subjects := f.list(roleBindings)[0].(*rbacv1.RoleBinding).Subjects
	if len(subjects) != 1 || subjects[0].Name != "shop-gateway" {
		t.Errorf("the subjects are %v", subjects)
	}
}

// TestANamespaceWithoutARoleBindingIsNotTold: the others are. The statuses of its routes say why, and a look at
// everything is not repeated for that.
func TestANamespaceWithoutARoleBindingIsNotTold(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.put(foreignBinding)
	f.settleAll("a foreign RoleBinding")
	f.expectAttached("web")
	f.program("web", "shop")
	f.settleAll("the proxies run")
	f.expectConditions(routeKind("HTTPRoute"), "team", "api",
		"parents[0] ResolvedRefs=False BackendNotFound: rules[0].backendRefs[0]: there is no Service team/api: create it or change the reference; "+unreadableTeam,
		"parents[0] Programmed=False Pending: not all proxies watch namespace team yet")
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] ResolvedRefs=True ResolvedRefs", "parents[0] Programmed=True Programmed")
	if len(f.later) > 0 {
		t.Errorf("what is looked at later is %v", f.later)
	}

	// The GatewayAttachment stays while its RoleBinding cannot be renewed.
	f.remove(roleBindings, "team", "web.shop-gateway")
	f.settle()
	f.expectAttached("team web")
	f.remove(roleBindings, "team", "web.shop-gateway")
	f.fail("patch", "rolebindings", errors.New("not now"))
	f.catchUp()
	const failed = "failed to apply RoleBinding team/web.shop-gateway: not now"
	if _, err := f.sync(); err == nil || err.Error() != failed {
		t.Errorf("got %v, want %s", err, failed)
	}
	f.expectAttached("team web")
}

// TestPodsVerifyNames: they learn that they have to, and what mounts the CA's certificate, while a policy asks for it.
func TestPodsVerifyNames(t *testing.T) {
	const tls = `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: web, name: tls}
spec:
  targetRefs: [{group: "", kind: Service, name: api}]
  validation:
    hostname: a.io
    caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]
    subjectAltNames: [{type: Hostname, hostname: b.io}]`
	f := newSettled(t, shop+"---"+tls)
	if told := f.told(); !told.VerifiesNames || len(told.ConfigMaps) != 1 {
		t.Errorf("the pods are told %+v", told)
	}
	f.put(strings.Replace(tls, "subjectAltNames: [{type: Hostname, hostname: b.io}]", "", 1))
	f.settle()
	if told := f.told(); told.VerifiesNames || len(told.ConfigMaps) != 1 {
		t.Errorf("the pods are told %+v", told)
	}
}

// TestPodsLookAtRequests: they learn that they have to while a RouteFilter asks for it.
func TestPodsLookAtRequests(t *testing.T) {
	const filtered = `
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {namespace: web, name: waf}
spec: {filters: [{type: WAF, waf: {}}]}`
	f := newSettled(t, strings.Replace(shop, "backendRefs:", "filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: waf}}], backendRefs:", 1)+"---"+filtered)
	if told := f.told(); !told.WAF {
		t.Errorf("the pods are told %+v", told)
	}
	f.put(strings.Replace(filtered, "type: WAF, waf", "type: Cache, cache", 1))
	f.settle()
	if told := f.told(); told.WAF {
		t.Errorf("the pods are told %+v", told)
	}
}
