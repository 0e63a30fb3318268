package rbac

import (
	"os"
	"path/filepath"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/testbuild"
)

// metricsLabel is on namespaces that may read metrics.
var metricsLabel = map[string]string{"app.example.com/metrics": "true"}

// TestNetworkPolicyOfDataPlane: it selects the pods of every Gateway and nothing else, all ports but the pod's own are
// for everybody, and those for the labelled namespaces.
func TestNetworkPolicyOfDataPlane(t *testing.T) {
	newNamespace(t, "policy")
	apply(t, "data-plane.yaml", "-n", "policy")
	policy := must.Get(server.Kube.NetworkingV1().NetworkPolicies("policy").Get(t.Context(), "gateway-proxies", metav1.GetOptions{}))(t)
	gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: gatewayName, UID: "1"}}
	expectSelects(t, policy, resources.DesiredDeployment(gateway, resources.Options{}).Spec.Template.Labels, true)
	expectSelects(t, policy, map[string]string{"app": "api", "app.kubernetes.io/name": "api"}, false)
	for port := int32(1); port <= 65535; port++ {
		own := port == 8404 || port == 8405
		if anybody := admits(policy, nil, port); anybody == own {
			t.Errorf("port %d: for everybody is %v", port, anybody)
		}
		if !admits(policy, metricsLabel, port) {
			t.Errorf("port %d is not for namespaces with the label", port)
		}
	}
	if len(policy.Spec.Egress) > 0 || len(policy.Spec.PolicyTypes) != 1 {
		t.Errorf("it restricts more than what comes in: %v", policy.Spec.PolicyTypes)
	}
}

// TestNetworkPolicyOfOperator: only the labelled namespaces reach the operator, and only its one port.
func TestNetworkPolicyOfOperator(t *testing.T) {
	installOperator(t)
	apply(t, "operator.yaml")
	policy := must.Get(server.Kube.NetworkingV1().NetworkPolicies(operatorNamespace).Get(t.Context(), operatorName, metav1.GetOptions{}))(t)
	content := must.Get(os.ReadFile(filepath.Join(testbuild.MustRoot(t), "artifacts", "operator", "deployment.yaml")))(t)
	var deployment k8sappsv1.Deployment
	must.Do(t, yaml.Unmarshal(content, &deployment))
	expectSelects(t, policy, deployment.Spec.Template.Labels, true)
	if own := deployment.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort; own != 8080 {
		t.Errorf("the operator's port is %d", own)
	}
	for port := int32(1); port <= 65535; port++ {
		if admits(policy, nil, port) || admits(policy, metricsLabel, port) != (port == 8080) {
			t.Errorf("port %d: is for everybody, or not as it should be for namespaces with the label", port)
		}
	}
	if len(policy.Spec.Egress) != 1 || len(policy.Spec.Egress[0].Ports) != 2 {
		t.Errorf("it lets out %+v", policy.Spec.Egress)
	}
}

func apply(t *testing.T, file string, arguments ...string) {
	t.Helper()
	path := filepath.Join(testbuild.MustRoot(t), "artifacts", "network-policies", file)
	server.Kubectl(t, append([]string{"apply", "--server-side", "-f", path}, arguments...)...)
}

func expectSelects(t *testing.T, policy *networkingv1.NetworkPolicy, pod map[string]string, want bool) {
	t.Helper()
	selector := must.Get(metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector))(t)
	if got := selector.Matches(labels.Set(pod)); got != want {
		t.Errorf("pods with the labels %v: selected is %v", pod, got)
	}
}

// admits reports whether pods of a namespace with these labels reach a TCP port; no labels stand for anybody.
func admits(policy *networkingv1.NetworkPolicy, namespace map[string]string, port int32) bool {
	for _, rule := range policy.Spec.Ingress {
		if allowsPeer(rule.From, namespace) && allowsPort(rule.Ports, port) {
			return true
		}
	}
	return false
}

func allowsPeer(from []networkingv1.NetworkPolicyPeer, namespace map[string]string) bool {
	for _, peer := range from {
		selector, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
		if err == nil && peer.PodSelector == nil && peer.IPBlock == nil && selector.Matches(labels.Set(namespace)) {
			return true
		}
	}
	return len(from) == 0
}

func allowsPort(ports []networkingv1.NetworkPolicyPort, port int32) bool {
	for _, allowed := range ports {
		first := allowed.Port.IntVal
		last := first
		if allowed.EndPort != nil {
			last = *allowed.EndPort
		}
		if *allowed.Protocol == corev1.ProtocolTCP && first <= port && port <= last {
			return true
		}
	}
	return len(ports) == 0
}
