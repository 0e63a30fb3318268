//go:build slow && nodes

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/load"
	"gateway/test/internal/testenv"
)

const (
	scaledName = "echo-v1"
	// scrapes is how often Prometheus asks the proxies.
	scrapes = 5 * time.Second
	// slept bounds what scalers wait with before they scale down.
	slept = 5 * time.Minute
)

// scaled is a Deployment that KEDA scales, behind a Gateway whose requests wait for it.
type scaled struct {
	namespace string
	client    *client
	address   string
	// object is the ScaledObject of the page.
	object string
}

// TestKEDA: KEDA scales a Deployment by the metrics of the proxies, as docs/features/wait-for-endpoint.md shows: from
// no pod, because requests wait, to several, and to none again. A HorizontalPodAutoscaler does, too.
func TestKEDA(t *testing.T) {
	s := newScaled(t)
	apply(t, s.object)
	t.Run("none to one to none", func(t *testing.T) { s.wakes(t, "KEDA", 5) })
	t.Run("one to several", s.testLoad)
	t.Run("a HorizontalPodAutoscaler from zero", s.testAutoscaler)
}

func newScaled(t *testing.T) *scaled {
	t.Helper()
	s := &scaled{namespace: newNamespace(t)}
	newBackend(t, s.namespace, scaledName, 0)
	gateway := newGateway(route("web", rule("/", backend(scaledName, 1))))
	gateway.Spec.Replicas = ptr.To(int32(2))
	gateway.Spec.Backends = []appv1.Backend{{Name: scaledName, Port: 80, WaitForEndpoint: &appv1.WaitForEndpoint{Timeout: "1m", MaxRequests: ptr.To(int32(50))}}}
	create(t, s.namespace, gateway)
	waitReplicas(t, s.namespace, childName, 2)
	s.address = findPort(t, s.namespace, 80)
	s.client = &client{address: s.address, http: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}
	page := must.Get(os.ReadFile(filepath.Join(testbuild.MustRoot(t), "docs/features/wait-for-endpoint.md")))(t)
	_, object, _ := strings.Cut(string(page), "```yaml\napiVersion: keda.sh/")
	object, _, _ = strings.Cut("apiVersion: keda.sh/"+object, "```")
	s.object = strings.NewReplacer(
		"namespace: shop", "namespace: "+s.namespace, `namespace="shop"`, fmt.Sprintf("namespace=%q", s.namespace), "(shop_)?", s.namespace+"_",
		"http://prometheus.monitoring:9090", s.startPrometheus(t), "cooldownPeriod: 300", "cooldownPeriod: 10", "[1m]", "[20s]",
	).Replace(object)
	return s
}

// startPrometheus starts one at the node's address that asks the proxies, and returns its URL.
func (s *scaled) startPrometheus(t *testing.T) string {
	t.Helper()
	var targets []string
	for _, pod := range proxyPods(t, s.namespace) {
		targets = append(targets, pod.Status.PodIP+":8404")
	}
	dir := t.TempDir()
	config := fmt.Appendf(nil, "global: {scrape_interval: %s, scrape_timeout: %[1]s}\nscrape_configs: [{job_name: gateway-haproxy, static_configs: [{targets: [%s], labels: {namespace: %s}}]}]\n",
		scrapes, strings.Join(targets, ", "), s.namespace)
	must.Do(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), config, 0o600))
	server := must.Get(url.Parse(restConfig.Host))(t)
	address := net.JoinHostPort(server.Hostname(), fmt.Sprint(haproxytest.FreePort(t)))
	testenv.Start(t, nil, filepath.Join(os.Getenv("PROMETHEUS"), "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	return "http://" + address
}

// apply makes objects, of kinds that no client here knows.
func apply(t *testing.T, documents string) {
	t.Helper()
	kubectl(t, documents, "apply", "-f", "-")
}

func kubectl(t *testing.T, input string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(testbuild.MustRoot(t), "hack/kubectl.sh"), arguments...)
	command.Stdin = strings.NewReader(input)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("failed to run kubectl %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
}

// replicas returns an error unless the Deployment is scaled to as many pods as is right.
func (s *scaled) replicas(right func(int32) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := kube.AppsV1().Deployments(s.namespace).Get(ctx, scaledName, metav1.GetOptions{})
		if err == nil && !right(*d.Spec.Replicas) {
			err = fmt.Errorf("it has %d", *d.Spec.Replicas)
		}
		return err
	}
}

func none(n int32) bool { return n == 0 }

// sleeps waits until the Deployment is scaled to no pod, and the last one is gone.
func (s *scaled) sleeps(t *testing.T) {
	t.Helper()
	waitLonger(t, "the Deployment is scaled to no pod", slept, s.replicas(none))
	waitPodCount(t, s.namespace, "app="+scaledName, 0)
}

// wakes sends requests whenever the Deployment has no pod.
func (s *scaled) wakes(t *testing.T, scaler string, times int) {
	t.Helper()
	var first, down []time.Duration
	sent := 0
	for range times {
		begin := time.Now()
		s.sleeps(t)
		down = append(down, time.Since(begin))
		took := s.burst(t)
		first = append(first, took[0])
		sent += len(took)
	}
	record(scaler+": requests to no pod", fmt.Sprintf("%d, all answered", sent))
	measure(scaler+": the answer to the first of them", first...)
	measure(scaler+": from these answers to no pod", down[1:]...)
}

// burst sends requests for two seconds, all of which have to be answered, and returns how long each took.
func (s *scaled) burst(t *testing.T) []time.Duration {
	t.Helper()
	var group sync.WaitGroup
	took := make([]time.Duration, 20)
	for i := range took {
		group.Go(func() {
			begin := time.Now()
			got, err := s.client.get(t.Context(), host, "/")
			took[i] = time.Since(begin)
			if err != nil || got.version != scaledName {
				t.Errorf("request %d was answered %d %s after %s: %v", i, got.status, got.body, took[i], err)
			}
		})
		pause(t, 100*time.Millisecond)
	}
	group.Wait()
	t.Logf("the first took %s, the longest %s", took[0], slices.Max(took))
	return took
}

// testLoad: as many requests as take three pods get these, and no request is lost on the way up.
func (s *scaled) testLoad(t *testing.T) {
	s.sleeps(t)
	s.burst(t) // more would wait than may
	sent := load.Start(context.WithoutCancel(t.Context()), load.Options{
		Address: s.address, Host: host, Rate: 110, Timeout: time.Minute, Interval: time.Second, Delay: time.Second, Slow: 5,
		Check: func(answer load.Answer) error {
			if answer.Version != scaledName {
				return fmt.Errorf("answered %d: %.200s", answer.Status, answer.Body)
			}
			return nil
		},
	})
	begin := time.Now()
	waitLonger(t, "the Deployment is scaled to three pods", slept, s.replicas(func(n int32) bool { return n == 3 }))
	took := time.Since(begin)
	waitReplicas(t, s.namespace, scaledName, 3)
	pause(t, 5*time.Second)
	result := sent.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	record("KEDA: to three pods under load", fmt.Sprintf("%s; %d requests, %d lost", took.Round(time.Second), result.Requests(), len(result.Failures())))
	s.sleeps(t)
}

// testAutoscaler: a HorizontalPodAutoscaler of its own scales by the same metrics, which KEDA serves for another
// Deployment.
func (s *scaled) testAutoscaler(t *testing.T) {
	newBackend(t, s.namespace, "other", 0)
	kubectl(t, "", "-n", s.namespace, "delete", "scaledobject", scaledName)
	apply(t, strings.NewReplacer("metadata: {name: "+scaledName, "metadata: {name: other", "scaleTargetRef: {name: "+scaledName, "scaleTargetRef: {name: other").Replace(s.object))
	scale(t, s.namespace, scaledName, 1) // scaling is disabled for what had no pod before
	apply(t, fmt.Sprintf(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %s, namespace: %s}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  minReplicas: 0
  maxReplicas: 3
  behavior: {scaleDown: {stabilizationWindowSeconds: 10}}
  metrics:
    - {type: External, external: {metric: {name: s0-prometheus, selector: {matchLabels: {scaledobject.keda.sh/name: other}}}, target: {type: AverageValue, averageValue: "10"}}}
    - {type: External, external: {metric: {name: s1-prometheus, selector: {matchLabels: {scaledobject.keda.sh/name: other}}}, target: {type: AverageValue, averageValue: "20"}}}
`, scaledName, s.namespace))
	s.wakes(t, "HorizontalPodAutoscaler", 3)
}
