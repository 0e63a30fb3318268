package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gateway/generated/app/clientset/versioned"
	"gateway/internal/must"
)

const (
	operatorNamespace = "gateway-system"
	operatorSelector  = "app.kubernetes.io/name=gateway-operator"

	// soon bounds every wait; what takes longer has failed.
	soon = 60 * time.Second
	// poll is how often a condition is looked at.
	poll = 50 * time.Millisecond
)

// The cluster under test and its clients, set once by TestMain.
var (
	restConfig *rest.Config
	kube       kubernetes.Interface
	gateways   versioned.Interface
)

func TestMain(m *testing.M) {
	if err := connect(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := printMeasurements(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func connect() error {
	path := os.Getenv("TEST_KUBECONFIG")
	if path == "" {
		return fmt.Errorf("TEST_KUBECONFIG is not set: export TEST_KUBECONFIG=$(hack/cluster/cluster.sh kubeconfig)")
	}
	// For the programs that tests start.
	err := os.Setenv("KUBECONFIG", path)
	if err != nil {
		return err
	}
	if restConfig, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return fmt.Errorf("failed to read TEST_KUBECONFIG %s: %w", path, err)
	}
	restConfig.QPS = -1
	if kube, err = kubernetes.NewForConfig(restConfig); err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	if gateways, err = versioned.NewForConfig(restConfig); err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	_, err = kube.AppsV1().Deployments(operatorNamespace).Get(context.Background(), "gateway-operator", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the operator is not deployed, run make deploy: %w", err)
	}
	return nil
}

// newNamespace makes a namespace for the test that enforces the restricted Pod Security Standard, and waits until pods
// can be made in it.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := must.Get(kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, namespace.Name)
		}
		_ = kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	})
	eventually(t, "the namespace has its default ServiceAccount", func(ctx context.Context) error {
		_, err := kube.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

// dump prints what someone looking for the cause of a failure looks at first.
func dump(t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if list, err := gateways.AppV1().Gateways(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, gateway := range list.Items {
			t.Logf("Gateway %s generation %d: %+v", gateway.Name, gateway.Generation, gateway.Status)
		}
	}
	if events, err := kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, event := range events.Items {
			t.Logf("event %s %s %s: %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/gateway"})
	if err != nil {
		return
	}
	for _, pod := range pods.Items {
		for _, container := range []string{"agent", "haproxy"} {
			t.Logf("log of %s/%s:\n%s", pod.Name, container, logs(ctx, namespace, pod.Name, container, 30))
		}
	}
}

// logs returns the last lines a container logged, or why they cannot be had.
func logs(ctx context.Context, namespace, pod, container string, lines int64) string {
	options := &corev1.PodLogOptions{Container: container, TailLines: &lines}
	raw, err := kube.CoreV1().Pods(namespace).GetLogs(pod, options).DoRaw(ctx)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// eventually waits until check returns nil, and fails the test with its last error if it never does.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) time.Duration {
	t.Helper()
	begin := time.Now()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), poll, soon, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("not within %s: %s: %v", soon, what, last)
	}
	return time.Since(begin)
}

// consistently fails the test if check returns an error within the duration.
func consistently(t *testing.T, what string, duration time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, duration, true, func(ctx context.Context) (bool, error) {
		return false, check(ctx)
	})
	if err != nil && !wait.Interrupted(err) {
		t.Fatalf("did not last: %s: %v", what, err)
	}
}

// events returns the events about a Gateway as "REASON: MESSAGE" lines.
func events(ctx context.Context, namespace, name string) (string, error) {
	list, err := kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Gateway,involvedObject.name=" + name,
	})
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, event := range list.Items {
		fmt.Fprintf(&lines, "%s: %s\n", event.Reason, event.Message)
	}
	return lines.String(), nil
}
