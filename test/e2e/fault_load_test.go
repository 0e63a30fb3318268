//go:build slow

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// operatorLog returns the errors about a namespace that the operators logged since a moment.
func operatorLog(t *testing.T, namespace string, since time.Time) []string {
	t.Helper()
	pods := must.Get(kube.CoreV1().Pods(operatorNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: operatorSelector}))(t)
	var found []string
	for _, pod := range pods.Items {
		from := metav1.NewTime(since)
		raw := must.Get(kube.CoreV1().Pods(operatorNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{SinceTime: &from}).DoRaw(t.Context()))(t)
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(line, "E") && strings.Contains(line, namespace) {
				found = append(found, line)
			}
		}
	}
	return found
}

// A thousand edits of one Gateway in a minute, or as many as the machine makes. Not parallel: it takes all of it.
func TestFaultOfManyEdits(t *testing.T) {
	s := newSite(t)
	s.run(t, "1000 edits in a minute", nil, func(t *testing.T) {
		t.Helper()
		const edits, enough = 1000, 300
		ticker := time.NewTicker(time.Minute / edits * 2 / 3)
		defer ticker.Stop()
		begin := time.Now()
		made := 0
		for made < edits && time.Since(begin) < time.Minute {
			s.edit(t)
			made++
			<-ticker.C
		}
		record("edits of one Gateway in a minute", fmt.Sprintf("%d in %s", made, time.Since(begin).Round(time.Second)))
		if made < enough {
			t.Errorf("%d edits in a minute show nothing, want %d", made, enough)
		}
	})
}

// A Gateway as large as one can be runs; one that is larger is refused by the API server, which says why. Not parallel:
// it keeps the API server busy.
func TestFaultOfTheSizeLimit(t *testing.T) {
	namespace := newNamespace(t)
	newBackend(t, namespace, "v1", 1)
	waitReplicas(t, namespace, "v1", 1)
	if _, err := createMany(t, namespace, 4097, 1); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("a route more than the limit: %v, want a refusal that says the limit", err)
	}
	if _, err := createMany(t, namespace, 4096, 800); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("more than the API server takes: %v, want a refusal that says so", err)
	}
	begin := time.Now()
	size := must.Get(createMany(t, namespace, 4096, 100))(t)
	waitLonger(t, "the Gateway is Programmed", 3*soon, func(ctx context.Context) error {
		gateway, err := gateways.AppV1().Gateways(namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(gateway.Status.Conditions, appv1.ConditionProgrammed) {
			err = fmt.Errorf("conditions %+v", gateway.Status.Conditions)
		}
		return err
	})
	measure(fmt.Sprintf("Gateway of 4096 routes, %.2f MiB, to Programmed", float64(size)/(1<<20)), time.Since(begin))
	newClient(t, namespace).waitAnswer(t, "many-4095.example.com", "/"+strings.Repeat("p", 100), http.StatusOK, "v1")
}

// createMany creates a Gateway with so many routes, each for a host of its own and with a path of so many bytes. It
// returns how many bytes they are.
func createMany(t *testing.T, namespace string, routes, path int) (int, error) {
	t.Helper()
	all := make([]appv1.Route, routes)
	for i := range all {
		all[i] = route(fmt.Sprintf("many-%d", i), rule("/"+strings.Repeat("p", path), backend("v1", 1)))
		all[i].Hostnames = []appv1.Hostname{appv1.Hostname(all[i].Name + ".example.com")}
	}
	gateway := newGateway(all...)
	body, err := json.Marshal(gateway)
	must.Do(t, err)
	_, err = gateways.AppV1().Gateways(namespace).Create(t.Context(), gateway, metav1.CreateOptions{})
	return len(body), err
}
