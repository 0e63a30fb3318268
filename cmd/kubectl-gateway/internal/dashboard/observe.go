package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/routes"
	"gateway/internal/haproxy/render"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
)

const (
	// responses counts the answers of each frontend by the class of their status.
	responses = "haproxy_frontend_http_responses_total"
	// metricsFrontend is the frontend that answers to Prometheus.
	metricsFrontend = "metrics"
)

// snapshot is what was seen of the Gateways at a time.
type snapshot struct {
	at       time.Time
	gateways []appv1.Gateway
	// proxies are by their Gateway.
	proxies map[types.NamespacedName][]proxy
	// routes are the routes of the namespace and of others with routes for its Gateways. unread names namespaces whose
	// routes could not be read.
	routes []routes.Route
	unread []string
}

// proxy is a proxy pod.
type proxy struct {
	pod types.NamespacedName
	// failure is why it could not be asked; "" if it was.
	failure string
	// config is the configuration that it runs. answers counts its answers so far by the class of the status. Both are
	// nil if it does not answer.
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
	seen := &snapshot{at: time.Now(), gateways: gateways.Items, proxies: map[types.NamespacedName][]proxy{}}
	seen.addRoutes(ctx, clients, namespace)
	for i, answer := range clients.AskAll(ctx, pods.Items, cli.Page{Port: render.MetricsPort, Path: "/metrics?scope=frontend&metrics=" + responses}) {
		p := proxy{pod: nameOf(&pods.Items[i]), failure: answer.Error, config: answer.Config}
		if p.config != nil {
			if p.answers, err = readAnswers(answer.More[0]); err != nil {
				p.failure = err.Error()
			}
		}
		gateway := types.NamespacedName{Namespace: p.pod.Namespace, Name: pods.Items[i].Labels[proxypod.LabelGateway]}
		seen.proxies[gateway] = append(seen.proxies[gateway], p)
	}
	return seen, nil
}

// maxNamespaces bounds how many namespaces are listed one by one: with more, the routes of all are listed at once.
const maxNamespaces = 20

// addRoutes reads the routes of a namespace, and of the others that GatewayAttachments in it are for.
func (s *snapshot) addRoutes(ctx context.Context, clients cli.Clients, namespace string) {
	namespaces := map[string]bool{namespace: true}
	if namespace != metav1.NamespaceAll {
		attached, err := clients.Gateways.AppV1().GatewayAttachments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			s.unread = append(s.unread, fmt.Sprintf("routes of other namespaces are not known: %v", err))
			attached = &appv1.GatewayAttachmentList{}
		}
		for i := range attached.Items {
			namespaces[attached.Items[i].Spec.Namespace] = true
		}
	}
	if len(namespaces) > maxNamespaces {
		namespaces = map[string]bool{metav1.NamespaceAll: true}
	}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		all, unread, err := routes.Read(ctx, clients, name)
		if err != nil {
			s.unread = append(s.unread, err.Error())
		} else if len(unread) > 0 {
			s.unread = append(s.unread, fmt.Sprintf("you may not list %s", strings.Join(unread, ", ")))
		}
		s.routes = append(s.routes, all...)
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
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
