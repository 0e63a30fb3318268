//go:build slow

package operator

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/test/internal/testenv"
)

// TestAWebhookThatHangs: waiting for the children leaves time to write the status, and it names the reason.
func TestAWebhookThatHangs(t *testing.T) {
	t.Parallel()
	const namespace, name = "hanging", "waiting"
	o := startOperator(t, namespace)
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-t.Context().Done() }))
	t.Cleanup(webhook.Close)
	createWebhook(t, namespace, "deployments", admissionregistrationv1.WebhookClientConfig{
		URL:      &webhook.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
	})
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	testenv.Eventually(t, 3*soon, "the operator gives up twice", func(context.Context) error {
		if strings.Count(o.Output(), "Trying again later: failed to sync Gateway hanging/waiting") < 2 {
			return errors.New("it has not logged it")
		}
		return nil
	})
	const text = "failed to apply Deployment hanging/waiting-gateway"
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "ApplyFailed", text)
	expectEvent(t, namespace, name, corev1.EventTypeWarning, "ApplyFailed", text)
}
