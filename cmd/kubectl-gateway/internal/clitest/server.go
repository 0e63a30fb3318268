package clitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kinds are the kinds of the resources that NewServer can list.
var kinds = map[string]string{
	"httproutes": "HTTPRoute", "grpcroutes": "GRPCRoute", "tlsroutes": "TLSRoute", "tcproutes": "TCPRoute", "gateways": "Gateway", "listenersets": "ListenerSet",
	"ingresses": "Ingress", "ingressclasses": "IngressClass", "pods": "Pod", "services": "Service", "configmaps": "ConfigMap", "events": "Event", "deployments": "Deployment",
	"gatewayattachments": "GatewayAttachment", "routefilters": "RouteFilter", "endpointslices": "EndpointSlice", "customresourcedefinitions": "CustomResourceDefinition",
}

// NewServer is an API server with objects in YAML by path: an object, or items of a list, which need no kind. Other
// requests are for the handler, first if that is so; nil: they are not found.
func NewServer(t testing.TB, objects map[string]string, other http.Handler) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		content, ok := objects[request.URL.Path]
		switch {
		case !ok && other == nil:
			http.NotFound(writer, request)
			return
		case !ok:
			other.ServeHTTP(writer, request)
			return
		}
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(content), &object); err != nil {
			t.Errorf("%s: %v", request.URL.Path, err)
		}
		describe(request.URL.Path, object)
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(object)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// describe adds version and kind to an object or the items of a list, if those have none.
func describe(path string, object map[string]any) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] != "api" && parts[0] != "apis" || len(parts) < 3 {
		return
	}
	version := parts[1]
	if parts[0] == "apis" {
		version += "/" + parts[2]
	}
	items, isList := object["items"].([]any)
	resource := parts[len(parts)-1]
	if !isList {
		resource = parts[len(parts)-2]
	}
	kind := kinds[resource]
	for _, item := range items {
		item := item.(map[string]any)
		item["apiVersion"], item["kind"] = version, kind
	}
	if isList {
		kind += "List"
	}
	if object["kind"] == nil {
		object["apiVersion"], object["kind"] = version, kind
	}
}
