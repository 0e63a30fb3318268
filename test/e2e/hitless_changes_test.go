package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/must"
)

func (h *hitless) editRoutes(t *testing.T) {
	t.Helper()
	for i := range 20 {
		before, after := []string{"v1", "v2"}[i%2], []string{"v2", "v1"}[i%2]
		h.answers.allow(after)
		setRoutes(t, h.namespace, h.routes(backend(after, 1))...)
		waitProgrammed(t, h.namespace)
		h.answers.retire(before)
		h.someRequests(t)
	}
}

// editWeights moves requests from v1 to v2 and back.
func (h *hitless) editWeights(t *testing.T) {
	t.Helper()
	for _, weight := range []int32{10, 50, 100, 99, 60, 1, 0, 20, 100, 50, 0} {
		h.answers.allow("v1", "v2")
		setRoutes(t, h.namespace, h.routes(backend("v1", 100-weight), backend("v2", weight))...)
		waitProgrammed(t, h.namespace)
		switch weight {
		case 0:
			h.answers.retire("v2")
		case 100:
			h.answers.retire("v1")
		}
		h.someRequests(t)
	}
}

// addServices adds Services, and moves the requests between v1 and v2 with each. With retries, HAProxy has to be
// reloaded.
func (h *hitless) addServices(t *testing.T, retry *appv1.RouteRetry) {
	t.Helper()
	h.answers.reloads(retry != nil)
	traffic := newClient(t, h.namespace)
	var added []appv1.Route
	for i := range 6 {
		before, after := []string{"v1", "v2"}[i%2], []string{"v2", "v1"}[i%2]
		name := fmt.Sprintf("added-%t-%d", retry != nil, i)
		h.newService(t, name, "v2", nil)
		to := rule("/"+name, backend(name, 1))
		to.Retry = retry
		added = append(added, route(name, to))
		h.answers.allow(after)
		setRoutes(t, h.namespace, append(h.routes(backend(after, 1)), added...)...)
		waitProgrammed(t, h.namespace)
		h.answers.retire(before)
		traffic.waitAnswer(t, host, "/"+name, http.StatusOK, "v2")
		h.someRequests(t)
	}
}

// changeListeners renames the listener of a port, has another one of the port come before it, and takes that away.
// Between the changes kube-proxy, which works once a second at most, comes to rest: then it takes up each part of a
// change by itself.
func (h *hitless) changeListeners(t *testing.T) {
	t.Helper()
	listener := func(name, hostname string) appv1.Listener {
		return appv1.Listener{Name: appv1.Name(name), Port: 80, Protocol: appv1.ProtocolHTTP, Hostname: appv1.Hostname(hostname)}
	}
	for range 3 {
		for _, listeners := range [][]appv1.Listener{
			{listener("renamed", "")},
			{listener("other", "other.example.com"), listener("renamed", "")},
			{listener("http", "")},
		} {
			h.patch(t, map[string]any{"listeners": append(listeners, httpsListener("https", host, "web-tls"))})
			waitProgrammed(t, h.namespace)
			pause(t, 1500*time.Millisecond)
		}
	}
}

func (h *hitless) renewCertificates(t *testing.T) {
	t.Helper()
	wakeKubelet(t, h.namespace)
	for range 3 {
		renewed := h.authority.Issue(t, []string{host})
		putSecret(t, h.namespace, "web-tls", renewed)
		eventually(t, "every proxy shows the renewed certificate", func(ctx context.Context) error {
			for _, pod := range livingPods(t, h.namespace) {
				if err := expectShownBy(ctx, pod.Status.PodIP, h.options.TLS, renewed); err != nil {
					return fmt.Errorf("pod %s: %w", pod.Name, err)
				}
			}
			return nil
		})
	}
}

func expectShownBy(ctx context.Context, ip string, config *tls.Config, pair certtest.Pair) error {
	dialer := tls.Dialer{Config: config}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(443)))
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // nothing was sent
	if !connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Equal(pair.Leaf) {
		return fmt.Errorf("it is still the one before")
	}
	return nil
}

// livingPods are the proxies that nobody has told to stop.
func livingPods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	var living []corev1.Pod
	for _, pod := range proxyPods(t, namespace) {
		if pod.DeletionTimestamp == nil {
			living = append(living, pod)
		}
	}
	return living
}

func (h *hitless) rollOutBackend(t *testing.T) {
	t.Helper()
	for range 2 {
		annotateTemplate(t, h.namespace, "v1")
		waitRolledOut(t, h.namespace, "v1", 2)
	}
	waitPodCount(t, h.namespace, "app=v1", 2)
}

func (h *hitless) scaleBackend(t *testing.T) {
	t.Helper()
	for _, replicas := range []int{1, 20, 1, 2} {
		scale(t, h.namespace, "v1", replicas)
		waitReplicas(t, h.namespace, "v1", int32(replicas))
		h.someRequests(t)
	}
	waitPodCount(t, h.namespace, "app=v1", 2)
}

// killAgents kills the agent of every proxy, twice.
func (h *hitless) killAgents(t *testing.T) {
	t.Helper()
	for range 2 {
		for _, pod := range livingPods(t, h.namespace) {
			restarts := containerStatus(t, &pod, "agent").RestartCount
			must.Do(t, syscall.Kill(theProcess(t, &pod, agentProgram), syscall.SIGKILL))
			eventually(t, "the agent runs again", func(ctx context.Context) error {
				now, err := kube.CoreV1().Pods(h.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				status := containerStatus(t, now, "agent")
				if status.RestartCount <= restarts || !status.Ready {
					return fmt.Errorf("%d restarts, ready: %t", status.RestartCount-restarts, status.Ready)
				}
				return nil
			})
		}
	}
}

// rollOutProxies replaces all proxies, twice, and waits until those before are gone.
func (h *hitless) rollOutProxies(t *testing.T) {
	t.Helper()
	for _, cpu := range []string{"11m", "12m"} {
		h.patch(t, map[string]any{"pods": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}})
		waitProxies(t, h.namespace, 2, func(pod corev1.Pod) bool { return pod.Spec.Containers[0].Resources.Requests.Cpu().String() == cpu })
	}
	waitPodCount(t, h.namespace, proxySelector, 2)
}

func (h *hitless) scaleProxies(t *testing.T) {
	t.Helper()
	for _, replicas := range []int{4, 2, 4, 2} {
		h.patch(t, map[string]any{"replicas": replicas})
		waitProxies(t, h.namespace, replicas, func(corev1.Pod) bool { return true })
	}
	waitPodCount(t, h.namespace, proxySelector, 2)
}

// evictProxies does to every proxy what a drain of its node does: it asks until the PodDisruptionBudget lets it.
func (h *hitless) evictProxies(t *testing.T) {
	t.Helper()
	for _, pod := range livingPods(t, h.namespace) {
		eventually(t, "the pod may be evicted", func(ctx context.Context) error {
			return kube.CoreV1().Pods(h.namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: h.namespace}})
		})
	}
	waitPodCount(t, h.namespace, proxySelector, 2)
	waitReplicas(t, h.namespace, childName, 2)
}

const proxySelector = "app.example.com/gateway=" + gatewayName

// waitProxies waits until so many proxies are ready and meet the condition, and no others receive traffic.
func waitProxies(t *testing.T, namespace string, n int, meets func(corev1.Pod) bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d proxies are ready", n), func(context.Context) error {
		ready := 0
		for _, pod := range livingPods(t, namespace) {
			if !meets(pod) {
				return fmt.Errorf("pod %s is still there", pod.Name)
			}
			if isReady(&pod) {
				ready++
			}
		}
		if ready != n {
			return fmt.Errorf("%d are ready", ready)
		}
		return nil
	})
	waitProgrammed(t, namespace)
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitPodCount waits until so many pods exist, those that are stopping included.
func waitPodCount(t *testing.T, namespace, selector string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods %s are left", n, selector), func(ctx context.Context) error {
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil && len(pods.Items) != n {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
}

// annotateTemplate has a Deployment replace its pods.
func annotateTemplate(t *testing.T, namespace, deployment string) {
	t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"example.com/rolled-out":%q}}}}}`, time.Now().String())
	must.Get(kube.AppsV1().Deployments(namespace).Patch(t.Context(), deployment, types.MergePatchType, body, metav1.PatchOptions{}))(t)
}

// waitRolledOut waits until a Deployment has replaced its pods.
func waitRolledOut(t *testing.T, namespace, deployment string, replicas int32) {
	t.Helper()
	eventually(t, "Deployment "+deployment+" has replaced its pods", func(ctx context.Context) error {
		d, err := kube.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != replicas || s.Replicas != replicas || s.ReadyReplicas != replicas {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}
