// Package kinds has the kinds of the objects that Gateways of the Gateway API are made of, and their resources.
package kinds

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// Routes are the kinds of routes.
var Routes = strings.Fields("HTTPRoute GRPCRoute TLSRoute TCPRoute UDPRoute")

// versions are the versions of the kinds.
var versions = map[string]schema.GroupVersion{}

func init() {
	add := func(version schema.GroupVersion, kinds ...string) {
		for _, kind := range kinds {
			versions[kind] = version
		}
	}
	add(schema.GroupVersion(gatewayv1.GroupVersion), append(Routes, "GatewayClass", "Gateway", "ListenerSet", "ReferenceGrant", "BackendTLSPolicy")...)
	add(schema.GroupVersion(v1alpha1.GroupVersion), "XTelemetryPolicy")
	add(schema.GroupVersion{Group: proxypod.GroupMultiCluster, Version: "v1beta1"}, "ServiceImport")
	add(appv1.SchemeGroupVersion, "GatewayConfig", "RouteFilter", "BackendPolicy")
}

// VersionOf returns the kind with its version.
func VersionOf(kind string) schema.GroupVersionKind { return versions[kind].WithKind(kind) }

// ResourceOf returns the resource of a kind, the zero value of one that is not known.
func ResourceOf(kind string) schema.GroupVersionResource {
	if _, ok := versions[kind]; !ok {
		return schema.GroupVersionResource{}
	}
	if kind == "Gateway" { // it would become "gatewaies"
		return versions[kind].WithResource("gateways")
	}
	plural, _ := meta.UnsafeGuessKindToResource(VersionOf(kind))
	return plural
}
