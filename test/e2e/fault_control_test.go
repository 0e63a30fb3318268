//go:build slow

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gateway/internal/must"
)

const (
	// Another operator leads this soon after the leader was killed, or stopped in order.
	killedLeaderTime  = 20 * time.Second
	stoppedLeaderTime = 2 * time.Second
)

// What is down here carries no traffic, so no request may be lost.
func TestFaultsOfTheControlPlane(t *testing.T) {
	s := newSite(t)
	// Before the API server: an old etcd that comes back leaves it without some of its watches, until it is started again.
	s.run(t, "etcd restarted", nil, restart("etcd"))
	s.run(t, "API server down, an agent killed meanwhile", nil, func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[0]
		before := theProcess(t, &pod, agentProgram)
		cluster(t, "kill", "kube-apiserver")
		t.Cleanup(func() { cluster(t, "up") })
		send(t, before, syscall.SIGKILL)
		waitOther(t, &pod, agentProgram, before)
		pause(t, 5*time.Second)
		cluster(t, "up")
	})
	var killed time.Time
	s.run(t, "API server down, a HAProxy killed meanwhile", onlyInFlight(&killed), func(t *testing.T) {
		t.Helper()
		pod := s.proxies(t)[1]
		before := master(t, &pod)
		cluster(t, "kill", "kube-apiserver")
		t.Cleanup(func() { cluster(t, "up") })
		killed = kill(t, &pod, before)
		waitOther(t, &pod, haproxyProgram, before)
		pause(t, 2*time.Second)
		cluster(t, "up")
	})
	for _, component := range []string{"kubelet", "containerd", "kube-controller-manager"} {
		s.run(t, component+" restarted", nil, restart(component))
	}
	s.run(t, "leader frozen and woken", nil, s.freezeLeader)
	s.run(t, "leader killed", nil, func(t *testing.T) {
		t.Helper()
		pod := getPod(t, operatorNamespace, leaderPod(t))
		held, begin := leaseHolder(t), time.Now()
		send(t, theProcess(t, pod, operatorName), syscall.SIGKILL)
		// It may be the same pod's: its container is started again, and knows nothing of the lease it had.
		eventually(t, "another operator leads", func(context.Context) error {
			if now := leaseHolder(t); now == held {
				return fmt.Errorf("%s still leads", now)
			}
			return nil
		})
		expectWithin(t, "leader killed to another one", begin, killedLeaderTime)
	})
	s.run(t, "leader stopped", nil, func(t *testing.T) {
		t.Helper()
		pod := leaderPod(t)
		begin := time.Now()
		must.Do(t, kube.CoreV1().Pods(operatorNamespace).Delete(t.Context(), pod, metav1.DeleteOptions{}))
		waitOtherLeader(t, pod)
		expectWithin(t, "leader stopped to another one", begin, stoppedLeaderTime)
		waitReplicas(t, operatorNamespace, "gateway-operator", 2)
	})
	s.run(t, "all operators deleted", nil, func(t *testing.T) {
		t.Helper()
		before := leaderPod(t)
		must.Do(t, kube.CoreV1().Pods(operatorNamespace).DeleteCollection(t.Context(),
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: operatorSelector}))
		waitOtherLeader(t, before)
		waitReplicas(t, operatorNamespace, "gateway-operator", 2)
	})
}

func restart(component string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		cluster(t, "restart", component)
	}
}

// freezeLeader stops the leader's process until another one leads, has something done, and wakes it: it ends, and what
// the other one did stays.
func (s *site) freezeLeader(t *testing.T) {
	t.Helper()
	frozen := getPod(t, operatorNamespace, leaderPod(t))
	process := theProcess(t, frozen, operatorName)
	send(t, process, syscall.SIGSTOP)
	begin := time.Now()
	// The frozen one has seen this, or not; it has not done it.
	s.label(t, "during-freeze")
	waitOtherLeader(t, frozen.Name)
	measure("leader frozen to another one", time.Since(begin))
	s.waitRepaired(t)
	s.edit(t)
	s.waitEdit(t)
	before := s.versions(t)
	send(t, process, syscall.SIGCONT)
	waitOther(t, frozen, operatorName, process)
	eventually(t, "the woken leader has ended with an error", func(ctx context.Context) error {
		pod, err := kube.CoreV1().Pods(operatorNamespace).Get(ctx, frozen.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
		if state == nil || state.ExitCode == 0 {
			return fmt.Errorf("its last state is %+v", state)
		}
		return nil
	})
	if after := s.versions(t); after != before {
		t.Errorf("the woken leader wrote something: the versions were %s and are %s", before, after)
	}
	if leader := leaderPod(t); leader == frozen.Name {
		t.Errorf("the woken leader %s leads again", leader)
	}
	waitReplicas(t, operatorNamespace, "gateway-operator", 2)
}

const managedBy = "app.kubernetes.io/managed-by"

// label changes what the operator owns of the Service.
func (s *site) label(t *testing.T, value string) {
	t.Helper()
	must.Get(kube.CoreV1().Services(s.namespace).Patch(t.Context(), childName, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, managedBy, value), metav1.PatchOptions{}))(t)
}

// waitRepaired waits until the operator has put it back.
func (s *site) waitRepaired(t *testing.T) {
	t.Helper()
	eventually(t, "the operator repairs the Service", func(ctx context.Context) error {
		service, err := kube.CoreV1().Services(s.namespace).Get(ctx, childName, metav1.GetOptions{})
		if err == nil && service.Labels[managedBy] != "gateway-operator" {
			err = fmt.Errorf("its labels are %v", service.Labels)
		}
		return err
	})
}

// versions are the generations of the Deployment, and the resource versions of the Service and the Gateway.
func (s *site) versions(t *testing.T) string {
	t.Helper()
	deployment := must.Get(kube.AppsV1().Deployments(s.namespace).Get(t.Context(), childName, metav1.GetOptions{}))(t)
	service := must.Get(kube.CoreV1().Services(s.namespace).Get(t.Context(), childName, metav1.GetOptions{}))(t)
	gateway := must.Get(gateways.AppV1().Gateways(s.namespace).Get(t.Context(), gatewayName, metav1.GetOptions{}))(t)
	return strings.Join([]string{fmt.Sprint(deployment.Generation), service.ResourceVersion, gateway.ResourceVersion}, " ")
}

func getPod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	pod := must.Get(kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return pod
}

// waitOtherLeader waits until another pod leads than before.
func waitOtherLeader(t *testing.T, before string) {
	t.Helper()
	eventually(t, "another operator leads", func(context.Context) error {
		if now := leaderPod(t); now == before {
			return fmt.Errorf("%s still leads", now)
		}
		return nil
	})
}

// leaseHolder returns who holds the operators' lease: a pod, and a number that every process has of its own.
func leaseHolder(t *testing.T) string {
	t.Helper()
	lease := must.Get(kube.CoordinationV1().Leases(operatorNamespace).Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// expectWithin records how long something took since begin, and fails the test if that is too long.
func expectWithin(t *testing.T, what string, begin time.Time, limit time.Duration) {
	t.Helper()
	took := time.Since(begin)
	measure(what, took)
	if took > limit {
		t.Errorf("%s took %s, longer than %s", what, took.Round(time.Millisecond), limit)
	}
}
