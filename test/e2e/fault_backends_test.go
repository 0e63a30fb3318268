//go:build slow

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/must"
)

// A backend pod ends at once, or answers no more, though everyone thinks that it is well. GET requests are tried
// elsewhere.
func TestFaultsOfBackends(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(t, "backend killed", nil, func(t *testing.T) {
		t.Helper()
		for _, pod := range s.backends(t, "v1") {
			before := theProcess(t, &pod, echoProgram)
			send(t, before, syscall.SIGKILL)
			waitOther(t, &pod, echoProgram, before)
			waitRestart(t, &pod)
			waitPodReady(t, &pod)
			waitReplicas(t, s.namespace, "v1", 2)
			s.waitServers(t, s.namespace+"_v1_80", 2)
		}
	})
	s.run(t, "packets of a backend vanish", nil, func(t *testing.T) {
		t.Helper()
		undo := drop(t, &s.backends(t, "v1")[0])
		pause(t, 8*time.Second)
		undo()
	})
	s.run(t, "backend deleted by force", nil, func(t *testing.T) {
		t.Helper()
		pod := s.backends(t, "v1")[0]
		must.Do(t, kube.CoreV1().Pods(s.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		waitReplicas(t, s.namespace, "v1", 2)
	})
}

// waitRestart waits until the API server has heard that a pod's container was restarted: until then the pod passes for
// ready, as before.
func waitRestart(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "a restart is known of Pod "+pod.Name, func(ctx context.Context) error {
		now, err := kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.Status.ContainerStatuses[0].RestartCount == pod.Status.ContainerStatuses[0].RestartCount {
			err = fmt.Errorf("its containers are %+v", now.Status.ContainerStatuses)
		}
		return err
	})
}

// waitServers waits until every proxy has so many servers for a backend.
func (s *site) waitServers(t *testing.T, backend string, servers int) {
	t.Helper()
	want := fmt.Sprintf("haproxy_backend_active_servers{proxy=%q} %d\n", backend, servers)
	for _, pod := range s.proxies(t) {
		eventually(t, fmt.Sprintf("Pod %s has %d servers for %s", pod.Name, servers, backend), func(ctx context.Context) error {
			metrics, err := kube.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8404", "/metrics", nil).DoRaw(ctx)
			if err == nil && !strings.Contains(string(metrics), want) {
				err = errors.New("it has not")
			}
			return err
		})
	}
}

func (s *site) backends(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	list := must.Get(kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name}))(t)
	return list.Items
}

// A certificate is renewed with the key of another one. The one before goes on, as do the other listeners; routes can
// be edited, and the status blames the Secret alone.
func TestFaultOfARenewalWithAWrongKey(t *testing.T) {
	t.Parallel()
	const badHost = "bad.example.com"
	authority := certtest.NewAuthority(t)
	first, second := authority.Issue(t, []string{badHost}), authority.Issue(t, []string{badHost})
	good := authority.Issue(t, []string{host})
	s := newSite(t, func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = append(gateway.Spec.Listeners,
			httpsListener("https", host, "web-tls"), httpsListener("bad", badHost, "bad-tls"))
		gateway.Spec.Routes[0].Hostnames = append(gateway.Spec.Routes[0].Hostnames, badHost)
	})
	putSecret(t, s.namespace, "web-tls", good)
	putSecret(t, s.namespace, "bad-tls", first)
	wakeKubelet(t, s.namespace)
	s.waitCondition(t, appv1.ConditionResolvedRefs, metav1.ConditionTrue, "")
	s.waitShown(t, authority, host, good)
	s.waitShown(t, authority, badHost, first)
	s.run(t, "renewed certificate with a wrong key", nil, func(t *testing.T) {
		t.Helper()
		stop := newTLSClient(t, s.namespace, authority.Pool()).watch(t)
		bad := second
		bad.Key = first.Key
		putSecret(t, s.namespace, "bad-tls", bad)
		s.waitCondition(t, appv1.ConditionResolvedRefs, metav1.ConditionFalse, "bad-tls")
		s.edit(t)
		s.waitEdit(t)
		s.waitCondition(t, appv1.ConditionAccepted, metav1.ConditionTrue, "")
		s.waitShown(t, authority, host, good)
		s.waitShown(t, authority, badHost, first)
		putSecret(t, s.namespace, "bad-tls", second)
		s.waitShown(t, authority, badHost, second)
		s.waitCondition(t, appv1.ConditionResolvedRefs, metav1.ConditionTrue, "")
		if sent, losses := stop(); sent == 0 || len(losses) > 0 {
			t.Errorf("%d of %d requests over TLS were lost: %v", len(losses), sent, losses[:min(5, len(losses))])
		}
	})
}

// waitShown waits until every proxy shows a certificate to who asks for a name.
func (s *site) waitShown(t *testing.T, authority *certtest.Authority, name string, pair certtest.Pair) {
	t.Helper()
	config := &tls.Config{RootCAs: authority.Pool(), ServerName: name}
	for _, pod := range s.proxies(t) {
		direct := &client{address: net.JoinHostPort(pod.Status.PodIP, "443"), tls: config}
		eventually(t, "the certificate is shown by Pod "+pod.Name, func(context.Context) error { return expectShown(direct, pair) })
	}
}

func (s *site) waitCondition(t *testing.T, kind string, status metav1.ConditionStatus, message string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is %s", kind, status), func(ctx context.Context) error {
		gateway, err := gateways.AppV1().Gateways(s.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(gateway.Status.Conditions, kind)
		if c == nil || c.Status != status || c.ObservedGeneration != gateway.Generation || !strings.Contains(c.Message, message) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
