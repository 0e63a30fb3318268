package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

func TestSplitAndStatusCodes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	newBackend(t, namespace, "v2", 1)
	newService(t, namespace, "empty")
	waitReplicas(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v2", 1)
	create(t, namespace, newGateway(route("web",
		rule("/", backend("v1", 90), backend("v2", 10)),
		rule("/zero", backend("v1", 0), backend("v2", 5)),
		rule("/empty", backend("empty", 1)),
		rule("/none"),
	)))
	traffic := newClient(t, namespace)

	// 1,000 draws with probability 0.1: outside 50 to 150 with a probability below one in a million.
	counts := traffic.versions(t, "/", 1000)
	if v2 := counts["200 v2"]; v2 < 50 || v2 > 150 || counts["200 v1"] != 1000-v2 {
		t.Errorf("a split of 90 to 10 gave %v", counts)
	}
	if counts := traffic.versions(t, "/zero", 50); counts["200 v2"] != 50 {
		t.Errorf("a split of 0 to 5 gave %v", counts)
	}
	traffic.waitAnswer(t, host, "/empty", http.StatusServiceUnavailable, "")
	traffic.waitAnswer(t, host, "/none", http.StatusInternalServerError, "")
	traffic.waitAnswer(t, "elsewhere.example.com", "/", http.StatusNotFound, "")
	traffic.waitAnswer(t, strings.ToUpper(host)+":80", "/", http.StatusOK, "v1")
}

func TestMissingServiceHeals(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	create(t, namespace, newGateway(route("web", rule("/", backend("v1", 1)), rule("/later", backend("later", 1)))))
	traffic := newClient(t, namespace)

	traffic.waitAnswer(t, host, "/", http.StatusOK, "v1")
	traffic.waitAnswer(t, host, "/later", http.StatusInternalServerError, "")
	waitResolvedRefs(t, namespace, metav1.ConditionFalse, "later")
	eventually(t, "an event names the missing Service", func(ctx context.Context) error {
		lines, err := events(ctx, namespace, gatewayName)
		if err == nil && !strings.Contains(lines, "later") {
			err = fmt.Errorf("events:\n%s", lines)
		}
		return err
	})

	newBackend(t, namespace, "later", 1)
	traffic.waitAnswer(t, host, "/later", http.StatusOK, "later")
	waitResolvedRefs(t, namespace, metav1.ConditionTrue, "")
}

func waitResolvedRefs(t *testing.T, namespace string, want metav1.ConditionStatus, message string) {
	t.Helper()
	eventually(t, "ResolvedRefs is "+string(want), func(ctx context.Context) error {
		gateway, err := gateways.AppV1().Gateways(namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionResolvedRefs)
		if condition == nil || condition.Status != want || !strings.Contains(condition.Message, message) {
			return fmt.Errorf("condition %+v", condition)
		}
		return nil
	})
}

// The access log is one JSON object a line, with the route and the generation that answered, whatever a client sends.
func TestAccessLogAndMetrics(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	create(t, namespace, newGateway(route("web", rule("/", backend("v1", 1)))))
	traffic := newClient(t, namespace)
	const path = `/logged/%22%7B`
	traffic.waitAnswer(t, host, path, http.StatusOK, "v1")

	pod := proxyPods(t, namespace)[0]
	eventually(t, "the request is in the access log", func(ctx context.Context) error {
		text := logs(ctx, namespace, pod.Name, "haproxy", 100)
		for line := range strings.Lines(text) {
			var entry struct {
				Route, Path, Host, RequestID string
				Status                       int
			}
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Path != path {
				continue
			}
			if entry.Route != "web" || entry.Status != http.StatusOK || entry.RequestID == "" || entry.Host != host {
				t.Fatalf("access log says %s", line)
			}
			return nil
		}
		return fmt.Errorf("log:\n%s", text)
	})

	for port, metric := range map[string]string{"8404": "haproxy_process_", "8405": "gateway_agent_generation"} {
		body := must.Get(kube.CoreV1().Pods(namespace).ProxyGet("http", pod.Name, port, "/metrics", nil).DoRaw(t.Context()))(t)
		if !strings.Contains(string(body), metric) {
			t.Errorf("/metrics on port %s has no %s", port, metric)
		}
	}
}
