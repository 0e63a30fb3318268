// Package v1 is version v1 of the API group app.example.com: the Gateway.
//
// Field names, defaults and semantics are those of the Gateway API's HTTPRoute and Gateway wherever both have the
// thing, but for timeouts, which end when the answer begins. What is not supported is rejected by the CRD schema, never
// ignored.
//
// Until v1.0.0 of the project, a minor version may still rename or remove fields; the changelog names each.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +groupName=app.example.com
package v1
