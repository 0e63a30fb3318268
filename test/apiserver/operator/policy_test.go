package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPolicy: what the administrator forbids is refused in the status, with the field and the flag, and what runs stays
// as it is.
func TestPolicy(t *testing.T) {
	t.Parallel()
	const namespace, name = "policy", "policy"
	startOperator(t, namespace, "-allowed-service-types=ClusterIP,NodePort", "-allowed-service-annotations=example.com/*", "-allowed-pod-placement=nodeSelector")
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionFalse, "NotAllowed",
		"spec.service.type LoadBalancer is not allowed: the operator has -allowed-service-types=ClusterIP,NodePort")
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "NotAllowed", "see Accepted")
	if services, err := server.Kube.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(services.Items) > 0 {
		t.Errorf("there is a Service: %v, %v", services, err)
	}

	patchGateway(t, namespace, name, `{"spec": {"service": {"type": "NodePort", "annotations": {"example.com/a": "b"}}, "pods": {"nodeSelector": {"a": "b"}}}}`)
	expectEvent(t, namespace, name, corev1.EventTypeNormal, "Synced", "generation 2: applied Service, Deployment")
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionTrue, "Accepted", "")

	patchGateway(t, namespace, name, `{"spec": {"service": {"annotations": {"example.com/a": "c", "other": "d"}}, "pods": {"priorityClassName": "edge", "nodeSelector": {"a": "c"}}}}`)
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionFalse, "NotAllowed", "the key other in spec.service.annotations is not allowed: "+
		"the operator has -allowed-service-annotations=example.com/*; spec.pods.priorityClassName is not allowed: the operator has -allowed-pod-placement=nodeSelector")
	expectContains(t, getChild(t, namespace, name, "Service"), "{metadata: {annotations: {example.com/a: b}}, spec: {type: NodePort}}")
	expectContains(t, getChild(t, namespace, name, "Deployment"), "{spec: {template: {spec: {nodeSelector: {a: b}}}}}")
}
