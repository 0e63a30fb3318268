// Package e2e tests the deployed operator on a real node: pods, HAProxy, requests through them. It needs
// TEST_KUBECONFIG, and on that cluster the operator (make deploy) and the images. Every test works in a namespace of
// its own, which enforces the restricted Pod Security Standard.
package e2e
