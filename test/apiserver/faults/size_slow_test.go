//go:build slow

package faults

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	typedappv1 "gateway/generated/app/clientset/versioned/typed/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// filtered is how many kilobytes the filters of one rule may have.
const filtered = 6

// sized is routes with so many values of a kilobyte besides.
func sized(port int32, kilobytes int) appv1.GatewaySpec {
	spec := routes(port, "/edit-1")
	for rule := 0; kilobytes > 0; rule++ {
		var headers []appv1.Header
		for i := 0; i < filtered && kilobytes > 0; i++ {
			headers = append(headers, appv1.Header{Name: appv1.ModifiedHeaderName(fmt.Sprintf("h%d", i)), Value: strings.Repeat("v", 1000)})
			kilobytes--
		}
		if rule%16 == 0 {
			spec.Routes = append(spec.Routes, appv1.Route{Name: appv1.Name(fmt.Sprintf("large-%d", rule))})
		}
		route := &spec.Routes[len(spec.Routes)-1]
		route.Rules = append(route.Rules, appv1.RouteRule{
			Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: fmt.Sprintf("/large-%d", rule)}}},
			Filters:     []appv1.RuleFilter{{Type: appv1.RuleFilterRequestHeaderModifier, RequestHeaderModifier: &appv1.HeaderFilter{Set: headers}}},
			BackendRefs: []appv1.BackendRef{{Name: "next", Port: 80}},
		})
	}
	return spec
}

// TestSizeLimit: the largest Gateway that the API server admits is served, and an edit that makes it larger is refused
// with a clear word and changes nothing. There is no room for a status then, which an event tells; with a little room
// all is well.
func TestSizeLimit(t *testing.T) {
	t.Parallel()
	s := &stack{namespace: "size"}
	ensureNamespace(t, s.namespace)
	port := haproxytest.FreePort(t)
	gateways := server.App.AppV1().Gateways(s.namespace)
	largest := findLargest(t, gateways, port)
	createService(t, s.namespace, "api")
	createService(t, s.namespace, "next")
	putEndpoint(t, s.namespace, "api", answering(t, "api"))
	putEndpoint(t, s.namespace, "next", answering(t, "next"))
	// A status needs some room.
	createGateway(t, s.namespace, sized(port, largest-20))
	s.operator = startOperator(t, nil, s.namespace)
	s.pod = startPod(t, s, "")
	s.expectProgrammed(t, soon, 1)
	s.pod.expectAnswer(t, soon, "/large-3", "next")
	stopTraffic := s.pod.traffic(t)

	if err := edit(t, gateways, sized(port, largest+20)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("an edit to %d KB ends with %v", largest+20, err)
	}
	full := fill(t, gateways, port, largest-20)
	t.Logf("full with %d KB", full)
	s.pod.expectAnswer(t, soon, "/full", "next")
	testenv.Eventually(t, soon, "a status or a word about it", func(ctx context.Context) error {
		gateway, err := gateways.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := condition(gateway, appv1.ConditionProgrammed)
		if c.Status == metav1.ConditionTrue && c.ObservedGeneration == gateway.Generation {
			return nil
		}
		events, err := server.Kube.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=StatusFailed"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, "too large") {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v, and the events are %+v", gateway.Status, events.Items)
	})
	stopTraffic()
}

// findLargest returns how many kilobytes the largest Gateway has that the API server admits.
func findLargest(t *testing.T, gateways typedappv1.GatewayInterface, port int32) int {
	t.Helper()
	var refusal error
	// etcd takes 1.5 MiB.
	const least, most = 1300, 1540
	largest := least + sort.Search(most-least, func(more int) bool {
		probe := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: sized(port, least+more)}
		_, err := gateways.Create(t.Context(), probe, metav1.CreateOptions{})
		if err != nil {
			refusal = err
			return true
		}
		must.Do(t, gateways.Delete(t.Context(), "probe", metav1.DeleteOptions{}))
		return false
	}) - 1
	t.Logf("the largest Gateway has %d KB; the next is refused: %v", largest, refusal)
	if largest < least || refusal == nil || !strings.Contains(refusal.Error(), "too large") {
		t.Fatalf("a Gateway of %d KB is refused: %v", largest+1, refusal)
	}
	return largest
}

// fill edits the Gateway to be as large as there is room for, which leaves none for the status of it, and returns how
// many kilobytes that is.
func fill(t *testing.T, gateways typedappv1.GatewayInterface, port int32, least int) int {
	t.Helper()
	return least - 1 + sort.Search(60, func(more int) bool {
		spec := sized(port, least+more)
		spec.Routes[0].Rules[1].Matches[0].Path.Value = "/full"
		return edit(t, gateways, spec) != nil
	})
}

// edit gives the Gateway a spec, once more where its status was written meanwhile.
func edit(t *testing.T, gateways typedappv1.GatewayInterface, spec appv1.GatewaySpec) error {
	t.Helper()
	for {
		latest, err := gateways.Get(t.Context(), name, metav1.GetOptions{})
		must.Do(t, err)
		latest.Spec = spec
		if _, err = gateways.Update(t.Context(), latest, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}
