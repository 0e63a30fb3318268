//go:build slow && nodes

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/load"
)

// vanished is how long after a node vanished Kubernetes may take until its endpoints are gone: 50 s is its default, and
// the machine is busy.
const vanished = 2 * time.Minute

// testVanish: a node vanishes with a proxy, endpoints and the operator that leads.
func (s *nodesSite) testVanish(t *testing.T) {
	for name, c := range map[string]struct {
		policy    corev1.ServiceExternalTrafficPolicy
		announcer string
	}{
		"clients come by another node, policy Local":   {corev1.ServiceExternalTrafficPolicyLocal, node2},
		"clients come by another node, policy Cluster": {corev1.ServiceExternalTrafficPolicyCluster, node2},
		"the node had the address, policy Local":       {corev1.ServiceExternalTrafficPolicyLocal, node3},
	} {
		t.Run(name, func(t *testing.T) {
			s.rebalance(t)
			s.expose(t, c.policy, c.announcer)
			lead(t, node3)
			s.vanish(t, name)
		})
	}
}

// lead has the operator lead on a node, and the other one run elsewhere.
func lead(t *testing.T, node string) {
	t.Helper()
	others := slices.DeleteFunc([]string{firstNode, node2, node3}, func(other string) bool { return other == node })
	for _, other := range others {
		cordon(t, other, true)
		t.Cleanup(func() { cordon(t, other, false) })
	}
	deleteOperators(t, func(corev1.Pod) bool { return true })
	leader := leaderPod(t)
	for _, other := range others {
		cordon(t, other, false)
	}
	deleteOperators(t, func(pod corev1.Pod) bool { return pod.Name != leader })
	if got := leaderPod(t); got != leader {
		t.Fatalf("%s leads, not %s", got, leader)
	}
}

func deleteOperators(t *testing.T, which func(corev1.Pod) bool) {
	t.Helper()
	pods := must.Get(kube.CoreV1().Pods(operatorNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: operatorSelector}))(t)
	for _, pod := range pods.Items {
		if which(pod) {
			must.Do(t, kube.CoreV1().Pods(operatorNamespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
		}
	}
	eventually(t, "those operators are gone", func(ctx context.Context) error {
		now, err := kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: operatorSelector})
		if err != nil {
			return err
		}
		for _, pod := range now.Items {
			if slices.ContainsFunc(pods.Items, func(before corev1.Pod) bool { return before.UID == pod.UID && which(before) }) {
				return fmt.Errorf("%s is there", pod.Name)
			}
		}
		return nil
	})
	waitReplicas(t, operatorNamespace, "gateway-operator", 2)
}

// cut takes a node off the network and ends its kubelet; the function it returns brings both back.
func cut(t *testing.T, node string) (restore func()) {
	t.Helper()
	number := strings.TrimPrefix(node, firstNode+"-")
	port := strings.TrimSuffix(bridge, "0") + number
	restore = sync.OnceFunc(func() {
		if out, err := exec.Command("ip", "link", "set", port, "up").CombinedOutput(); err != nil {
			t.Errorf("failed to bring back %s: %v: %s", node, err, out)
		}
		if out, err := exec.Command(clusterScript, "up").CombinedOutput(); err != nil {
			t.Errorf("failed to bring back %s: %v: %s", node, err, out)
		}
	})
	t.Cleanup(restore)
	if out, err := exec.Command("ip", "link", "set", port, "down").CombinedOutput(); err != nil {
		t.Fatalf("failed to cut off %s: %v: %s", node, err, out)
	}
	cluster(t, "kill", "kubelet", number)
	return restore
}

// vanish cuts off the third node under load, and measures what happens until it is back.
func (s *nodesSite) vanish(t *testing.T, name string) {
	t.Helper()
	lost := s.proxyOn(t, node3)
	leader := leaderPod(t)
	options := s.options
	options.Ended = func(load.End) error { return nil }
	sent := load.Start(context.WithoutCancel(t.Context()), options)
	end := sync.OnceValue(sent.Stop)
	t.Cleanup(func() { end() })
	s.waitTalking(t, sent)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	programmed := s.watchProgrammed(ctx, t)
	begin := time.Now()
	restore := cut(t, node3)
	since := func() time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }
	note := func(what string, took any) {
		t.Logf("%s: %v", what, took)
		record("a node vanishes ("+name+"): "+what, fmt.Sprint(took))
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.awaitMove(ctx); err == nil {
			note("the address is at another node after", since())
		}
	})
	group.Go(func() { note("another operator leads after", awaitLeader(ctx, leader, since)) })
	s.allowBoth()
	setRoutes(t, s.namespace, s.routes(backend("v2", 1))...)
	for _, pod := range livingPods(t, s.namespace) {
		if pod.Spec.NodeName != node3 {
			direct(pod).waitAnswer(t, host, "/", http.StatusOK, "v2")
		}
	}
	note("an edit is live at the other proxies", since())
	waitLonger(t, "the endpoint of "+node3+" is gone", vanished, func(ctx context.Context) error { return s.expectNoEndpoint(ctx, lost) })
	note("its endpoints are gone after", since())
	waitProgrammedLonger(t, s.namespace)
	note("the edit is told after", since())
	gone := time.Now()
	pause(t, 12*time.Second)
	result := end()
	stop()
	group.Wait()
	note("not Programmed in between", programmed())
	s.tell(t, note, result, begin, gone)
	s.comeBack(t, note, restore, lost)
}

// allowBoth lets both backends answer.
func (s *nodesSite) allowBoth() {
	s.answers.allow("v1", "v2")
}

// tell records what was lost.
func (s *nodesSite) tell(t *testing.T, note func(string, any), result *load.Result, begin, gone time.Time) {
	t.Helper()
	kinds, last := map[load.Kind]int{}, begin
	for i, failure := range result.Failures() {
		kinds[failure.Kind]++
		last = failure.At
		if i < 20 {
			t.Logf("lost after %s: %s", failure.At.Sub(begin).Round(100*time.Millisecond), failure)
		}
		// What was sent before may end later, and connections to the proxy that is gone last for minutes.
		isNew := failure.Kind == load.NewConnection || failure.Kind == load.NewTLS
		if isNew && failure.At.Sub(gone) > s.options.Timeout {
			t.Errorf("lost though the endpoints are gone: %s", failure)
		}
	}
	text := fmt.Sprintf("%d of %d requests and messages, the last after %s", len(result.Failures()), result.Requests(), last.Sub(begin).Round(100*time.Millisecond))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		text += fmt.Sprintf("; %s: %d of %d", kind, kinds[kind], result.Kinds[kind].Requests())
	}
	note("lost", text)
	all := result.All()
	note("p50, p99, longest", fmt.Sprintf("%s, %s, %s", all.Quantile(0.5).Round(time.Millisecond), all.Quantile(0.99).Round(time.Millisecond), all.Quantile(1).Round(time.Millisecond)))
}

// comeBack brings the node back, where the proxy that was replaced ends.
func (s *nodesSite) comeBack(t *testing.T, note func(string, any), restore func(), pod corev1.Pod) {
	t.Helper()
	client := direct(pod)
	client.http.Timeout = time.Second
	begin, old := time.Now(), time.Duration(0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	group.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
			got, err := client.get(ctx, host, "/")
			if err == nil && got.version == "v1" {
				old = time.Since(begin)
			}
			return err == nil && got.version == "v2", nil
		})
	})
	restore()
	waitLonger(t, "the proxy that was replaced is gone", vanished, func(ctx context.Context) error {
		_, err := kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	stop()
	group.Wait()
	note("the node is back: the proxy that was replaced is gone after", time.Since(begin).Round(100*time.Millisecond))
	note("the node is back: asked directly, it answers by the configuration before until", old.Round(100*time.Millisecond))
	s.allowBoth()
	setRoutes(t, s.namespace, s.routes(backend("v1", 1))...)
	waitProxies(t, s.namespace, 3, func(corev1.Pod) bool { return true })
}

// expectNoEndpoint returns an error while the pod is a ready endpoint.
func (s *nodesSite) expectNoEndpoint(ctx context.Context, pod corev1.Pod) error {
	list, err := kube.DiscoveryV1().EndpointSlices(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + childName})
	if err != nil {
		return err
	}
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && endpoint.TargetRef.UID == pod.UID && ptr.Deref(endpoint.Conditions.Ready, true) {
				return fmt.Errorf("%s is ready", pod.Name)
			}
		}
	}
	return nil
}

// awaitMove waits until clients take the address to be at a node other than the one that vanished.
func (s *nodesSite) awaitMove(ctx context.Context) error {
	if at, err := s.announcer(ctx); err != nil || at != node3 {
		return fmt.Errorf("it is at %s: %w", at, err)
	}
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		at, err := s.announcer(ctx)
		return err == nil && at != node3, nil
	})
}

// awaitLeader returns how long it took until another operator led.
func awaitLeader(ctx context.Context, before string, since func() time.Duration) time.Duration {
	_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		leases, err := kube.CoordinationV1().Leases(operatorNamespace).List(ctx, metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(leases.Items, func(lease coordinationv1.Lease) bool {
			return ptr.Deref(lease.Spec.HolderIdentity, "") != "" && !holds(lease, before)
		}), nil
	})
	return since()
}

// watchProgrammed samples the Gateway until ctx ends, and returns how long it was not Programmed, and why.
func (s *nodesSite) watchProgrammed(ctx context.Context, t *testing.T) func() string {
	t.Helper()
	var group sync.WaitGroup
	not, why := time.Duration(0), map[string]bool{}
	group.Go(func() {
		last := time.Now()
		_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
			gateway, err := gateways.AppV1().Gateways(s.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
			if err == nil {
				c := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
				if c == nil || c.Status != metav1.ConditionTrue {
					not += time.Since(last)
					why[c.Reason+": "+c.Message] = true
				}
			}
			last = time.Now()
			return false, nil
		})
	})
	return func() string {
		group.Wait()
		return fmt.Sprintf("%s %s", not.Round(100*time.Millisecond), strings.Join(slices.Sorted(maps.Keys(why)), "; "))
	}
}

// waitProgrammedLonger waits until the Gateway is Programmed at its generation.
func waitProgrammedLonger(t *testing.T, namespace string) {
	t.Helper()
	waitLonger(t, "the Gateway is Programmed", vanished, func(ctx context.Context) error {
		gateway, err := gateways.AppV1().Gateways(namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != gateway.Generation {
			return fmt.Errorf("generation %d, condition %+v", gateway.Generation, c)
		}
		return nil
	})
}
