package clustertest

import (
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// TestVersion shows what the cluster runs, as the Deployments have it.
func TestVersion(t *testing.T) {
	namespace := newNamespace(t, "version")
	clitest.Run(t, "", "version").Want(t, 3, "kubectl-gateway ", "there is no operator in the cluster")
	file := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: gateway-operator, labels: {app.kubernetes.io/name: gateway-operator}}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: operator, image: "gateway:v0.1.0"}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop-gateway, labels: {app.example.com/gateway: shop}}
spec:
  selector: {matchLabels: {c: d}}
  template:
    metadata: {labels: {c: d}}
    spec: {containers: [{name: haproxy, image: "haproxy:3.4"}, {name: keys, image: "gateway:v0.1.0"}], initContainers: [{name: agent, image: "gateway:v0.1.0"}]}
`
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-").Want(t, 0)
	clitest.Run(t, "", "version").Want(t, 0, "kubectl-gateway ", "PROGRAM    NAMESPACE   DEPLOYMENT         READY   IMAGES",
		"operator   version     gateway-operator   0/2     gateway:v0.1.0", "proxies    version     shop-gateway       0/1     gateway:v0.1.0,haproxy:3.4")
}
