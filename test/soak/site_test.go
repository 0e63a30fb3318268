//go:build slow

package soak

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/must"
)

// site is a Gateway with two proxies, a backend of two pods and a certificate, in a namespace of its own.
type site struct {
	namespace string
	authority *certtest.Authority
	// http and https are where the Gateway listens.
	http, https string
}

func newSite(t *testing.T) *site {
	t.Helper()
	namespace := must.Get(kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "soak-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	})
	s := &site{namespace: namespace.Name, authority: certtest.NewAuthority(t)}
	s.newBackend(t)
	must.Do(t, s.putSecret(t))
	must.Get(gateways.AppV1().Gateways(s.namespace).Create(t.Context(), &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName},
		Spec: appv1.GatewaySpec{
			Replicas: ptr.To(int32(2)), Service: appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
			Listeners: listeners(false), Routes: routes(0),
		},
	}, metav1.CreateOptions{}))(t)
	must.Do(t, wait.PollUntilContextTimeout(t.Context(), time.Second, 2*time.Minute, true, s.isProgrammed))
	service := must.Get(kube.CoreV1().Services(s.namespace).Get(t.Context(), gatewayName+"-gateway", metav1.GetOptions{}))(t)
	s.http, s.https = service.Spec.ClusterIP+":80", service.Spec.ClusterIP+":443"
	return s
}

func (s *site) isProgrammed(ctx context.Context) (bool, error) {
	gateway, err := gateways.AppV1().Gateways(s.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	for _, kind := range []string{appv1.ConditionProgrammed, appv1.ConditionResolvedRefs} {
		if !meta.IsStatusConditionTrue(gateway.Status.Conditions, kind) {
			return false, nil
		}
	}
	return gateway.Status.ReadyReplicas == 2, nil
}

// listeners are HTTP and HTTPS, and one more or not.
func listeners(more bool) []appv1.Listener {
	all := []appv1.Listener{
		{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP},
		{Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS, Hostname: host, TLS: &appv1.ListenerTLS{
			CertificateRefs: []appv1.ObjectReference{{Name: "soak-tls"}},
		}},
	}
	if more {
		all = append(all, appv1.Listener{Name: "more", Port: 8080, Protocol: appv1.ProtocolHTTP})
	}
	return all
}

// routes returns the routes of the nth edit.
func routes(n int) []appv1.Route {
	rule := func(prefix, service string) appv1.RouteRule {
		return appv1.RouteRule{
			Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: prefix}}},
			BackendRefs: []appv1.BackendRef{{Name: service, Port: 80}},
		}
	}
	return []appv1.Route{{Name: "soak", Hostnames: []appv1.Hostname{host}, Rules: []appv1.RouteRule{
		rule("/", "echo"), rule("/moving", "moving"), rule(fmt.Sprintf("/edit-%d", n), "echo"),
	}}}
}

// newBackend deploys two echo pods, the Service "echo" in front of them, and "moving", whose endpoints churn writes.
func (s *site) newBackend(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "echo"}
	image := os.Getenv("ECHO_IMG")
	if image == "" {
		image = "gateway-echo:dev"
	}
	must.Get(kube.AppsV1().Deployments(s.namespace).Create(t.Context(), &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "echo"},
		Spec: k8sappsv1.DeploymentSpec{
			Replicas: ptr.To(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: echoPod(image)},
		},
	}, metav1.CreateOptions{}))(t)
	for name, selector := range map[string]map[string]string{"echo": labels, "moving": nil} {
		must.Get(kube.CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
		}, metav1.CreateOptions{}))(t)
	}
	must.Do(t, wait.PollUntilContextTimeout(t.Context(), time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		d, err := kube.AppsV1().Deployments(s.namespace).Get(ctx, "echo", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 2, err
	}))
}

func echoPod(image string) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "echo", Image: image,
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
			}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}
