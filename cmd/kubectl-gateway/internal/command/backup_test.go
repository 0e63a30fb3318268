package command_test

import (
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// TestExplainBackup: explain distinguishes the endpoints of a Service from the endpoints of its backup.
func TestExplainBackup(t *testing.T) {
	const objects = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: shop, namespace: demo}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: shop, rules: [{backendRefs: [{name: web, port: 80}]}]}]
  backends: [{name: web, port: 80, backup: {name: spare, port: 80}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: spare, namespace: demo}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: demo, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.0.0.1], conditions: {ready: READY}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: spare-1, namespace: demo, labels: {kubernetes.io/service-name: spare}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]
`
	for ready, want := range map[string]string{
		"true":  "100% to Service web port 80, ready: 10.0.0.1:8080, otherwise the backup: 10.1.0.1:8080\n",
		"false": "100% to Service web port 80, ready: none, otherwise the backup: 10.1.0.1:8080\n",
	} {
		file := clitest.WriteFile(t, "shop.yaml", strings.Replace(objects, "READY", ready, 1))
		clitest.Run(t, "", "explain", "-f", file, "http://shop.example.com/").Want(t, 0, want)
	}
}

// TestExplainServiceImport: a ServiceImport has the endpoints of the EndpointSlices with its label.
func TestExplainServiceImport(t *testing.T) {
	file := clitest.WriteFile(t, "shop.yaml", `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: demo}
spec: {gatewayClassName: gateway, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: demo}
spec:
  parentRefs: [{name: shop}]
  rules: [{backendRefs: [{group: multicluster.x-k8s.io, kind: ServiceImport, name: web, port: 80}]}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web, namespace: demo}
spec: {type: ClusterSetIP, ips: [10.9.9.9], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: demo, labels: {multicluster.kubernetes.io/service-name: web, kubernetes.io/service-name: derived}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.0.0.1]}]
`)
	clitest.Run(t, "", "explain", "-f", file, "http://shop.example.com/").Want(t, 0, "100% to ServiceImport web port 80, ready: 10.0.0.1:8080\n")
}
