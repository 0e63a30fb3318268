package e2e

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/certtest"
	"gateway/internal/must"
)

// The users of the containers.
const (
	proxyUser    = "99"
	operatorUser = "65532"
)

// TestLockedDown: what the pods may do, hold and show, as the API server and the node's kernel see it.
func TestLockedDown(t *testing.T) {
	t.Parallel()
	namespace, authority := newNamespace(t), certtest.NewAuthority(t)
	putSecret(t, namespace, "web-tls", authority.Issue(t, []string{host}))
	gateway := newGateway(route("web", rule("/app")))
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, httpsListener("https", host, "web-tls"))
	create(t, namespace, gateway)
	waitReplicas(t, namespace, childName, 1)
	pod := &proxyPods(t, namespace)[0]
	t.Run("namespaces refuse other pods", func(t *testing.T) {
		for _, namespace := range []string{namespace, operatorNamespace} {
			expectRestricted(t, namespace)
		}
	})
	t.Run("pod as admitted", func(t *testing.T) { expectLockedSpec(t, pod) })
	t.Run("service", func(t *testing.T) { expectServicePorts(t, namespace, 80, 443) })
	t.Run("listener ports tell nothing", func(t *testing.T) {
		for _, c := range []*client{newClient(t, namespace), newTLSClient(t, namespace, authority.Pool())} {
			expectNothingTold(t, c)
		}
	})
	if !onNode() {
		return // what follows is in /proc of the node
	}
	t.Run("haproxy", func(t *testing.T) {
		for _, p := range tasks(t, pod, "haproxy") {
			expectConfined(t, p, proxyUser)
			expectReadOnly(t, p, "/run/haproxy", "/run/haproxy-keys")
			expectHolds(t, p, "key")
			expectNoShell(t, p)
			expectPrivateSockets(t, p)
		}
	})
	t.Run("keys", func(t *testing.T) {
		for _, p := range tasks(t, pod, "keys") {
			expectConfined(t, p, proxyUser)
			expectReadOnly(t, p, "/etc/gateway/certificates", "/etc/haproxy-certificates", "/run/haproxy-keys")
			expectHolds(t, p, "key")
			expectNoShell(t, p)
		}
	})
	t.Run("agent", func(t *testing.T) {
		for _, p := range tasks(t, pod, "agent") {
			expectConfined(t, p, proxyUser)
			expectReadOnly(t, p, "/etc/haproxy", "/run/haproxy")
			expectHolds(t, p, "token")
			expectNoShell(t, p)
			expectListening(t, p, 80, 443, 8404, 8405)
		}
	})
	t.Run("operator", expectOperatorLocked)
}

func expectOperatorLocked(t *testing.T) {
	pods := must.Get(kube.CoreV1().Pods(operatorNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: operatorSelector}))(t)
	seen := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		seen++
		for _, p := range tasks(t, pod, "operator") {
			expectConfined(t, p, operatorUser)
			expectReadOnly(t, p)
			expectHolds(t, p, "token")
			expectNoShell(t, p)
			expectListening(t, p, 8080)
		}
	}
	if seen == 0 {
		t.Error("no operator runs")
	}
}

// expectRestricted checks that the namespace refuses pods that the restricted standard does not allow.
func expectRestricted(t *testing.T, namespace string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "privileged"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("namespace %s answers %v to a pod that may be root", namespace, err)
	}
}

// expectLockedSpec checks what the API server knows of a proxy's pod.
func expectLockedSpec(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	spec, security := &pod.Spec, pod.Spec.SecurityContext
	if spec.HostNetwork || spec.HostPID || spec.HostIPC || spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("the pod shares something of the node, or has its token mounted everywhere: %+v", spec)
	}
	if len(security.Sysctls) != 1 || security.Sysctls[0].Name != "net.ipv4.ip_unprivileged_port_start" {
		t.Errorf("the pod sets %v", security.Sysctls)
	}
	var names []string
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		names = append(names, container.Name)
	}
	// Whoever else were in the pod could mount the volume with the sockets.
	if !slices.Equal(names, []string{"keys", "agent", "haproxy"}) || len(spec.EphemeralContainers) > 0 {
		t.Errorf("the pod has the containers %q", names)
	}
	for _, volume := range spec.Volumes {
		if volume.EmptyDir == nil && volume.Projected == nil {
			t.Errorf("volume %s is neither the pod's own nor read-only: %+v", volume.Name, volume.VolumeSource)
		}
	}
	account := must.Get(kube.CoreV1().ServiceAccounts(pod.Namespace).Get(t.Context(), spec.ServiceAccountName, metav1.GetOptions{}))(t)
	if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Error("pods with the ServiceAccount have its token mounted")
	}
}

func expectServicePorts(t *testing.T, namespace string, want ...int32) {
	t.Helper()
	service := must.Get(kube.CoreV1().Services(namespace).Get(t.Context(), childName, metav1.GetOptions{}))(t)
	var got []int32
	for _, port := range service.Spec.Ports {
		got = append(got, port.Port)
		if port.TargetPort.IntVal != port.Port {
			t.Errorf("port %d leads to %s", port.Port, port.TargetPort.String())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the Service has the ports %v, want %v", got, want)
	}
}

// expectNothingTold asks a listener port for what the pod's own ports answer.
func expectNothingTold(t *testing.T, c *client) {
	t.Helper()
	for _, path := range []string{
		"/metrics", "/healthz", "/readyz", "/startupz", "/stats", "/haproxy?stats", "/;csv", "/debug/pprof/", "/app/../metrics", "//metrics", "/%6detrics",
	} {
		for _, name := range []string{host, "", "localhost", "127.0.0.1:8404", host + ":8405"} {
			status, body := c.raw(t, name, path)
			if status < 400 || strings.Contains(body, "haproxy_") || strings.Contains(body, "gateway_") || strings.Contains(body, "/app") {
				t.Errorf("GET %s of %q is answered with %d: %.200s", path, name, status, body)
			}
		}
	}
}

// raw sends a GET with the path and Host as they are.
func (c *client) raw(t *testing.T, name, path string) (status int, body string) {
	t.Helper()
	scheme := "http://"
	if c.tls != nil {
		scheme = "https://"
	}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+c.address, nil))(t)
	request.URL.Opaque, request.Host = path, cmp.Or(name, "unknown.example.com")
	response, err := c.http.Do(request)
	must.Do(t, err)
	defer func() { _ = response.Body.Close() }()
	content := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(content)
}
