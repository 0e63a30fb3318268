//go:build slow

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testbuild"
)

// hostPort is one that nothing on the node has.
const hostPort = 28080

// TestHostPorts: a proxy on each node takes requests on a port of the node. A rollout ends no request that was begun,
// and the node takes connections again afterwards.
func TestHostPorts(t *testing.T) {
	needNode(t)
	addOperatorFlags(t, fmt.Sprintf("-allowed-host-ports=%d", hostPort))
	namespace := newNamespace(t)
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)
	must.Get(kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, label, metav1.PatchOptions{}))(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	gateway := newGateway(route("web", rule("/", backend("v1", 1))))
	gateway.Spec.Listeners[0].Port = hostPort
	gateway.Spec.Pods = appv1.PodsSpec{Kind: appv1.PodsKindDaemonSet, HostPorts: true}
	create(t, namespace, gateway)
	address := expectNodeAddress(t, namespace)
	traffic := &client{address: net.JoinHostPort(address, strconv.Itoa(hostPort)), http: &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
	}}
	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	rollOutNode(t, namespace, traffic)
	expectNodeAddress(t, namespace)
}

// expectNodeAddress returns the address of the node, and expects that the Gateway has it.
func expectNodeAddress(t *testing.T, namespace string) string {
	t.Helper()
	nodes := must.Get(kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	i := slices.IndexFunc(nodes.Items[0].Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	want := nodes.Items[0].Status.Addresses[i].Address
	gateway := waitProgrammed(t, namespace)
	if got := gateway.Status.Addresses; len(got) != 1 || got[0].Value != want {
		t.Errorf("the Gateway has the addresses %+v, want that of the node, %s", got, want)
	}
	return want
}

// rollOutNode replaces the pod of the node while it has a request.
func rollOutNode(t *testing.T, namespace string, traffic *client) {
	t.Helper()
	before := proxyPods(t, namespace)[0].Name
	begun := make(chan error, 1)
	go func() {
		got, err := traffic.get(t.Context(), host, "/delay/3s")
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("answered %d: %s", got.status, got.body)
		}
		begun <- err
	}()
	body := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"example.com/rolled-out":%q}}}}}`, time.Now().String())
	must.Get(kube.AppsV1().DaemonSets(namespace).Patch(t.Context(), childName, types.MergePatchType, body, metav1.PatchOptions{}))(t)
	var refused time.Time
	eventually(t, "the node takes connections again, by another pod", func(ctx context.Context) error {
		got, err := traffic.get(ctx, host, "/")
		if err != nil && refused.IsZero() {
			refused = time.Now()
		}
		if err != nil || got.status != http.StatusOK {
			return fmt.Errorf("answered %d: %w", got.status, err)
		}
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: proxySelector})
		if err == nil && (len(pods.Items) != 1 || pods.Items[0].Name == before) {
			err = fmt.Errorf("%s is still there", before)
		}
		return err
	})
	if !refused.IsZero() {
		t.Logf("the node refused connections for %s", time.Since(refused).Round(100*time.Millisecond))
	}
	if err := <-begun; err != nil {
		t.Errorf("the request from before the rollout: %v", err)
	}
}

// addOperatorFlags has the operator run with more flags until the test ends.
func addOperatorFlags(t *testing.T, flags ...string) {
	t.Helper()
	before, set := operatorArguments(t)
	set(append(slices.Clone(before), flags...))
	deployment := must.Get(kube.AppsV1().Deployments(operatorNamespace).Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	waitRolledOut(t, operatorNamespace, "gateway-operator", *deployment.Spec.Replicas)
}

// operatorArguments returns the operator's arguments, which the test's end brings back, and what sets others. It
// applies what make deploy applied, so that the next make deploy meets no other owner.
func operatorArguments(t *testing.T) (before []string, set func([]string)) {
	t.Helper()
	deployments := kube.AppsV1().Deployments(operatorNamespace)
	deployment := must.Get(deployments.Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	applied := must.Get(appsv1ac.ExtractDeployment(deployment, "kubectl"))(t)
	container := &applied.Spec.Template.Spec.Containers[0]
	before = container.Args
	apply := func(ctx context.Context, arguments []string) {
		container.Args = arguments
		must.Get(deployments.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "kubectl", Force: true}))(t)
	}
	t.Cleanup(func() {
		apply(context.Background(), before)
		runAtEnd(t, "hack/kubectl.sh -n gateway-system rollout status deployment/gateway-operator --timeout=60s")
	})
	return before, func(arguments []string) { apply(t.Context(), arguments) }
}

// runAtEnd runs commands in the project's directory while a test cleans up.
func runAtEnd(t *testing.T, commands string) {
	t.Helper()
	command := exec.CommandContext(context.Background(), "sh", "-ec", commands) //nolint:gosec // ours
	command.Dir = testbuild.MustRoot(t)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("failed to clean up: %v: %s", err, out)
	}
}

// operatorImages returns the images of the operator and of HAProxy.
func operatorImages(t *testing.T) (image, haproxy string) {
	t.Helper()
	deployment := must.Get(kube.AppsV1().Deployments(operatorNamespace).Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	operator := deployment.Spec.Template.Spec.Containers[0]
	for _, argument := range operator.Args {
		if value, found := strings.CutPrefix(argument, "-haproxy-image="); found {
			haproxy = value
		}
	}
	return operator.Image, haproxy
}
