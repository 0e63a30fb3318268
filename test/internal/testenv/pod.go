package testenv

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gateway/internal/proxypod"
)

// Pod is a proxy pod that the API server knows and no node runs.
type Pod struct {
	// Env are the variables that an agent has there.
	Env []string
	// Token is the token of its ServiceAccount, as kubelet mounts it in the pod.
	Token string
}

// NewPod makes a pod of a Gateway, whose ServiceAccount there is, and makes it an endpoint of the Gateway's Service.
func (s *Server) NewPod(t testing.TB, namespace, gateway, name string) Pod {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, child := t.Context(), proxypod.ChildName(gateway)
	pod, err := s.Kube.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: proxypod.SelectorLabels(gateway)},
		Spec: corev1.PodSpec{
			ServiceAccountName: child, AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "haproxy", Image: "haproxy", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}, metav1.CreateOptions{})
	must(err)
	_, err = s.Kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: child + "-" + name, Labels: map[string]string{
			proxypod.LabelGateway: gateway, discoveryv1.LabelServiceName: child,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.1.1.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
	}, metav1.CreateOptions{})
	must(err)
	token, err := s.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, child, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To[int64](7200),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	must(err)
	return Pod{
		Env:   []string{"POD_NAME=" + name, "POD_NAMESPACE=" + namespace, "POD_UID=" + string(pod.UID)},
		Token: token.Status.Token,
	}
}
