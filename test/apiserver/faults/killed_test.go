package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/testtier"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// childKinds are the resources of which every Gateway has one object.
var childKinds = map[string]schema.GroupVersionResource{
	"ServiceAccount":      {Version: "v1", Resource: "serviceaccounts"},
	"Role":                {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":         {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"Service":             {Version: "v1", Resource: "services"},
	"PodDisruptionBudget": {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"Deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
}

// plain has no node ports, which would be others each time.
var plain = appv1.GatewaySpec{
	Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
	Service:   appv1.ServiceSpec{Type: "ClusterIP"},
}

// TestKilledAtEachStep: an operator that is killed at any write of a sync, before or after the API server saw it,
// leaves nothing that the next one does not bring to the same end, and nothing is written twice. Without the tag slow,
// the third write stands for all.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const undisturbed = "killed-never"
	ensureNamespace(t, undisturbed)
	createGateway(t, undisturbed, plain)
	startOperator(t, nil, undisturbed, "-leader-elect=false")
	awaitSynced(t, undisturbed)
	wantState, wantWrites := children(t, undisturbed), successfulWrites(t, undisturbed)
	if want := len(childKinds) + 1; len(wantWrites) != want {
		t.Fatalf("without a fault there are the writes %q, want %d: one for each child, and the status", wantWrites, want)
	}
	for n := range len(wantWrites) {
		if n != 2 && !testtier.All {
			continue
		}
		for when, before := range map[string]bool{"before": true, "after": false} {
			t.Run(fmt.Sprintf("%s-write-%d", when, n+1), func(t *testing.T) {
				t.Parallel()
				namespace := fmt.Sprintf("killed-%s-%d", when, n+1)
				ensureNamespace(t, namespace)
				proxy := faultproxy.Start(t, server.Admin)
				first := startOperator(t, proxy, namespace, "-leader-elect=false")
				killed := make(chan struct{})
				proxy.Set(faultproxy.AtNth(faultproxy.SyncWrites, int64(n+1), before, func() {
					first.Kill()
					close(killed)
				}))
				createGateway(t, namespace, plain)
				<-killed
				proxy.Set(nil)
				startOperator(t, proxy, namespace, "-leader-elect=false")
				awaitSynced(t, namespace)
				for i, got := range children(t, namespace) {
					if got != wantState[i] {
						t.Errorf("got\n%s\nwant\n%s", got, wantState[i])
					}
				}
				if got := successfulWrites(t, namespace); !slices.Equal(got, wantWrites) {
					t.Errorf("got the writes %q, want %q", got, wantWrites)
				}
			})
		}
	}
}

// awaitSynced waits until the operator has written the status of the newest generation, which it does last.
func awaitSynced(t *testing.T, namespace string) {
	t.Helper()
	testenv.Eventually(t, soon, "the status", func(ctx context.Context) error {
		gateway, err := server.App.AppV1().Gateways(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && gateway.Status.ObservedGeneration != gateway.Generation {
			err = errors.New("it is not of the newest generation")
		}
		if err == nil && len(gateway.Status.Addresses) == 0 {
			err = errors.New("it has no address")
		}
		return err
	})
}

// successfulWrites returns the operators' writes in the namespace, sorted and without events.
func successfulWrites(t *testing.T, namespace string) []string {
	t.Helper()
	var writes []string
	for _, write := range server.Writes(t, operatorUser, time.Time{}) {
		if write.Namespace == namespace && write.Code < 300 && write.Resource != "events" && !strings.HasPrefix(write.Resource, "selfsubject") {
			write.Namespace = ""
			write.Code = 0 // created or not, according to who came first
			writes = append(writes, write.String())
		}
	}
	slices.Sort(writes)
	return writes
}

// children are the children in the namespace, each as text that is the same for the same state, sorted.
func children(t *testing.T, namespace string) []string {
	t.Helper()
	return childrenWith(t, namespace, func(*unstructured.Unstructured) {})
}

// childrenWith is children, each after change.
func childrenWith(t *testing.T, namespace string, change func(*unstructured.Unstructured)) []string {
	t.Helper()
	var found []string
	for kind, resource := range childKinds {
		object := must.Get(server.Dynamic.Resource(resource).Namespace(namespace).Get(t.Context(), proxypod.ChildName(name), metav1.GetOptions{}))(t)
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(object.Object, "spec", field)
		}
		unstructured.RemoveNestedField(object.Object, "status")
		change(object)
		owners := object.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = ""
		}
		object.SetOwnerReferences(owners)
		encoded := must.Get(json.Marshal(object.Object))(t)
		found = append(found, kind+" "+strings.ReplaceAll(string(encoded), namespace, "NAMESPACE"))
	}
	slices.Sort(found)
	return found
}
