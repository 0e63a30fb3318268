package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/must"
)

const onNodes = `
listeners: [{name: http, port: 80, protocol: HTTP}, {name: alt, port: 8080, protocol: HTTP}]
service: {type: ClusterIP}
pods: {kind: DaemonSet, hostPorts: true}
`

// TestDaemonSet: it is made in place of a Deployment once the administrator allows the ports. The status counts its
// pods, and has the addresses of the nodes that ready ones report.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	const namespace, name = "daemonset", "nodes"
	startOperator(t, namespace, "-allowed-host-ports=80,8080")
	createGateway(t, namespace, name, onNodes)
	expectEvent(t, namespace, name, corev1.EventTypeNormal, "Synced", "generation 1: applied ServiceAccount, Role, RoleBinding, Service, DaemonSet")
	expectContains(t, getChild(t, namespace, name, "DaemonSet"), `
spec:
  selector: {matchLabels: {app.example.com/gateway: nodes}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}
  template:
    metadata: {labels: {app.example.com/gateway: nodes}}
    spec:
      containers:
      - name: haproxy
        ports:
        - {containerPort: 8404, name: metrics}
        - {containerPort: 80, hostPort: 80, protocol: TCP}
        - {containerPort: 8080, hostPort: 8080, protocol: TCP}
`)
	setDaemonSetStatus(t, namespace, name, `{"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 0}`)
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "NoReadyProxies", "0 of 2 proxies are ready; DaemonSet nodes-gateway: 1 of 2 nodes have a pod")

	setDaemonSetStatus(t, namespace, name, `{"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2}`)
	putEndpoints(t, namespace, name, "pod-a", "pod-b")
	reportAddresses(t, namespace, name, "pod-a", "192.0.2.10", "2001:db8::10")
	reportAddresses(t, namespace, name, "pod-b", "192.0.2.9")
	gateway := expectCondition(t, namespace, name, "Programmed", metav1.ConditionTrue, "Programmed", "2 of 2 ready proxies")
	if got, want := addressesOf(gateway), []string{"192.0.2.9", "192.0.2.10", "2001:db8::10"}; !slices.Equal(got, want) || gateway.Status.Replicas != 2 {
		t.Errorf("the addresses of %d pods are %q, want %q of 2", gateway.Status.Replicas, got, want)
	}

	patchGateway(t, namespace, name, `{"spec": {"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "kubelet", "port": 10250, "protocol": "HTTP"}]}}`)
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionFalse, "NotAllowed",
		"spec.pods.hostPorts with the port 10250 of listener kubelet is not allowed: the operator has -allowed-host-ports=80,8080")
	expectContains(t, getChild(t, namespace, name, "DaemonSet"),
		"{spec: {template: {spec: {containers: [{name: haproxy, ports: [{containerPort: 8404}, {hostPort: 80}, {hostPort: 8080}]}]}}}}")
}

// TestPodSecurityOfHostPorts: only a namespace with the Pod Security Standard "privileged" admits such pods. Without
// hostPorts, the pods of a DaemonSet equal a Deployment's.
func TestPodSecurityOfHostPorts(t *testing.T) {
	t.Parallel()
	const namespace = "hostports"
	startOperator(t, namespace, "-allowed-host-ports=80,8080")
	for name, spec := range map[string]string{"open": onNodes, "closed": strings.Replace(onNodes, ", hostPorts: true", "", 1)} {
		createGateway(t, namespace, name, spec)
		getChild(t, namespace, name, "DaemonSet")
		for _, level := range []string{"baseline", "restricted", "privileged"} {
			label := `{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "` + level + `"}}}`
			must.Get(server.Kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(label), metav1.PatchOptions{}))(t)
			daemonSet, err := server.Kube.AppsV1().DaemonSets(namespace).Get(t.Context(), name+"-gateway", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: daemonSet.Spec.Template.ObjectMeta, Spec: daemonSet.Spec.Template.Spec}
			pod.Name = name
			_, err = server.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			refused := err != nil && strings.Contains(err.Error(), "hostPort (container \"haproxy\" uses hostPorts 80, 8080)")
			if want := name == "open" && level != "privileged"; refused != want || err != nil && !refused {
				t.Errorf("%s: the pod of Gateway %s: %v, want that it is refused: %v", level, name, err, want)
			}
		}
	}
}

func addressesOf(gateway *appv1.Gateway) []string {
	var values []string
	for _, address := range gateway.Status.Addresses {
		values = append(values, address.Value)
	}
	return values
}

// setDaemonSetStatus writes how many pods a Gateway's DaemonSet has, as its controller does.
func setDaemonSetStatus(t *testing.T, namespace, gateway, status string) {
	t.Helper()
	must.Get(server.Kube.AppsV1().DaemonSets(namespace).Patch(t.Context(), gateway+"-gateway", types.MergePatchType,
		[]byte(`{"status": `+status+`}`), metav1.PatchOptions{}, "status"))(t)
}

// reportAddresses writes what a proxy pod reports that runs the first generation and has ports of its node.
func reportAddresses(t *testing.T, namespace, gateway, pod string, addresses ...appv1.NodeAddress) {
	t.Helper()
	writeReport(t, namespace, gateway, pod, applyappv1.GatewayProxyStatus().WithObservedGeneration(1).WithAddresses(addresses...))
}
