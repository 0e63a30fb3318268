package clients

import (
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// create makes a Gateway, and waits until the API server lists it from its cache, as it does for informers.
func (e example) create(t *testing.T, name string) {
	t.Helper()
	created := must.Get(server.App.AppV1().Gateways(e.namespace).Create(t.Context(), &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}, metav1.CreateOptions{}))(t)
	must.Get(server.App.AppV1().Gateways(e.namespace).List(t.Context(), metav1.ListOptions{
		ResourceVersion: created.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}))(t)
}

func (e example) get(t *testing.T, name string) *appv1.Gateway {
	t.Helper()
	gateway := must.Get(server.App.AppV1().Gateways(e.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return gateway
}

// edit makes another generation of a Gateway.
func (e example) edit(t *testing.T, name string) {
	t.Helper()
	must.Get(server.App.AppV1().Gateways(e.namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec": {"replicas": 7}}`), metav1.PatchOptions{}))(t)
}

func (e example) delete(t *testing.T, name string) {
	t.Helper()
	must.Do(t, server.App.AppV1().Gateways(e.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func testWatch(t *testing.T, e example) {
	t.Helper()
	e.create(t, "a")
	program := e.start(t)
	wantLines(t, program, "found watch/a: 1 listeners, 0 routes, generation 1 is not programmed\n")
	e.create(t, "b")
	wantLines(t, program, "added watch/b: 1 listeners, 0 routes, generation 1 is not programmed\n")
	e.edit(t, "a")
	wantLines(t, program, "changed watch/a: 1 listeners, 0 routes, generation 2 is not programmed\n")
	gateway := e.get(t, "a")
	meta.SetStatusCondition(&gateway.Status.Conditions, metav1.Condition{
		Type: appv1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "Programmed", ObservedGeneration: 2,
	})
	must.Get(server.App.AppV1().Gateways(e.namespace).UpdateStatus(t.Context(), gateway, metav1.UpdateOptions{}))(t)
	wantLines(t, program, "changed watch/a: 1 listeners, 0 routes, generation 2 is programmed\n")
	e.delete(t, "b")
	wantLines(t, program, "deleted watch/b\n")
	wantStop(t, program, syscall.SIGTERM)
	if strings.Contains(program.Output(), "added watch/a") {
		t.Error("what there was at the start was printed as added")
	}
}

func testCreate(t *testing.T, e example) {
	t.Helper()
	if said := e.run(t, 0, "-service=a"); said != "created shop\napplied route a: generation 2 has 1 routes\nowned: route a\n" {
		t.Errorf("said %q", said)
	}
	another := applyappv1.Gateway("shop", e.namespace).WithSpec(applyappv1.GatewaySpec().WithRoutes(
		applyappv1.Route().WithName("another").WithRules(applyappv1.RouteRule())))
	must.Get(server.App.AppV1().Gateways(e.namespace).Apply(t.Context(), another, metav1.ApplyOptions{FieldManager: "another"}))(t)
	applyAgain := func() *appv1.Gateway {
		t.Helper()
		if said := e.run(t, 0, "-service=a"); said != "found shop\napplied route a: generation 3 has 2 routes\nowned: route a\n" {
			t.Errorf("said %q", said)
		}
		return e.get(t, "shop")
	}
	// The API server sorts those who apply by the second, then by name. What was another's last may become this one's,
	// which is a write, unless both fell into one second: after that, the order stays, "another" first.
	before := applyAgain()
	if after := applyAgain(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("applying the same again has written\n%+v instead of\n%+v", after, before)
	}
	// The route that is not applied any more goes, and somebody else's stays.
	if said := e.run(t, 0, "-service=b"); said != "found shop\napplied route b: generation 4 has 2 routes\nowned: route b\n" {
		t.Errorf("said %q", said)
	}
	want := "create: failed to create Gateway create/Shop: "
	if said := e.run(t, 1, "-gateway=Shop"); !strings.HasPrefix(said, want) || strings.Count(said, "\n") != 1 {
		t.Errorf("said %q, want one line with %q", said, want)
	}
}

func testWeight(t *testing.T, e example) {
	t.Helper()
	gateway := applyappv1.Gateway("shop", e.namespace).WithSpec(applyappv1.GatewaySpec().
		WithListeners(applyappv1.Listener().WithName("http").WithPort(80).WithProtocol(appv1.ProtocolHTTP)).
		WithRoutes(applyappv1.Route().WithName("shop").WithRules(applyappv1.RouteRule().WithBackendRefs(
			applyappv1.BackendRef().WithName("v1").WithPort(80), applyappv1.BackendRef().WithName("v2").WithPort(80)))))
	must.Get(server.App.AppV1().Gateways(e.namespace).Apply(t.Context(), gateway, metav1.ApplyOptions{FieldManager: "test"}))(t)
	for range 2 {
		e.run(t, 0, "-service=v2", "-weight=7")
		if refs := e.get(t, "shop").Spec.Routes[0].Rules[0].BackendRefs; *refs[0].Weight != 1 || *refs[1].Weight != 7 {
			t.Errorf("the weights are %d and %d", *refs[0].Weight, *refs[1].Weight)
		}
	}
	want := "weight: failed to set the weight of v2 in Gateway weight/shop: "
	if said := e.run(t, 1, "-service=v2", "-weight=99999999999"); !strings.HasPrefix(said, want) || strings.Count(said, "\n") != 1 {
		t.Errorf("said %q, want one line with %q", said, want)
	}
}

func testDynamic(t *testing.T, e example) {
	t.Helper()
	program := e.start(t)
	applied := "dynamic/shop: 1 listeners, 1 routes, generation 2\n"
	wantLines(t, program, "applied "+applied)
	// An informer may list objects that are a little older than the last write, and then the change follows.
	wantAnyLine(t, program, "found "+applied, "changed "+applied)
	e.edit(t, "shop")
	wantLines(t, program, "changed dynamic/shop: 1 listeners, 1 routes, generation 3\n")
	e.delete(t, "shop")
	wantLines(t, program, "deleted dynamic/shop\n")
	wantStop(t, program, syscall.SIGINT)
}

func testQueue(t *testing.T, e example) {
	t.Helper()
	e.create(t, "a")
	program := e.start(t)
	wantLines(t, program, "Gateway queue/a: generation 1, 0 routes\n")
	pods := server.Kube.CoreV1().Pods(e.namespace)
	must.Get(pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{}))(t)
	wantLines(t, program, "Pod queue/p: Pending\n")
	e.edit(t, "a")
	wantLines(t, program, "Gateway queue/a: generation 2, 0 routes\n")

	// On a full disk, printing fails: each object is tried six times, and given up.
	full := testenv.Start(t, nil, "sh", "-c", `exec "$@" >/dev/full`, "sh", e.path, "-kubeconfig", server.Kubeconfig, "-namespace", e.namespace)
	testenv.Eventually(t, 20*time.Second, "both objects are dropped", wantCounts(full, map[string]int{
		`"Trying again" kind="Pod" name="queue/p"`:                                                                5,
		`"Trying again" kind="Gateway" name="queue/a"`:                                                            5,
		`"Dropped until it changes again" err="failed to print Pod queue/p: write /dev/stdout: no space left`:     1,
		`"Dropped until it changes again" err="failed to print Gateway queue/a: write /dev/stdout: no space left`: 1,
	}))
	wantStop(t, full, syscall.SIGINT)

	e.delete(t, "a")
	now := int64(0)
	must.Do(t, pods.Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	wantLines(t, program, "Gateway queue/a: gone\n", "Pod queue/p: gone\n")
	wantStop(t, program, syscall.SIGTERM)
}
