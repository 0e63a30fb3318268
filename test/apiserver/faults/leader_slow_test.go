//go:build slow

package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// TestFrozenLeader: a leader that stands still for longer than its lease, with a write on its way. Another one takes
// over and makes changes. The write arrives late and is refused; the old leader wakes up, changes nothing and ends.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	const namespace = "frozen-leader"
	oldProxy, newProxy := faultproxy.Start(t, server.Admin), faultproxy.Start(t, server.Admin)
	oldLeader := startOperator(t, oldProxy, namespace)
	testenv.Eventually(t, soon, "the first leads", oldLeader.leads)
	createGateway(t, namespace, plain)
	awaitSynced(t, namespace)
	newLeader := startOperator(t, newProxy, namespace)

	hold, arrived, release := faultproxy.Hold(func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/services/")
	})
	oldProxy.Set(hold)
	setPort(t, namespace, 81)
	select {
	case <-arrived:
	case <-time.After(soon):
		t.Fatal("the leader does not write the Service")
	}
	oldLeader.Signal(t, syscall.SIGSTOP)
	frozen := time.Now()
	testenv.Eventually(t, 30*time.Second, "the second leads", newLeader.leads)
	t.Logf("the second leads %v after the first was frozen", time.Since(frozen).Round(time.Millisecond))
	expectPort(t, namespace, 81)
	setPort(t, namespace, 82)
	expectPort(t, namespace, 82)
	awaitSynced(t, namespace)

	before := versions(t, namespace)
	if code := release(); code != http.StatusConflict {
		t.Errorf("the write that came late was answered %d, want 409", code)
	}
	woken := time.Now()
	oldLeader.Signal(t, syscall.SIGCONT)
	if code := oldLeader.Exit(t, soon); code == 0 {
		t.Error("the old leader ended as if all was well")
	}
	t.Logf("the old leader ended %v after it was woken", time.Since(woken).Round(time.Millisecond))
	for _, request := range oldProxy.Requests(woken) {
		if request.Write && !strings.Contains(request.Path, "/events") && request.Code != http.StatusConflict {
			t.Errorf("woken up, it wrote %s, answered %d", request.Path, request.Code)
		}
	}
	if after := versions(t, namespace); after != before {
		t.Errorf("the state changed from\n%s\nto\n%s", before, after)
	}
	expectPort(t, namespace, 82)
}

func setPort(t *testing.T, namespace string, port int) {
	t.Helper()
	patchGateway(t, namespace, fmt.Sprintf(`[{"op": "replace", "path": "/spec/listeners/0/port", "value": %d}]`, port))
}

// expectPort waits until the Gateway's Service has the port, and no other.
func expectPort(t *testing.T, namespace string, port int32) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("the Service has port %d", port), func(ctx context.Context) error {
		service, err := server.Kube.CoreV1().Services(namespace).Get(ctx, proxypod.ChildName(name), metav1.GetOptions{})
		if err == nil && (len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Port != port) {
			err = fmt.Errorf("it has %v", service.Spec.Ports)
		}
		return err
	})
}

// versions names the version of the Gateway and of each of its children.
func versions(t *testing.T, namespace string) string {
	t.Helper()
	gateway := must.Get(server.App.AppV1().Gateways(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	text := "Gateway " + gateway.ResourceVersion
	for _, kind := range slices.Sorted(maps.Keys(childKinds)) {
		resource := childKinds[kind]
		child := must.Get(server.Dynamic.Resource(resource).Namespace(namespace).Get(t.Context(), proxypod.ChildName(name), metav1.GetOptions{}))(t)
		text += fmt.Sprintf("\n%s %s %v", kind, child.GetResourceVersion(), child.Object["spec"])
	}
	return text
}
