package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

const (
	gatewayName = "web"
	childName   = "web-gateway"
	host        = "web.example.com"
)

// newBackend deploys the echo backend, answering with its name as the version, behind a Service of that name.
func newBackend(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	image := os.Getenv("ECHO_IMG")
	if image == "" {
		image = "gateway-echo:dev"
	}
	labels := map[string]string{"app": name}
	must.Get(kube.AppsV1().Deployments(namespace).Create(t.Context(), &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: k8sappsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       echoPod(image, name),
			},
		},
	}, metav1.CreateOptions{}))(t)
	newService(t, namespace, name)
}

func echoPod(image, version string) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			RunAsUser:      ptr.To(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:  "echo",
			Image: image,
			Env:   []corev1.EnvVar{{Name: "VERSION", Value: version}},
			// A second, the default, takes a busy machine's backends out of the traffic.
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
			}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				ReadOnlyRootFilesystem:   ptr.To(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

func newService(t *testing.T, namespace, name string) {
	t.Helper()
	must.Get(kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{}))(t)
}

// newGateway is a Gateway of one proxy with the given routes. Connections that tests leave open keep no pod for long.
func newGateway(routes ...appv1.Route) *appv1.Gateway {
	return &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName},
		Spec: appv1.GatewaySpec{
			Replicas:     ptr.To(int32(1)),
			DrainTimeout: "5s",
			Listeners:    []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
			Routes:       routes,
			Service:      appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
		},
	}
}

// route is a route for host with one rule per argument.
func route(name string, rules ...appv1.RouteRule) appv1.Route {
	return appv1.Route{Name: appv1.Name(name), Hostnames: []appv1.Hostname{host}, Rules: rules}
}

// rule sends what is below the prefix to the backends.
func rule(prefix string, backends ...appv1.BackendRef) appv1.RouteRule {
	return appv1.RouteRule{
		Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: prefix}}},
		BackendRefs: backends,
	}
}

func backend(service string, weight int32) appv1.BackendRef {
	return appv1.BackendRef{Name: service, Port: 80, Weight: &weight}
}

// create applies the Gateway and waits until it is Programmed.
func create(t *testing.T, namespace string, gateway *appv1.Gateway) {
	t.Helper()
	must.Get(gateways.AppV1().Gateways(namespace).Create(t.Context(), gateway, metav1.CreateOptions{}))(t)
	waitProgrammed(t, namespace)
}

// setRoutes replaces the Gateway's routes, leaves the rest as it is, and returns the generation that makes.
func setRoutes(t *testing.T, namespace string, routes ...appv1.Route) int64 {
	t.Helper()
	body := must.Get(json.Marshal(map[string]any{"spec": map[string]any{"routes": routes}}))(t)
	gateway := must.Get(gateways.AppV1().Gateways(namespace).Patch(t.Context(), gatewayName, types.MergePatchType, body, metav1.PatchOptions{}))(t)
	return gateway.Generation
}

func waitProgrammed(t *testing.T, namespace string) *appv1.Gateway {
	t.Helper()
	var gateway *appv1.Gateway
	eventually(t, "the Gateway is Programmed at its generation", func(ctx context.Context) (err error) {
		gateway, err = gateways.AppV1().Gateways(namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
		if condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != gateway.Generation {
			return fmt.Errorf("generation %d, condition %+v", gateway.Generation, condition)
		}
		return nil
	})
	return gateway
}

// waitReplicas waits until the Deployment has rolled out with as many ready pods.
func waitReplicas(t *testing.T, namespace, deployment string, replicas int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("Deployment %s has %d ready pods", deployment, replicas), func(ctx context.Context) error {
		d, err := kube.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ObservedGeneration < d.Generation || d.Status.ReadyReplicas != replicas || d.Status.Replicas != replicas {
			return fmt.Errorf("status %+v", d.Status)
		}
		return nil
	})
}
