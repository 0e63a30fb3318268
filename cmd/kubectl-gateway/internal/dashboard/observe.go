package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/render"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
)

const (
	// responses counts the answers of each frontend by the class of their status.
	responses = "haproxy_frontend_http_responses_total"
	// metricsFrontend is the frontend that answers to Prometheus.
	metricsFrontend = "metrics"
	// askedAtOnce bounds how many pods are asked at the same time.
	askedAtOnce = 16
)

// snapshot is what was seen of the Gateways at a time.
type snapshot struct {
	at       time.Time
	gateways []appv1.Gateway
	// proxies are by their Gateway.
	proxies map[types.NamespacedName][]proxy
}

// proxy is a proxy pod.
type proxy struct {
	pod types.NamespacedName
	// failure says why it could not be asked; "" if it was.
	failure string
	// report is what its agent reports; nil if that is not known.
	report *appv1.GatewayProxyStatus
	// config is what it says it runs, and answers are those so far, by the class of the status; nil without an answer.
	config  *proxyconfig.Config
	answers map[string]float64
}

// observe reads the Gateways of a namespace and asks their proxies.
func observe(ctx context.Context, clients cli.Clients, namespace string) (*snapshot, error) {
	gateways, err := clients.Gateways.AppV1().Gateways(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to list Gateways: %w", err)
	}
	pods, err := clients.Core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: proxypod.LabelGateway})
	if err != nil {
		return nil, fmt.Errorf("failed to list Pods: %w", err)
	}
	reports, err := clients.Gateways.AppV1().GatewayProxies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("failed to list GatewayProxies: %w", err)
	}
	reported := map[types.NamespacedName]*appv1.GatewayProxyStatus{}
	if err == nil {
		for i := range reports.Items {
			reported[nameOf(&reports.Items[i])] = &reports.Items[i].Status
		}
	}
	asked := askAll(ctx, clients, pods.Items)
	seen := &snapshot{at: time.Now(), gateways: gateways.Items, proxies: map[types.NamespacedName][]proxy{}}
	for i := range asked {
		asked[i].report = reported[asked[i].pod]
		gateway := types.NamespacedName{Namespace: pods.Items[i].Namespace, Name: pods.Items[i].Labels[proxypod.LabelGateway]}
		seen.proxies[gateway] = append(seen.proxies[gateway], asked[i])
	}
	return seen, nil
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// askAll asks the pods, in their order.
func askAll(ctx context.Context, clients cli.Clients, pods []corev1.Pod) []proxy {
	proxies := make([]proxy, len(pods))
	slots := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i := range pods {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			proxies[i].pod = nameOf(&pods[i])
			if err := proxies[i].ask(ctx, clients, &pods[i]); err != nil {
				proxies[i].failure = strings.Join(strings.Fields(err.Error()), " ")
			}
		})
	}
	asking.Wait()
	return proxies
}

// ask asks the agent and HAProxy.
func (p *proxy) ask(ctx context.Context, clients cli.Clients, pod *corev1.Pod) error {
	pages, err := clients.FromPod(ctx, pod,
		cli.Page{Port: proxypod.HealthPort, Path: proxyconfig.Path},
		cli.Page{Port: render.MetricsPort, Path: "/metrics?scope=frontend&metrics=" + responses})
	if err != nil {
		return err
	}
	config := &proxyconfig.Config{}
	if err := json.Unmarshal(pages[0], config); err != nil {
		return fmt.Errorf("its agent's answer is not understood: %w", err)
	}
	p.config = config
	p.answers, err = readAnswers(pages[1])
	return err
}

// readAnswers adds up the answers of the frontends, by the class of the status, as 2xx.
func readAnswers(metrics []byte) (map[string]float64, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return nil, fmt.Errorf("HAProxy's metrics are not understood: %w", err)
	}
	answers := map[string]float64{}
	for _, metric := range families[responses].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["proxy"] != metricsFrontend {
			answers[labels["code"]] += metric.GetCounter().GetValue()
		}
	}
	return answers, nil
}
