//go:build slow

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"gateway/internal/must"
)

// TestLoadBalancersThatNoticeLate: a rollout of the proxies loses no request behind load balancers that know the pods
// by themselves, and go on sending new connections to a stopping pod for as long as clouds' load balancers do.
func TestLoadBalancersThatNoticeLate(t *testing.T) {
	needNode(t)
	for name, notices := range map[string]struct{ after, stopDelay time.Duration }{
		"a target of an NLB that is deregistered":     {120 * time.Second, 150 * time.Second},
		"a target of an NLB that fails health checks": {40 * time.Second, 60 * time.Second},
		"a node that fails two probes, 5 s apart":     {10 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHitless(t)
			h.patch(t, map[string]any{"pods": map[string]any{"stopDelay": notices.stopDelay.String()}})
			waitProxies(t, h.namespace, 2, isSleeping(notices.stopDelay))
			h.options.Rate = 50
			h.options.Address = startBalancer(t, h.namespace, 80, notices.after)
			h.options.TLSAddress = startBalancer(t, h.namespace, 443, notices.after)
			h.during(t, "proxy rollouts behind "+name, h.afterDrain(), func(t *testing.T) {
				t.Helper()
				before := livingPods(t, h.namespace)
				h.patch(t, map[string]any{"pods": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "11m"}}}})
				awaitEnd(t, before, notices.stopDelay+hitlessDrain+3*time.Minute)
			})
		})
	}
}

// isSleeping reports whether HAProxy's container is to go on for so long.
func isSleeping(stopDelay time.Duration) func(corev1.Pod) bool {
	return func(pod corev1.Pod) bool {
		return pod.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds == int64(stopDelay.Seconds())
	}
}

// awaitEnd waits until none of the pods exists any more.
func awaitEnd(t *testing.T, pods []corev1.Pod, timeout time.Duration) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(ctx context.Context) (bool, error) {
		left, err := kube.CoreV1().Pods(pods[0].Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxySelector})
		return err == nil && !slices.ContainsFunc(left.Items, func(pod corev1.Pod) bool {
			return slices.ContainsFunc(pods, func(before corev1.Pod) bool { return before.UID == pod.UID })
		}), nil
	})
	if err != nil {
		t.Fatalf("not within %s: the pods from before have ended: %v", timeout, err)
	}
}

// lateBalancer passes connections on to the ready proxies of a Gateway, and to those that were ready a moment ago.
type lateBalancer struct {
	namespace string
	port      int
	notices   time.Duration

	mutex sync.Mutex
	// ready is when each address was last seen to be ready.
	ready map[string]time.Time
	next  int
}

// startBalancer returns the address of a load balancer that notices after a while that a proxy is not ready any more.
func startBalancer(t *testing.T, namespace string, port int, notices time.Duration) string {
	t.Helper()
	b := &lateBalancer{namespace: namespace, port: port, notices: notices, ready: map[string]time.Time{}}
	must.Do(t, b.look(t.Context()))
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		_ = wait.PollUntilContextCancel(t.Context(), poll, true, func(ctx context.Context) (bool, error) {
			_ = b.look(ctx) // it goes on with what it knows
			return false, nil
		})
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(conn)
		}
	}()
	return listener.Addr().String()
}

// look takes in which proxies are ready.
func (b *lateBalancer) look(ctx context.Context) error {
	list, err := kube.DiscoveryV1().EndpointSlices(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + childName})
	if err != nil {
		return err
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				b.ready[endpoint.Addresses[0]] = time.Now()
			}
		}
	}
	if len(b.ready) == 0 {
		return fmt.Errorf("no proxy in %s is ready", b.namespace)
	}
	return nil
}

// choose returns a proxy that was ready when the load balancer last noticed.
func (b *lateBalancer) choose() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var targets []string
	for address, seen := range b.ready {
		if time.Since(seen) < b.notices {
			targets = append(targets, address)
		}
	}
	if len(targets) == 0 {
		return ""
	}
	slices.Sort(targets)
	b.next++
	return targets[b.next%len(targets)]
}

// pass passes a connection on. If the proxy does not take it, the client sees that.
func (b *lateBalancer) pass(client net.Conn) {
	proxy, err := net.Dial("tcp", net.JoinHostPort(b.choose(), strconv.Itoa(b.port)))
	if err != nil {
		_ = client.Close()
		return
	}
	var group sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, proxy}, {proxy, client}} {
		group.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	group.Wait()
	_, _ = client.Close(), proxy.Close()
}
