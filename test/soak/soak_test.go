//go:build slow

package soak

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gateway/generated/app/clientset/versioned"
	"gateway/internal/must"
)

const (
	operatorNamespace = "gateway-system"
	gatewayName       = "soak"
	host              = "soak.example.com"
)

// The cluster, set once by TestSoak.
var (
	restConfig *rest.Config
	kube       kubernetes.Interface
	gateways   versioned.Interface
)

func TestSoak(t *testing.T) {
	duration := must.Get(time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "30m")))(t)
	restConfig = must.Get(clientcmd.BuildConfigFromFlags("", os.Getenv("TEST_KUBECONFIG")))(t)
	restConfig.QPS = -1
	kube = must.Get(kubernetes.NewForConfig(restConfig))(t)
	gateways = must.Get(versioned.NewForConfig(restConfig))(t)

	site := newSite(t)
	ctx, stop := context.WithCancel(t.Context())
	var churning sync.WaitGroup
	changes := site.churn(ctx, t, &churning)
	requests := site.traffic(ctx, &churning)
	samples := site.observe(t, duration)
	stop()
	churning.Wait()

	printTable(os.Stdout, samples)
	fmt.Printf("%d changes; %d requests, %d lost\n", changes.Load(), requests.sent, len(requests.lost))
	grown := growth(samples)
	for _, what := range names(samples) {
		verdict := "flat"
		if text, ok := grown[what]; ok {
			verdict = "GREW: " + text
			t.Errorf("%s: %s", what, text)
		}
		fmt.Printf("%-22s %s\n", what, verdict)
	}
	if picture := os.Getenv("SOAK_PICTURE"); picture != "" {
		must.Do(t, os.WriteFile(picture, []byte(draw(samples)), 0o600))
	}
	if len(requests.lost) > 0 {
		t.Errorf("%d requests were lost: %v", len(requests.lost), requests.lost[:min(10, len(requests.lost))])
	}
}

// observe takes a sample a minute, or 30 in all if that is more; what is before the first one is to warm up.
func (s *site) observe(t *testing.T, duration time.Duration) []sample {
	t.Helper()
	interval := min(time.Minute, duration/30)
	begin := time.Now()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var samples []sample
	for time.Since(begin) < duration {
		<-tick.C
		taken, err := s.sample(t.Context())
		if err != nil {
			t.Errorf("failed to take a sample: %v", err)
			continue
		}
		samples = append(samples, sample{time.Since(begin), taken})
		fmt.Printf("%s: %v\n", time.Since(begin).Round(time.Second), taken)
	}
	return samples
}

// sample counts what operator, agents and HAProxy have; of several pods, all together.
func (s *site) sample(ctx context.Context) (map[string]float64, error) {
	counts := map[string]float64{}
	proxies, err := kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/gateway=" + gatewayName})
	if err != nil {
		return nil, err
	}
	operators, err := kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gateway-operator"})
	if err != nil {
		return nil, err
	}
	for _, pod := range proxies.Items {
		if err := addMetrics(ctx, counts, &pod, "agent", "8405"); err != nil {
			return nil, err
		}
		if err := addProcesses(counts, &pod); err != nil {
			return nil, err
		}
	}
	addStore(counts)
	for _, pod := range operators.Items {
		if err := addMetrics(ctx, counts, &pod, "operator", "8080"); err != nil {
			return nil, err
		}
	}
	return counts, nil
}
