// Package tenants has a namespace attack the Gateway that it shares with others, with the built programs on a real API
// server and with a real HAProxy.
package tenants

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

var attack = flag.Duration("attack", map[bool]time.Duration{false: time.Minute, true: 30 * time.Minute}[testtier.All],
	"how long TestHostileTenant attacks")

// rounds is how often the attack and its control take turns.
const rounds = 10

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// TestHostileTenant: one namespace of a shared Gateway writes whatever the API server admits, as fast as it can, and
// sends requests to all of it. Meanwhile each request for another team is answered by that team's Service, HAProxy is
// reloaded as often as one namespace may cause it, new hosts are served, no pod is replaced, and what is refused is
// refused in the status of the object.
func TestHostileTenant(t *testing.T) {
	s := startSite(t)
	s.run(t, 5*time.Second) // warms up
	idle := s.run(t, min(*attack/3, time.Minute))
	h := newHostile(t, s)
	onboard := func(ctx context.Context) { s.onboard(ctx, t) }
	template, memory, reloads, begin := s.template(t), s.memory(t), s.reloads(), time.Now()
	// The API server takes CPU for any edits, which it has to itself in a cluster: so attacks and edits for another
	// Gateway take turns, and whatever else the machine does, it does to both.
	var during, elsewhere []time.Duration
	for range rounds {
		elsewhere = append(elsewhere, s.during(t, min(*attack/3, 3*time.Minute)/rounds, append(h.editors("elsewhere"), h.send, onboard))...)
		during = append(during, s.during(t, *attack/rounds, append(h.editors("shared"), h.send, onboard))...)
	}
	took := s.reloads() - reloads
	t.Logf("memory before: %s, and then: %s", memory, s.memory(t))
	t.Logf("%d edits, %d of them refused by the API server, and %d requests of the tenant: %v", h.edits.Load(), h.refused.Load(), h.sent.Load(), h.statuses())
	t.Logf("%d reloads; of %d requests of others, p99 %v; %v while it edits what is for another Gateway, and %v before", took, len(during), p99(during), p99(elsewhere), p99(idle))
	if most := 5 + 1 + int(time.Since(begin)/(15*time.Second)); took > most {
		t.Errorf("one namespace caused %d reloads, want %d at most", took, most)
	}
	if after := s.template(t); after != template {
		t.Errorf("the pods are replaced: their template was\n%s\nand is\n%s", template, after)
	}
	if testtier.All && p99(during) > p99(elsewhere)*3/2 {
		t.Errorf("the p99 of others is %v, and %v where the tenant edits what is for another Gateway", p99(during), p99(elsewhere))
	}
	h.expectStatuses()
	for _, team := range teams {
		s.expectLive(t, team)
	}
	slices.Sort(s.onboarded)
	t.Logf("%d new hosts of others answered, the slowest after %v", len(s.onboarded), s.onboarded[max(0, len(s.onboarded)-5):])
}

// editors are those that write at the same time for a Gateway.
func (h *hostile) editors(gateway string) (all []func(context.Context)) {
	for i := range 3 {
		all = append(all, func(ctx context.Context) { h.edit(ctx, i, gateway) })
	}
	return all
}

// during is run while others work.
func (s *site) during(t *testing.T, long time.Duration, others []func(context.Context)) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	for _, other := range others {
		working.Go(func() { other(ctx) })
	}
	took := s.run(t, long)
	cancel()
	working.Wait()
	return took
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}

// expectStatuses waits until each route and ListenerSet of the tenant has a status that tells what became of it.
func (h *hostile) expectStatuses() {
	h.t.Helper()
	reasons := map[string]int{}
	testenv.Eventually(h.t, 2*time.Minute, "a status of each object of the tenant", func(ctx context.Context) error {
		clear(reasons)
		var errs []error
		for _, kind := range []string{"HTTPRoute", "GRPCRoute", "ListenerSet"} {
			list, err := server.Dynamic.Resource(kinds[kind]).Namespace(tenant).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if text, _ := list.Items[i].MarshalJSON(); !strings.Contains(string(text), `"namespace":"infra"`) {
					continue // it is for a ListenerSet that may not be there
				}
				reason, err := told(&list.Items[i])
				if err != nil {
					errs = append(errs, err)
				}
				reasons[reason]++
			}
		}
		return errors.Join(errs[:min(len(errs), 3)]...)
	})
	h.t.Logf("what became of the tenant's objects: %v", reasons)
}

// told returns the reason of the condition Accepted of an object, which has to be of its generation.
func told(object *unstructured.Unstructured) (string, error) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	if parents, isRoute, _ := unstructured.NestedSlice(object.Object, "status", "parents"); isRoute {
		for _, parent := range parents {
			all, _, _ := unstructured.NestedSlice(parent.(map[string]any), "conditions")
			conditions = append(conditions, all...)
		}
	}
	for _, one := range conditions {
		condition := one.(map[string]any)
		if condition["type"] == "Accepted" && condition["observedGeneration"] == object.GetGeneration() {
			return fmt.Sprintf("%s=%s/%s", object.GetKind(), condition["status"], condition["reason"]), nil
		}
	}
	return "", fmt.Errorf("%s %s of generation %d has no current condition: %v", object.GetKind(), object.GetName(), object.GetGeneration(), conditions)
}
