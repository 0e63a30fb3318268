package operator

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/test/internal/testenv"
)

// TestARefusalWhoseTextChanges: a port, a time, how much of a quota is used may be new in each answer, and so in the
// status. To look at the Gateway again for that would take the pauses away that grow between the tries.
func TestARefusalWhoseTextChanges(t *testing.T) {
	t.Parallel()
	const namespace, name, enough = "text-changes", "refused", 8
	var mu sync.Mutex
	var tries []time.Time
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		tries = append(tries, time.Now())
		var review admissionv1.AdmissionReview
		_ = json.NewDecoder(request.Body).Decode(&review)
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Message: fmt.Sprintf("not yet: %d", len(tries)), Code: http.StatusForbidden},
		}
		_ = json.NewEncoder(writer).Encode(review)
	}))
	t.Cleanup(webhook.Close)
	startOperator(t, namespace)
	createWebhook(t, namespace, "services", admissionregistrationv1.WebhookClientConfig{
		URL: &webhook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
	})
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	testenv.Eventually(t, soon, "the operator tries again", func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if len(tries) < enough {
			return fmt.Errorf("it has tried %d times", len(tries))
		}
		return nil
	})
	mu.Lock()
	// 50 ms, 100 ms and so on; children that come into being are a reason to look again before.
	if took := tries[enough-1].Sub(tries[0]); took < time.Second {
		t.Errorf("%d tries took %v: there was no pause between them", enough, took)
	}
	mu.Unlock()
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "ApplyFailed", "not yet: ")
}
