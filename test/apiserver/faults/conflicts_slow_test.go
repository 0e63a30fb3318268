//go:build slow

package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/test/internal/testenv"
)

// TestConflictingWriters: somebody else writes the children and the status again and again. The operator and the agent
// neither give in nor make a storm of it, and in the end everything is as it should be.
func TestConflictingWriters(t *testing.T) {
	t.Parallel()
	s := startStack(t, "conflicts")
	stopTraffic := s.pod.traffic(t)
	want := s.versionless(t)
	begun := time.Now()
	written := s.fight(t)
	ended := time.Now()
	s.expectProgrammed(t, promised, 1)
	testenv.Eventually(t, promised-time.Since(ended), "the children are right", func(context.Context) error {
		for i, got := range s.versionless(t) {
			if got != want[i] {
				return fmt.Errorf("got\n%s\nwant\n%s", got, want[i])
			}
		}
		return nil
	})
	t.Logf("right %v after the last of %d foreign writes", time.Since(ended).Round(time.Millisecond), written)
	writes := 0
	for _, request := range s.proxy.Requests(begun) {
		if request.Write {
			writes++
		}
	}
	// Each foreign write is answered at most by a repair, perhaps a status and an event; and a few more that were refused.
	if most := 4*written + 20; writes > most {
		t.Errorf("%d writes against %d foreign ones, want at most %d", writes, written, most)
	}
	t.Logf("%d writes against %d foreign ones", writes, written)
	stopTraffic()
}

// fight writes what is the operator's, from several goroutines, and returns how many times.
func (s *stack) fight(t *testing.T) int {
	t.Helper()
	const rounds = 20
	child := proxypod.ChildName(name)
	var running sync.WaitGroup
	var mu sync.Mutex
	written := 0
	for i, write := range []func(ctx context.Context, round int) error{
		func(ctx context.Context, round int) error {
			_, err := server.Kube.AppsV1().Deployments(s.namespace).Patch(ctx, child, types.MergePatchType,
				fmt.Appendf(nil, `{"spec": {"replicas": %d, "template": {"spec": {"automountServiceAccountToken": true}}}}`, 5+round), metav1.PatchOptions{FieldManager: "foreign"})
			return err
		},
		func(ctx context.Context, round int) error {
			force := true
			_, err := server.Kube.CoreV1().Services(s.namespace).Patch(ctx, child, types.ApplyPatchType,
				fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q}, "spec": {"selector": {%q: "round-%d"}}}`, child, proxypod.LabelGateway, round),
				metav1.PatchOptions{FieldManager: "foreign-apply", Force: &force})
			return err
		},
		func(ctx context.Context, _ int) error {
			_, err := server.App.AppV1().Gateways(s.namespace).Patch(ctx, name, types.MergePatchType,
				[]byte(`{"status": {"conditions": [], "replicas": 77}}`), metav1.PatchOptions{FieldManager: "foreign"}, "status")
			return err
		},
	} {
		running.Go(func() {
			for round := range rounds {
				<-time.After(time.Duration(30+20*i) * time.Millisecond)
				if err := write(t.Context(), round); err != nil {
					t.Errorf("foreign write %d: %v", i, err)
					return
				}
				mu.Lock()
				written++
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return written
}

// versionless are the children without what a repair changes.
func (s *stack) versionless(t *testing.T) []string {
	t.Helper()
	return childrenWith(t, s.namespace, func(child *unstructured.Unstructured) {
		unstructured.RemoveNestedField(child.Object, "metadata", "generation")
		unstructured.RemoveNestedField(child.Object, "metadata", "annotations")
	})
}

// TestForeignObjects: an object of somebody else has the name of a child for a while. It is not touched, everything
// else is done, and the name is taken soon after it is free.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	const namespace = "foreign"
	ensureNamespace(t, namespace)
	child := proxypod.ChildName(name)
	foreign := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": map[string]any{"name": child}}}
	budgets := server.Dynamic.Resource(childKinds["PodDisruptionBudget"]).Namespace(namespace)
	before := must.Get(budgets.Create(t.Context(), foreign, metav1.CreateOptions{}))(t)
	begun := time.Now()
	startOperator(t, nil, namespace)
	createGateway(t, namespace, plain)
	expectReason := func(within time.Duration, reason string) {
		t.Helper()
		testenv.Eventually(t, within, "the reason "+reason, func(ctx context.Context) error {
			gateway, err := server.App.AppV1().Gateways(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if c := condition(gateway, "Programmed"); c.Reason != reason {
				return fmt.Errorf("Programmed is %+v", c)
			}
			return nil
		})
	}
	expectReason(soon, "ChildNotOwned")
	// By then the operator looks at it ever more rarely.
	<-time.After(15 * time.Second)
	after := must.Get(budgets.Get(t.Context(), child, metav1.GetOptions{}))(t)
	if after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the foreign object was changed")
	}
	if writes := successfulWrites(t, namespace); len(writes) != len(childKinds) {
		t.Errorf("got the writes %q, want one for each other child, and the status", writes)
	}
	events := must.Get(server.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	if count := len(events.Items); count > 10 {
		t.Errorf("there are %d events in %v", count, time.Since(begun))
	}
	must.Do(t, budgets.Delete(t.Context(), child, metav1.DeleteOptions{}))
	freed := time.Now()
	expectReason(promised, "NoReadyProxies")
	t.Logf("taken %v after the name was free", time.Since(freed).Round(time.Millisecond))
}
