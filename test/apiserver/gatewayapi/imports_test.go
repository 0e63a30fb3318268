package gatewayapi

import (
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/endpoints"
	"gateway/internal/must"
	"gateway/internal/proxypod"
)

const importTeam = "import-team"

// testImports: a ServiceImport is a backend, once its CRD is there, and where a ReferenceGrant allows it. As a backup,
// it takes all requests when the last endpoint of the cluster dies.
func testImports(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	routes, ctx := api.GatewayV1().HTTPRoutes(importTeam), t.Context()
	createTeam(t, importTeam)
	imported := service("books")
	imported.Group, imported.Kind = ptr.To[gatewayv1.Group](proxypod.GroupMultiCluster), ptr.To[gatewayv1.Kind]("ServiceImport")
	imported.Namespace = ptr.To[gatewayv1.Namespace]("data")
	must.Get(routes.Create(ctx, newRoute(importTeam, "imported", shop(), "/imported", imported), metav1.CreateOptions{}))(t)
	expectRoute(t, api, importTeam, "imported", 1, "ResolvedRefs=False/RefNotPermitted")
	grants := api.GatewayV1().ReferenceGrants("data")
	grant := must.Get(grants.Create(ctx, &gatewayv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Name: "books"}, Spec: gatewayv1.ReferenceGrantSpec{
		From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: importTeam}},
		To:   []gatewayv1.ReferenceGrantTo{{Kind: "Service"}, {Group: proxypod.GroupMultiCluster, Kind: "ServiceImport"}},
	}}, metav1.CreateOptions{}))(t)
	expectRoute(t, api, importTeam, "imported", 1, "ResolvedRefs=False/BackendNotFound") // there is no CRD
	expectAnswer(t, port, "/imported", 500, "")

	server.InstallImports(t)
	apply(t, fmt.Sprintf(serviceImport, "v1beta1", "data"))
	export(t, "data", "books")
	expectRoute(t, api, importTeam, "imported", 1, "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/imported", 200, "data/books")
	grant.Spec.To = grant.Spec.To[:1] // a grant for Services is none for ServiceImports
	must.Get(grants.Update(ctx, grant, metav1.UpdateOptions{}))(t)
	expectRoute(t, api, importTeam, "imported", 1, "ResolvedRefs=False/RefNotPermitted")
	expectAnswer(t, port, "/imported", 500, "")
	must.Do(t, grants.Delete(ctx, "books", metav1.DeleteOptions{}))
	must.Do(t, routes.Delete(ctx, "imported", metav1.DeleteOptions{}))
	testFailover(t, api, port)
}

// failures is how often an endpoint dies.
const failures = 5

// testFailover: no request fails when the only endpoint of a Service dies whose backup is a ServiceImport, and none
// when there is one again.
func testFailover(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	routes, ctx := api.GatewayV1().HTTPRoutes(importTeam), t.Context()
	die := createService(t, importTeam, "books")
	apply(t, fmt.Sprintf(serviceImport, "v1alpha1", importTeam))
	export(t, importTeam, "books")
	apply(t, fmt.Sprintf(failover, importTeam))
	must.Get(routes.Create(ctx, newRoute(importTeam, "books", shop(), "/books", service("books")), metav1.CreateOptions{}))(t)
	expectAnswer(t, port, "/books", 200, importTeam+"/books")
	expectPolicy(t, importTeam, "books", 1, "Accepted=True", "Programmed=True")
	stop := sendRequests(t, port, "/books")
	for range failures {
		die()
		expectAnswer(t, port, "/books", 200, "other/books")
		must.Do(t, server.Kube.DiscoveryV1().EndpointSlices(importTeam).Delete(ctx, "books-1", metav1.DeleteOptions{}))
		at, end := serve(t, importTeam+"/books")
		createSlice(t, importTeam, "books-1", map[string]string{discoveryv1.LabelServiceName: "books"}, at)
		expectAnswer(t, port, "/books", 200, importTeam+"/books")
		die = end
	}
	stop()
	must.Do(t, server.App.AppV1().BackendPolicies(importTeam).Delete(ctx, "books", metav1.DeleteOptions{}))
	must.Do(t, routes.Delete(ctx, "books", metav1.DeleteOptions{}))
}

const serviceImport = `apiVersion: multicluster.x-k8s.io/%s
kind: ServiceImport
metadata: {name: books, namespace: %s}
spec:
  type: ClusterSetIP
  ports: [{port: 80, protocol: TCP}]
`

const failover = `apiVersion: app.example.com/v1
kind: BackendPolicy
metadata: {name: books, namespace: %s}
spec:
  targetRefs: [{name: books}]
  healthCheck: {interval: 1s}
  outlierDetection: {consecutiveErrors: 1}
  backup: {kind: ServiceImport, name: books, port: 80}
`

// export makes the EndpointSlice of a ServiceImport, as a controller does for the Service of another cluster. In
// importTeam, that is cluster other.
func export(t *testing.T, namespace, name string) {
	t.Helper()
	text := namespace + "/" + name
	if namespace == importTeam {
		text = "other/" + name
	}
	at, _ := serve(t, text)
	createSlice(t, namespace, "imported-"+name, map[string]string{endpoints.LabelServiceImport: name}, at)
}
