package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// census is how much there is of what a fault might leave behind; of several pods, the most that one has.
type census map[string]int

// margins are how much more than before may be there: connections come and go. What is not named here has to be as it
// was.
var margins = census{
	"operator go_goroutines": 30, "operator process_open_fds": 15,
	"agent go_goroutines": 15, "agent process_open_fds": 10, "haproxy descriptors": 50,
}

// childKinds are the kinds of objects there is a fixed number of.
var childKinds = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "pods"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

// count takes the census of a site.
func (s *site) count(t *testing.T) census {
	t.Helper()
	s.traffic.http.CloseIdleConnections()
	var counted census
	eventually(t, "everything can be counted, and old workers are gone", func(ctx context.Context) (err error) {
		counted, err = s.tryCount(ctx, t)
		if n := counted["haproxy processes"]; err == nil && n != 2 {
			err = fmt.Errorf("%d processes of HAProxy in a pod, not a master and a worker", n)
		}
		return err
	})
	return counted
}

// expectNoLeak waits until there is no more than before.
func (s *site) expectNoLeak(t *testing.T, before census) time.Duration {
	t.Helper()
	s.traffic.http.CloseIdleConnections()
	var last error
	defer func() { t.Logf("what went last: %v", last) }()
	return eventually(t, "nothing is left of the fault", func(ctx context.Context) (err error) {
		defer func() {
			if err != nil && ctx.Err() == nil {
				last = err
			}
		}()
		now, err := s.tryCount(ctx, t)
		if err != nil {
			return err
		}
		var errs []error
		for what := range now {
			if margin, ok := margins[what]; now[what] > before[what]+margin || !ok && now[what] != before[what] {
				errs = append(errs, fmt.Errorf("%s: %d, before %d", what, now[what], before[what]))
			}
		}
		return errors.Join(errs...)
	})
}

func (s *site) tryCount(ctx context.Context, t *testing.T) (census, error) {
	t.Helper()
	counted := census{}
	pods, err := livingProxies(ctx, s.namespace)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if err := counted.addMetrics(ctx, &pod, "agent", "8405"); err != nil {
			return nil, err
		}
		all := programs(t, &pod, haproxyProgram)
		counted.atLeast("haproxy processes", len(all))
		for _, p := range all {
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.id))
			counted.atLeast("haproxy descriptors", len(open))
		}
		entries, err := os.ReadDir(configVolume(&pod))
		if err != nil {
			return nil, err
		}
		counted.atLeast("entries in the configuration volume", len(entries))
	}
	operators, err := kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: operatorSelector})
	if err != nil {
		return nil, err
	}
	for _, pod := range operators.Items {
		if err := counted.addMetrics(ctx, &pod, "operator", "8080"); err != nil {
			return nil, err
		}
	}
	return counted, counted.addObjects(ctx, s.namespace)
}

func (c census) atLeast(what string, n int) { c[what] = max(c[what], n) }

// addMetrics adds the goroutines and descriptors that a program tells of itself.
func (c census) addMetrics(ctx context.Context, pod *corev1.Pod, program, port string) error {
	values, err := scrape(ctx, pod, port)
	if err != nil {
		return fmt.Errorf("failed to get the metrics of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	for _, metric := range []string{"go_goroutines", "process_open_fds"} {
		c.atLeast(program+" "+metric, int(values[metric]))
	}
	return nil
}

// scrape returns the metrics without labels of a pod's port.
func scrape(ctx context.Context, pod *corev1.Pod, port string) (map[string]float64, error) {
	raw, err := kube.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, port, "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(string(raw)))
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values, nil
}

// addObjects adds the objects in a namespace, by kind.
func (c census) addObjects(ctx context.Context, namespace string) error {
	objects, err := metadata.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	for _, kind := range childKinds {
		list, err := objects.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		c[kind.Resource] = len(list.Items)
	}
	reports, err := gateways.AppV1().GatewayProxies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c["GatewayProxies"] = len(reports.Items)
	return nil
}
