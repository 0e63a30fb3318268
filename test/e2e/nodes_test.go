//go:build slow && nodes

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/load"
	"gateway/test/internal/testenv"
)

// The nodes of hack/cluster with NODES=3. The first is this machine; each other has a port on the bridge, which the
// outside has, too.
const (
	firstNode = "gateway-node"
	node2     = "gateway-node-2"
	node3     = "gateway-node-3"
	bridge    = "gw0"

	// outsideNetwork is where clients are, and the addresses that MetalLB gives to Services.
	outsideNetwork = "198.51.100.0/24"
	outsideClient  = "198.51.100.9"
	firstAddress   = 16
	addresses      = 16
)

// nodesSite is a Gateway of three proxies on three nodes, which clients outside reach by an address that MetalLB
// announces.
type nodesSite struct {
	*hitless
	network string
	address string
	// traffic is from outside.
	traffic *client
}

// TestNodes: what three nodes in three zones change for proxies, endpoints and clients outside.
func TestNodes(t *testing.T) {
	s := newNodesSite(t)
	t.Run("proxies are on all nodes and in all zones", s.testSpread)
	t.Run("requests stay in the zone", s.testZones)
	t.Run("a node is drained", s.testDrain)
	t.Run("the address is of a node with a proxy", s.testLocal)
	t.Run("a node vanishes", s.testVanish)
}

func newNodesSite(t *testing.T) *nodesSite {
	t.Helper()
	h := newHitless(t)
	s := &nodesSite{hitless: h, network: newOutside(t)}
	scale(t, h.namespace, "v1", 6)
	waitReplicas(t, h.namespace, "v1", 6)
	h.options.Dial = s.dial
	h.options.Rate, h.options.Slow, h.options.WebSockets, h.options.Streams = 150, 3, 2, 2
	s.expose(t, corev1.ServiceExternalTrafficPolicyCluster, firstNode)
	h.patch(t, map[string]any{"replicas": 3})
	waitProxies(t, h.namespace, 3, func(corev1.Pod) bool { return true })
	return s
}

// newOutside makes a network namespace on the bridge of the nodes, and returns its name. Nodes know the way there.
func newOutside(t *testing.T) string {
	t.Helper()
	const name, near = "gateway-outside", "gw9"
	run := func(t *testing.T, commands ...string) {
		t.Helper()
		for _, command := range commands {
			if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
				t.Fatalf("failed to run ip %s: %v: %s", command, err, out)
			}
		}
	}
	remove := func() {
		// The network lives on while there are connections from it.
		_ = exec.Command("ip", "link", "delete", near).Run()
		_ = exec.Command("ip", "netns", "delete", name).Run()
	}
	remove() // what a test left that was killed
	t.Cleanup(remove)
	run(t,
		"netns add "+name,
		"link add "+near+" type veth peer name eth0 netns "+name,
		"link set "+near+" master "+bridge+" up",
		"-n "+name+" link set lo up",
		"-n "+name+" address add "+outsideClient+"/24 dev eth0",
		"-n "+name+" link set eth0 up",
		// Nodes ask for the client from their own addresses.
		"-n "+name+" route add 10.244.0.0/29 dev eth0",
		"route replace "+outsideNetwork+" dev "+bridge,
		"-n "+node2+" route replace "+outsideNetwork+" dev eth0",
		"-n "+node3+" route replace "+outsideNetwork+" dev eth0",
	)
	t.Cleanup(func() { _ = exec.Command("ip", "route", "delete", outsideNetwork).Run() })
	return name
}

// dial opens a connection from outside.
func (s *nodesSite) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	file, err := os.Open("/run/netns/" + s.network)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is read only
	testenv.InNetwork(file, func() { conn, err = (&net.Dialer{}).DialContext(ctx, network, address) })
	return conn, err
}

// expose has the Gateway's Service get an address of which MetalLB says that this node has it, of all that may have it.
func (s *nodesSite) expose(t *testing.T, policy corev1.ServiceExternalTrafficPolicy, announcer string) {
	t.Helper()
	s.address = addressOf(announcer, s.address, firstNode, node2, node3)
	s.patch(t, map[string]any{"service": map[string]any{"type": "LoadBalancer", "address": s.address, "externalTrafficPolicy": policy}})
	s.options.Address, s.options.TLSAddress = net.JoinHostPort(s.address, "80"), net.JoinHostPort(s.address, "443")
	s.traffic = &client{address: s.options.Address, http: &http.Client{
		Timeout: lossTimeout, Transport: &http.Transport{DialContext: s.dial, DisableKeepAlives: true},
	}}
	s.traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	s.waitAnnounced(t, announcer)
	waitProgrammed(t, s.namespace)
}

// addressOf returns an address, other than before, that MetalLB gives to this one of the nodes: the first by a hash.
func addressOf(announcer, before string, nodes ...string) string {
	for i := range addresses {
		address := fmt.Sprintf("198.51.100.%d", firstAddress+i)
		first := slices.MinFunc(nodes, func(a, b string) int {
			hashA, hashB := sha256.Sum256([]byte(a+"#"+address)), sha256.Sum256([]byte(b+"#"+address))
			return slices.Compare(hashA[:], hashB[:])
		})
		if first == announcer && address != before {
			return address
		}
	}
	panic("no address is of " + announcer)
}

// announcer is the node that clients outside take the address to be at.
func (s *nodesSite) announcer(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "ip", "-n", s.network, "-json", "neighbour", "show", s.address).Output()
	if err != nil {
		return "", err
	}
	var neighbours []struct{ Lladdr string }
	if err := json.Unmarshal(out, &neighbours); err != nil || len(neighbours) == 0 {
		return "", fmt.Errorf("nobody is asked for %s: %s: %w", s.address, out, err)
	}
	for _, node := range []string{firstNode, node2, node3} {
		mac, err := macOf(ctx, node)
		if err != nil {
			return "", err
		}
		if mac == neighbours[0].Lladdr {
			return node, nil
		}
	}
	return "", fmt.Errorf("%s is at %s, which is no node", s.address, neighbours[0].Lladdr)
}

func macOf(ctx context.Context, node string) (string, error) {
	arguments := []string{"-json", "link", "show", "dev", bridge}
	if node != firstNode {
		arguments = []string{"-n", node, "-json", "link", "show", "dev", "eth0"}
	}
	out, err := exec.CommandContext(ctx, "ip", arguments...).Output()
	if err != nil {
		return "", err
	}
	var links []struct{ Address string }
	if err := json.Unmarshal(out, &links); err != nil {
		return "", err
	}
	return links[0].Address, nil
}

func (s *nodesSite) waitAnnounced(t *testing.T, node string) time.Duration {
	t.Helper()
	return eventually(t, "the address is at "+node, func(ctx context.Context) error {
		got, err := s.announcer(ctx)
		if err == nil && got != node {
			err = fmt.Errorf("it is at %s", got)
		}
		return err
	})
}

// proxyOn returns the proxy on a node.
func (s *nodesSite) proxyOn(t *testing.T, node string) corev1.Pod {
	t.Helper()
	for _, pod := range livingPods(t, s.namespace) {
		if pod.Spec.NodeName == node {
			return pod
		}
	}
	t.Fatalf("no proxy is on %s", node)
	return corev1.Pod{}
}

// direct is a client of one proxy.
func direct(pod corev1.Pod) *client {
	return &client{address: net.JoinHostPort(pod.Status.PodIP, "80"), http: &http.Client{
		Timeout: lossTimeout, Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// cordon has no new pods come to a node, or lets them come again.
func cordon(t *testing.T, node string, yes bool) {
	t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)
	must.Get(kube.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), node, types.StrategicMergePatchType, body, metav1.PatchOptions{}))(t)
}

// drain does what kubectl drain does: all pods but a DaemonSet's go, each when its PodDisruptionBudget lets it.
func drain(t *testing.T, node string) {
	t.Helper()
	cordon(t, node, true)
	t.Cleanup(func() { cordon(t, node, false) })
	waitLonger(t, "no pod is on "+node, 3*soon, func(ctx context.Context) error {
		pods, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		left := 0
		for _, pod := range pods.Items {
			if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == "DaemonSet" {
				continue
			}
			left++
			if pod.DeletionTimestamp != nil {
				continue
			}
			err := kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
			if err != nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if left > 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
}

// testSpread: the proxies, and their zones.
func (s *nodesSite) testSpread(t *testing.T) {
	s.expectSpread(t)
	budget := must.Get(kube.PolicyV1().PodDisruptionBudgets(s.namespace).Get(t.Context(), childName, metav1.GetOptions{}))(t)
	if budget.Status.DisruptionsAllowed != 1 {
		t.Errorf("the PodDisruptionBudget allows %d disruptions, want 1", budget.Status.DisruptionsAllowed)
	}
	s.patch(t, map[string]any{"pods": map[string]any{"topologySpreadConstraints": []any{map[string]any{
		"maxSkew": 1, "topologyKey": corev1.LabelTopologyZone, "whenUnsatisfiable": "DoNotSchedule",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app.example.com/gateway": gatewayName}},
	}}}})
	waitProxies(t, s.namespace, 3, func(pod corev1.Pod) bool { return len(pod.Spec.TopologySpreadConstraints) == 1 })
	s.expectSpread(t)
	s.patch(t, map[string]any{"pods": map[string]any{"topologySpreadConstraints": nil}})
	waitProxies(t, s.namespace, 3, func(pod corev1.Pod) bool { return len(pod.Spec.TopologySpreadConstraints) == 0 })
	s.expectSpread(t)
	record("three proxies, before and after a rollout", "one on each node and in each zone")
}

func (s *nodesSite) expectSpread(t *testing.T) {
	t.Helper()
	on := map[string]string{}
	for _, pod := range livingPods(t, s.namespace) {
		on[pod.Spec.NodeName] = pod.Labels[corev1.LabelTopologyZone]
	}
	want := map[string]string{firstNode: "a", node2: "b", node3: "c"}
	if fmt.Sprint(on) != fmt.Sprint(want) {
		t.Errorf("the proxies are on %v, want %v", on, want)
	}
}

const zonalHost = "zonal.example.com"

// testZones: a Service with trafficDistribution is answered in the zone of the proxy, and elsewhere while the zone has
// no endpoint.
func (s *nodesSite) testZones(t *testing.T) {
	for _, zone := range []string{"a", "b", "c"} {
		newBackend(t, s.namespace, "zonal-"+zone, 2)
		body := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"labels":{"site":"zonal"}},"spec":{"nodeSelector":{%q:%q}}}}}`, corev1.LabelTopologyZone, zone)
		must.Get(kube.AppsV1().Deployments(s.namespace).Patch(t.Context(), "zonal-"+zone, types.StrategicMergePatchType, body, metav1.PatchOptions{}))(t)
	}
	for _, zone := range []string{"a", "b", "c"} {
		waitRolledOut(t, s.namespace, "zonal-"+zone, 2)
	}
	s.newService(t, "zonal", "", nil)
	setDistribution := func(distribution string) {
		body := fmt.Appendf(nil, `{"spec":{"selector":{"app":null,"site":"zonal"},"trafficDistribution":%q}}`, distribution)
		must.Get(kube.CoreV1().Services(s.namespace).Patch(t.Context(), "zonal", types.MergePatchType, body, metav1.PatchOptions{}))(t)
	}
	setDistribution(corev1.ServiceTrafficDistributionPreferSameZone)
	zonal := appv1.Route{Name: "zonal", Hostnames: []appv1.Hostname{zonalHost}, Rules: []appv1.RouteRule{rule("/", backend("zonal", 1))}}
	setRoutes(t, s.namespace, append(s.routes(backend("v1", 1)), zonal)...)
	waitProgrammed(t, s.namespace)
	s.expectZonal(t, map[string]string{firstNode: "zonal-a", node2: "zonal-b", node3: "zonal-c"})
	h := *s.hitless
	h.options.Host, h.options.TLSAddress, h.options.Slow, h.options.WebSockets, h.options.Streams = zonalHost, "", 0, 0, 0
	h.options.Check = func(answer load.Answer) error {
		if answer.Status != http.StatusOK || !strings.HasPrefix(answer.Version, "zonal-") {
			return fmt.Errorf("answered %d by %q", answer.Status, answer.Version)
		}
		return nil
	}
	sent := load.Start(context.WithoutCancel(t.Context()), h.options)
	scale(t, s.namespace, "zonal-b", 0)
	waitPodCount(t, s.namespace, "app=zonal-b", 0)
	away := s.zonalVersions(t, node2, 100)
	if away["zonal-b"] > 0 || len(away) != 2 {
		t.Errorf("the zone without endpoints is answered by %v", away)
	}
	s.expectZonal(t, map[string]string{firstNode: "zonal-a", node3: "zonal-c"})
	scale(t, s.namespace, "zonal-b", 2)
	waitReplicas(t, s.namespace, "zonal-b", 2)
	s.expectZonal(t, map[string]string{firstNode: "zonal-a", node2: "zonal-b", node3: "zonal-c"})
	setDistribution(corev1.ServiceTrafficDistributionPreferSameNode)
	pause(t, 2*time.Second)
	s.expectZonal(t, map[string]string{firstNode: "zonal-a", node2: "zonal-b", node3: "zonal-c"})
	result := sent.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	record("PreferSameZone, a zone that loses its endpoints and gets them back, PreferSameNode",
		fmt.Sprintf("each request is answered in its zone while it has endpoints; %d requests, %d lost", result.Requests(), len(result.Failures())))
}

// expectZonal waits until each proxy sends all requests to one backend.
func (s *nodesSite) expectZonal(t *testing.T, want map[string]string) {
	t.Helper()
	for node, version := range want {
		eventually(t, "the proxy on "+node+" sends requests to "+version, func(context.Context) error {
			if got := s.zonalVersions(t, node, 20); len(got) != 1 || got[version] == 0 {
				return fmt.Errorf("it sends them to %v", got)
			}
			return nil
		})
	}
}

// zonalVersions counts who answers n requests to the proxy on a node.
func (s *nodesSite) zonalVersions(t *testing.T, node string, n int) map[string]int {
	t.Helper()
	to, counts := direct(s.proxyOn(t, node)), map[string]int{}
	for range n {
		got := must.Get(to.get(t.Context(), zonalHost, "/"))(t)
		counts[got.version]++
	}
	return counts
}

// testDrain: a drain of a node loses no request, whether the node has the address or not. Only with policy Local, the
// address leaves its node before the connections to it have ended.
func (s *nodesSite) testDrain(t *testing.T) {
	const cluster, local = corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal
	for _, c := range []struct {
		policy corev1.ServiceExternalTrafficPolicy
		node   string
	}{{cluster, node2}, {cluster, node3}, {local, node2}, {local, node3}} {
		s.expose(t, c.policy, node3)
		what := fmt.Sprintf("a drain of a node, policy %s", c.policy)
		if c.node == node3 {
			what += ", of the node that has the address"
		}
		drains := func(t *testing.T) {
			t.Helper()
			begin := time.Now()
			drain(t, c.node)
			measure(what, time.Since(begin))
			cordon(t, c.node, false)
		}
		if c.policy == local && c.node == node3 {
			t.Run(what, func(t *testing.T) { s.moves(t, what, drains) })
		} else {
			s.during(t, what, inOrder, drains) // the node has endpoints, too, which end WebSockets and streams
		}
		s.rebalance(t)
	}
}

// moves sees no connection refused while the address moves to another node, which resets connections to the one before.
func (s *nodesSite) moves(t *testing.T, what string, do func(*testing.T)) {
	t.Helper()
	options := s.options
	options.Ended = func(load.End) error { return nil }
	sent := load.Start(context.WithoutCancel(t.Context()), options)
	do(t)
	result := sent.Stop()
	t.Logf("%s", result)
	for _, failure := range result.Failures() {
		if errors.Is(failure.Err, syscall.ECONNREFUSED) || errors.Is(failure.Err, os.ErrDeadlineExceeded) || errors.Is(failure.Err, context.DeadlineExceeded) {
			t.Error(failure)
		}
	}
	record("load during "+what, fmt.Sprintf("%d requests, %d lost by a reset, none refused", result.Requests(), len(result.Failures())))
}

// rebalance has a proxy on each node again: pods that run are not moved.
func (s *nodesSite) rebalance(t *testing.T) {
	t.Helper()
	s.rollOut(t)
	waitReplicas(t, operatorNamespace, "gateway-operator", 2)
	s.expectSpread(t)
}

// rollOut replaces all proxies and waits until those before are gone.
func (s *nodesSite) rollOut(t *testing.T) {
	t.Helper()
	cpu := fmt.Sprintf("%dm", 10+time.Now().Unix()%80)
	s.patch(t, map[string]any{"pods": map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}})
	waitProxies(t, s.namespace, 3, func(pod corev1.Pod) bool { return pod.Spec.Containers[0].Resources.Requests.Cpu().String() == cpu })
	waitPodCount(t, s.namespace, proxySelector, 3)
}

// testLocal: with externalTrafficPolicy Local, proxies see the client, only a node with a proxy has the address, and a
// rolling restart loses no request.
func (s *nodesSite) testLocal(t *testing.T) {
	s.expose(t, corev1.ServiceExternalTrafficPolicyLocal, node3)
	got := must.Get(s.traffic.get(t.Context(), host, "/"))(t)
	if !strings.Contains(got.body, outsideClient) {
		t.Errorf("the proxy does not see the client: %s", got.body)
	}
	s.during(t, "a rolling restart, policy Local", s.afterDrain(), s.rollOut)
	s.expectSpread(t)
	s.patch(t, map[string]any{"replicas": 1})
	waitProxies(t, s.namespace, 1, func(corev1.Pod) bool { return true })
	waitPodCount(t, s.namespace, proxySelector, 1)
	only := livingPods(t, s.namespace)[0].Spec.NodeName
	s.traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	s.waitAnnounced(t, only)
	s.patch(t, map[string]any{"replicas": 3})
	waitProxies(t, s.namespace, 3, func(corev1.Pod) bool { return true })
	s.rebalance(t)
}
