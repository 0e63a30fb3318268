//go:build slow

package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// Processes of one proxy pod end or hang. The other pod goes on.
func TestFaultsOfProxyProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(t, "agent killed", nil, func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[0]
		before := theProcess(t, &pod, agentProgram)
		send(t, before, syscall.SIGKILL)
		waitOther(t, &pod, agentProgram, before)
		waitPodReady(t, &pod)
	})
	s.run(t, "agent frozen", nil, func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[1]
		id := theProcess(t, &pod, agentProgram)
		send(t, id, syscall.SIGSTOP)
		s.edit(t)
		pause(t, 6*time.Second)
		send(t, id, syscall.SIGCONT)
	})
	var killed time.Time
	s.run(t, "HAProxy worker killed", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[0]
		before := master(t, &pod)
		killed = kill(t, &pod, worker(t, &pod))
		waitOther(t, &pod, haproxyProgram, before)
		waitPodReady(t, &pod)
	})
	s.run(t, "HAProxy master killed", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[1]
		before := master(t, &pod)
		killed = kill(t, &pod, before)
		waitOther(t, &pod, haproxyProgram, before)
		waitPodReady(t, &pod)
	})
	// Its requests wait until it is woken, and are answered then; new ones go elsewhere as soon as the pod is not ready.
	s.run(t, "HAProxy worker hangs and is woken", nil, func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[1]
		id := worker(t, &pod)
		send(t, id, syscall.SIGSTOP)
		waitNotReady(t, &pod)
		send(t, id, syscall.SIGCONT)
		waitPodReady(t, &pod)
	})
	s.run(t, "proxy pod deleted by force", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod, begin := s.proxies(t)[0], time.Now()
		// kubelet ends the containers when it hears of it.
		killed = begin.Add(time.Second)
		must.Do(t, kube.CoreV1().Pods(s.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		// The Deployment says for a moment that it has two.
		waitProxies(t, s.namespace, 2, func(other corev1.Pod) bool { return other.Name != pod.Name })
		measure("proxy pod deleted by force to replaced", time.Since(begin))
	})
}

// A HAProxy that hangs for ever is restarted by kubelet, which asks it every 10 s.
func TestFaultOfAHAProxyThatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(gateway *appv1.Gateway) { gateway.Spec.DrainTimeout = "1s" })
	var hung, unready time.Time
	// Its requests until everyone knows that it is not ready are lost, as it never comes back to them.
	allowed := func(l loss) bool {
		return l.began.After(hung.Add(-lossTimeout)) && l.began.Before(unready.Add(refusedFor))
	}
	s.run(t, "HAProxy hangs for ever", allowed, func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[0]
		before := master(t, &pod)
		hung = time.Now()
		send(t, worker(t, &pod), syscall.SIGSTOP)
		waitNotReady(t, &pod)
		unready = time.Now()
		measure("HAProxy hanging to out of the endpoints", unready.Sub(hung))
		waitLonger(t, "HAProxy is started again", 2*soon, func(context.Context) error {
			if now := master(t, &pod); now == before || now == 0 {
				return fmt.Errorf("its master is process %d, before %d", now, before)
			}
			return nil
		})
		waitPodReady(t, &pod)
		measure("HAProxy hanging for ever to ready again", time.Since(hung))
	})
}

// Connections that want more memory than HAProxy has: the kernel ends it, kubelet starts it again.
func TestFaultOfTooLittleMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(gateway *appv1.Gateway) {
		gateway.Spec.Pods.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}
	})
	var killed time.Time
	s.run(t, "HAProxy out of memory", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[0]
		all, before := programs(t, &pod, haproxyProgram), worker(t, &pod)
		hog(t, &pod, func() bool { return syscall.Kill(before, 0) != nil })
		waitGone(t, all)
		killed = time.Now()
		eventually(t, "the kernel ended HAProxy", func(ctx context.Context) error {
			now, err := kube.CoreV1().Pods(s.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			state := now.Status.ContainerStatuses[0]
			if state.LastTerminationState.Terminated == nil || state.State.Running == nil {
				return fmt.Errorf("its state is %+v", state)
			}
			t.Logf("HAProxy ended: %s, exit code %d", state.LastTerminationState.Terminated.Reason, state.LastTerminationState.Terminated.ExitCode)
			return nil
		})
		waitPodReady(t, &pod)
	})
}

// hog opens connections to a proxy and sends the beginnings of requests until enough says so.
func hog(t *testing.T, pod *corev1.Pod, enough func() bool) {
	t.Helper()
	head := "GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Long: " + strings.Repeat("x", 12000)
	for i := range 20000 {
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(pod.Status.PodIP, "80"), time.Second)
		if err == nil {
			defer connection.Close() //nolint:errcheck // all of them are given up together
			_, _ = connection.Write([]byte(head))
		}
		if (err != nil || i%50 == 0) && enough() {
			return
		}
	}
	t.Fatal("HAProxy holds 20000 connections, whatever its memory")
}

func waitPodReady(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	waitReadiness(t, pod, true)
}

func waitNotReady(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	waitReadiness(t, pod, false)
}

func waitReadiness(t *testing.T, pod *corev1.Pod, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("ready is %t for Pod %s", want, pod.Name), func(ctx context.Context) error {
		now, err := kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && podIsReady(now) != want {
			err = fmt.Errorf("its conditions are %+v", now.Status.Conditions)
		}
		return err
	})
}
