package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// TestSpread has a real scheduler place the second proxy of a rollout, with the first one on node a1. It goes to
// another zone, though b1 is busier; nor does it go to a1 because each other node has a proxy that is about to be
// replaced.
func TestSpread(t *testing.T) {
	t.Parallel()
	const namespace = "spread"
	startOperator(t, namespace)
	for node, zone := range map[string]string{"a1": "a", "a2": "a", "b1": "b"} {
		createNode(t, node, zone)
	}
	startScheduler(t, namespace)
	newPlacer(t, namespace, "busy")("any", "b1")
	for name, old := range map[string][]string{"created": nil, "rolled-out": {"a2", "b1"}} {
		place := newPlacer(t, namespace, name)
		place("new", "a1")
		for _, node := range old {
			place("old", node)
		}
		if got := place("new", ""); got != "b1" {
			t.Errorf("%s: the second proxy is on %s, want b1", name, got)
		}
	}
}

// startScheduler starts a scheduler for pods that name it; the other tests' have none.
func startScheduler(t *testing.T, name string) {
	t.Helper()
	assets := must.Get(testenv.Assets())(t)
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
profiles: [{schedulerName: %s}]
`, server.Kubeconfig, name), 0o600))
	testenv.Start(t, nil, filepath.Join(assets, "kube-scheduler"), "--config="+config, "--secure-port=0")
}

// createNode makes a node that is ready, of a zone.
func createNode(t *testing.T, name, zone string) {
	t.Helper()
	nodes := server.Kube.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("100"),
	}
	if node, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = nil // that it is not ready
	if _, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// newPlacer makes a Gateway. It returns a function that makes proxy pods as the Deployment would for a hash of its pod
// template. The scheduler with the namespace's name places each pod on a node, which is returned, or on the given
// node. The function waits for it: the scheduler must know the pods that it has placed.
func newPlacer(t *testing.T, namespace, gateway string) func(hash, node string) string {
	t.Helper()
	createGateway(t, namespace, gateway, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	child := getChild(t, namespace, gateway, "Deployment").GetName()
	deployment, err := server.Kube.AppsV1().Deployments(namespace).Get(t.Context(), child, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]*k8sappsv1.ReplicaSet{}
	return func(hash, node string) string {
		t.Helper()
		template := deployment.Spec.Template.DeepCopy()
		template.Labels[k8sappsv1.DefaultDeploymentUniqueLabelKey] = hash
		if sets[hash] == nil {
			sets[hash] = must.Get(server.Kube.AppsV1().ReplicaSets(namespace).Create(t.Context(), &k8sappsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: child + "-" + hash},
				Spec:       k8sappsv1.ReplicaSetSpec{Selector: metav1.SetAsLabelSelector(template.Labels), Template: *template},
			}, metav1.CreateOptions{}))(t)
		}
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.GenerateName, pod.Spec.SchedulerName = child+"-"+hash+"-", namespace
		if node != "" {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sets[hash], k8sappsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		if pod, err = server.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, soon, "the pod is scheduled", func(ctx context.Context) (err error) {
			pod, err = server.Kube.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err == nil && pod.Spec.NodeName == "" {
				err = errors.New("it has no node")
			}
			return err
		})
		return pod.Spec.NodeName
	}
}
