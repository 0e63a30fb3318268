package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/must"
)

// TestFieldsOfOthers: what a Gateway does not say of its Service stays as others have it, whatever the operator
// applies.
func TestFieldsOfOthers(t *testing.T) {
	t.Parallel()
	const namespace = "others"
	startOperator(t, namespace)
	createGateway(t, namespace, "others", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	expectEvent(t, namespace, "others", corev1.EventTypeNormal, "Synced", "generation 1: applied")
	const fields = `{"ipFamilyPolicy": "PreferDualStack", "externalTrafficPolicy": "Local", "loadBalancerSourceRanges": ["10.0.0.0/8"]}`
	name := getChild(t, namespace, "others", "Service").GetName()
	must.Get(server.Dynamic.Resource(childKinds["Service"]).Namespace(namespace).Patch(
		t.Context(), name, types.MergePatchType, []byte(`{"spec": `+fields+`}`), metav1.PatchOptions{FieldManager: "someone"}))(t)
	patchGateway(t, namespace, "others", `{"spec": {"service": {"annotations": {"a": "b"}}, "listeners": [{"name": "web", "port": 81, "protocol": "HTTP"}]}}`)
	expectEvent(t, namespace, "others", corev1.EventTypeNormal, "Synced", "generation 2: applied Service")
	service := getChild(t, namespace, "others", "Service")
	expectContains(t, service, "{metadata: {annotations: {a: b}}, spec: {ports: [{port: 81}]}}")
	expectContains(t, service, "spec: "+fields)
}

// TestLoadBalancerClass: the class is the Service's, which keeps it for as long as it is of type LoadBalancer.
func TestLoadBalancerClass(t *testing.T) {
	t.Parallel()
	const namespace, name = "classes", "classes"
	startOperator(t, namespace)
	createGateway(t, namespace, name, "{listeners: [{name: http, port: 80, protocol: HTTP}], service: {loadBalancerClass: example.com/internal-vip}}")
	expectContains(t, getChild(t, namespace, name, "Service"), "{spec: {type: LoadBalancer, loadBalancerClass: example.com/internal-vip}}")
	for _, class := range []string{`"public"`, "null"} {
		_, err := server.App.AppV1().Gateways(namespace).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"spec": {"service": {"loadBalancerClass": `+class+`}}}`), metav1.PatchOptions{})
		if err == nil || !strings.Contains(err.Error(), "spec.service.loadBalancerClass") || !strings.Contains(err.Error(), "set another type first") {
			t.Errorf("the class is changed to %s: %v", class, err)
		}
	}
	patchGateway(t, namespace, name, `{"spec": {"service": {"type": "ClusterIP", "loadBalancerClass": null}}}`)
	expectEvent(t, namespace, name, corev1.EventTypeNormal, "Synced", "generation 2: applied Service")
	patchGateway(t, namespace, name, `{"spec": {"service": {"type": "LoadBalancer", "loadBalancerClass": "public"}}}`)
	expectEvent(t, namespace, name, corev1.EventTypeNormal, "Synced", "generation 3: applied Service")
	expectContains(t, getChild(t, namespace, name, "Service"), "{spec: {type: LoadBalancer, loadBalancerClass: public}}")
}

// TestAddresses: until a load balancer has an address, the status has none. The cluster IP is no address for DNS.
func TestAddresses(t *testing.T) {
	t.Parallel()
	const namespace, name = "addresses", "balanced"
	startOperator(t, namespace)
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	putEndpoints(t, namespace, name, "pod-a")
	report(t, namespace, name, "pod-a", 1)
	expectAddresses := func(reason, text string, want ...string) {
		t.Helper()
		gateway := expectCondition(t, namespace, name, "Programmed", metav1.ConditionTrue, reason, text)
		var got []string
		for _, address := range gateway.Status.Addresses {
			got = append(got, address.Value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the addresses are %q, want %q", reason, got, want)
		}
	}
	expectAddresses("AddressNotAssigned", "the load balancer of Service balanced-gateway has no address yet")
	must.Get(server.Kube.CoreV1().Services(namespace).Patch(t.Context(), name+"-gateway", types.MergePatchType,
		[]byte(`{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}`), metav1.PatchOptions{}, "status"))(t)
	expectAddresses("Programmed", "1 of 1", "192.0.2.1")
	patchGateway(t, namespace, name, `{"spec": {"service": {"type": "ClusterIP"}}}`)
	report(t, namespace, name, "pod-a", 2)
	service := must.Get(server.Kube.CoreV1().Services(namespace).Get(t.Context(), name+"-gateway", metav1.GetOptions{}))(t)
	expectAddresses("Programmed", "generation 2", service.Spec.ClusterIPs...)
}

// TestChosenAddress: the Service asks for the address that the Gateway names. A cluster IP that the API server does not
// give is named in the status.
func TestChosenAddress(t *testing.T) {
	t.Parallel()
	const namespace, name = "chosen", "chosen"
	startOperator(t, namespace)
	createGateway(t, namespace, name, "{listeners: [{name: http, port: 80, protocol: HTTP}], service: {type: ClusterIP, address: 10.0.0.9}}")
	putEndpoints(t, namespace, name, "pod-a")
	report(t, namespace, name, "pod-a", 1)
	gateway := expectCondition(t, namespace, name, "Programmed", metav1.ConditionTrue, "Programmed", "1 of 1")
	if addresses := gateway.Status.Addresses; len(addresses) != 1 || addresses[0].Value != "10.0.0.9" {
		t.Errorf("the addresses are %v, want 10.0.0.9", addresses)
	}
	patchGateway(t, namespace, name, `{"spec": {"service": {"address": "10.0.0.78"}}}`)
	report(t, namespace, name, "pod-a", 2)
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "ApplyFailed", "may not change once set")
	patchGateway(t, namespace, name, `{"spec": {"service": {"type": "LoadBalancer", "address": "192.0.2.1"}}}`)
	report(t, namespace, name, "pod-a", 3)
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionTrue, "AddressNotAssigned", "does not have the address 192.0.2.1 yet")
	expectContains(t, getChild(t, namespace, name, "Service"), "{spec: {type: LoadBalancer, loadBalancerIP: 192.0.2.1}}")
}
