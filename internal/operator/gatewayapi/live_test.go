package gatewayapi

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	source "gateway/internal/source/gatewayapi"
)

// teamService is a Service of another namespace, which routes of namespace web may refer to.
const teamService = `
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Service
metadata: {namespace: team, name: api}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {namespace: team, name: backends}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: web}], to: [{group: '', kind: Service}]}`

// toTeam is the route of shop with a backend in namespace team.
var toTeam = strings.Replace(route, "backendRefs: [{name: api", "backendRefs: [{namespace: team, name: api", 1)

// run makes the only proxy run everything that its agent's caches have. behind leaves the agent with the earlier
// attachments.
func (f *fixture) run(behind bool) {
	f.t.Helper()
	before := ""
	for _, object := range f.list(ownKind("GatewayProxy")) {
		before = object.(*appv1.GatewayProxy).Status.Resources[0].ResourceVersion
	}
	f.program("web", "shop")
	for _, object := range f.list(ownKind("GatewayProxy")) {
		if report := object.(*appv1.GatewayProxy); behind {
			report.Status.Resources[0].ResourceVersion = before
			f.putObject(ownKind("GatewayProxy"), report)
		}
	}
	f.settle()
}

// without has proxies report that they have not listed a resource of a namespace.
func (f *fixture) without(resource, namespace string) {
	f.t.Helper()
	for _, object := range f.list(ownKind("GatewayProxy")) {
		report, behind := object.(*appv1.GatewayProxy), appv1.ProxiedResource{Resource: resource, Namespace: namespace, ResourceVersion: "0"}
		report.Status.Resources = append(report.Status.Resources, behind)
		f.putObject(ownKind("GatewayProxy"), report)
	}
}

func (f *fixture) expectRoute(want ...string) {
	f.t.Helper()
	for i := range want {
		want[i] = "parents[0] " + want[i]
	}
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", want...)
}

// TestARouteWaitsForANewNamespace: until its agent has seen the ReferenceGrant there, a proxy answers 500.
func TestARouteWaitsForANewNamespace(t *testing.T) {
	f := newSettled(t, shop+"\n---"+teamService)
	f.run(false)
	f.expectRoute("Programmed=True Programmed")
	f.put(toTeam)
	f.program("web", "shop") // the agents see the edit before the operator
	f.without("referencegrants", "team")
	f.settle()
	f.expectAttached("team web")
	f.expectRoute("ResolvedRefs=True ResolvedRefs", "Programmed=False Pending: not all proxies run ReferenceGrant backends yet")
	f.run(false)
	f.expectRoute("Programmed=True Programmed")

	// A live object stays live with a proxy that has just started.
	f.without("referencegrants", "team")
	f.settle()
	f.expectRoute("Programmed=True Programmed")
}

// TestARouteSaysThatItsNamespaceWaits: it has caused too many reloads. Routes of other namespaces do not say so.
func TestARouteSaysThatItsNamespaceWaits(t *testing.T) {
	f := newSettled(t, shop)
	f.run(false)
	for _, object := range f.list(ownKind("GatewayProxy")) {
		report := object.(*appv1.GatewayProxy)
		report.Status.Problems = append(report.Status.Problems, appv1.ProxyProblem{
			Origin: appv1.ProblemOrigin{Kind: "Namespace", Namespace: "web", Name: "web"}, Reason: appv1.ProblemAwaitingReload, Message: "edits wait",
		}, appv1.ProxyProblem{
			Origin: appv1.ProblemOrigin{Kind: "Namespace", Namespace: "team", Name: "team"}, Reason: appv1.ProblemAwaitingReload, Message: "others wait",
		})
		f.putObject(ownKind("GatewayProxy"), report)
	}
	f.settle()
	f.expectRoute("Programmed=True Programmed")
	f.put(strings.Replace(route, "backendRefs: [{name: api", "backendRefs: [{weight: 2, name: api", 1))
	f.settle()
	f.expectRoute("Programmed=False Pending: not all proxies run it yet: edits wait")
}

// TestARouteSaysThatANamespaceCannotBeRead: somebody else has a RoleBinding of the name, and every proxy answers 500.
func TestARouteSaysThatANamespaceCannotBeRead(t *testing.T) {
	f := newFixture(t, shop+"\n---"+teamService)
	f.put(foreignBinding)
	f.settle()
	f.run(false)
	f.put(toTeam)
	f.settleAll("the route refers to namespace team")
	f.program("web", "shop")
	f.without("referencegrants", "team")
	f.settleAll("the proxies run it")
	f.expectRoute("ResolvedRefs=False RefNotPermitted: "+unreadableTeam, "Programmed=False Pending: not all proxies run ReferenceGrant backends yet")
	f.remove(roleBindings, "team", "web.shop-gateway")
	f.settleAll("the RoleBinding is gone")
	f.run(false)
	f.expectRoute("ResolvedRefs=True ResolvedRefs", "Programmed=True Programmed")
}

// TestARouteThatComesBackIsConfirmedAgain: agents have been told meanwhile that there is nothing for them.
func TestARouteThatComesBackIsConfirmedAgain(t *testing.T) {
	const all = "allowedRoutes: {namespaces: {from: All}}"
	label := "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {team: edge}}"
	selected := strings.Replace(other, "from: All", "from: Selector, selector: {matchLabels: {team: edge}}", 1)
	for _, test := range []struct{ name, before, without, with string }{
		{"allowedRoutes", other, strings.Replace(other, all, "allowedRoutes: {}", 1), other},
		{
			"a namespace label", strings.Replace(selected, "metadata: {name: team}", "metadata: {name: team, labels: {team: edge}}", 1),
			strings.Replace(label, "edge", "none", 1), label,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, shop+"\n---\napiVersion: v1\nkind: Service\nmetadata: {namespace: team, name: api}\nspec: {ports: [{port: 80}]}")
			f.put(test.before)
			f.settle()
			f.run(false)
			isLive := func(want string) {
				t.Helper()
				f.expectConditions(routeKind("HTTPRoute"), "team", "api", "parents[0] Programmed="+want)
			}
			isLive("True Programmed")
			f.put(test.without)
			f.settle()
			f.put(test.with)
			f.settle()
			isLive("False Pending: not all proxies watch namespace team yet")
			f.run(true)
			isLive("False Pending: not all proxies watch namespace team yet")
			f.run(false)
			isLive("True Programmed")
		})
	}
}

// TestAnEditIsKnownByItsOwnVersion: another controller writes a status before the edit is looked at. No agent reports
// that.
func TestAnEditIsKnownByItsOwnVersion(t *testing.T) {
	f := newSettled(t, shop)
	f.programShop()
	f.put(strings.Replace(route, "name: api, port: 80", "name: api, port: 80, weight: 2", 1))
	f.program("web", "shop")
	f.catchUp()
	for _, object := range f.list(routeKind("HTTPRoute")) {
		route := object.(*gatewayv1.HTTPRoute)
		route.Status.Parents = append(route.Status.Parents, gatewayv1.RouteParentStatus{
			ParentRef: gatewayv1.ParentReference{Name: "other"}, ControllerName: "example.com/other", Conditions: route.Status.Parents[0].Conditions,
		})
		f.putObject(routeKind("HTTPRoute"), route)
	}
	f.catchUp()
	must.Get(f.sync())(t)
	for _, object := range f.list(routeKind("HTTPRoute")) {
		for _, parent := range object.(*gatewayv1.HTTPRoute).Status.Parents {
			c := meta.FindStatusCondition(parent.Conditions, "Programmed")
			if parent.ControllerName == source.ControllerName && (c.Status != metav1.ConditionTrue || c.ObservedGeneration != 2) {
				t.Errorf("got %+v", c)
			}
		}
	}
}

// TestAReportHidesNoChangeOfItsGateway: by the time that a report of proxies is looked at, the caches may have a
// Gateway that is not Programmed any more, whose own task comes later.
func TestAReportHidesNoChangeOfItsGateway(t *testing.T) {
	f := newSettled(t, shop)
	f.run(false)
	f.expectRoute("Programmed=True Programmed")
	own := f.ownGateway("web", "shop")
	own.Status.Conditions[0].Status, own.Status.Conditions[0].Message = metav1.ConditionFalse, "one does not run it"
	f.putObject(ownKind("Gateway"), own)
	f.without("referencegrants", "web")
	f.catchUpKind(ownKind("GatewayProxy"))
	f.settle()
	f.expectRoute("Programmed=False Pending: one does not run it")
}
