package main

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/children"
)

var ctx = context.Background()

// newGateway returns Gateway web/shop, with a listener on port 80 and a route to port 8080 of the Service api.
func newGateway(mods ...func(*appv1.Gateway)) *appv1.Gateway {
	gateway := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "shop-uid", Generation: 1},
		Spec: appv1.GatewaySpec{
			Replicas:  new(int32(2)),
			Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
			Routes: []appv1.Route{{Name: "shop", Rules: []appv1.RouteRule{{
				BackendRefs: []appv1.BackendRef{{Name: "api", Port: 8080, Weight: new(int32(1))}},
			}}}},
			Service: appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Annotations: map[string]string{"pool": "blue"}},
		},
	}
	for _, mod := range mods {
		mod(gateway)
	}
	return gateway
}

// balanced gives a Gateway a load balancer.
func balanced(gateway *appv1.Gateway) { gateway.Spec.Service.Type = corev1.ServiceTypeLoadBalancer }

// newService returns the Service web/NAME with a TCP port.
func newService(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// edit changes the Gateway as a user would: the generation goes up.
func (f *fixture) edit(mod func(*appv1.Gateway)) {
	f.t.Helper()
	gateway := f.gateway()
	mod(gateway)
	gateway.Generation++
	must.Get(f.gateways.AppV1().Gateways("web").Update(ctx, gateway, metav1.UpdateOptions{FieldManager: "kubectl"}))(f.t)
}

var allChildren = []string{
	"create serviceaccounts shop-gateway",
	"create roles shop-gateway",
	"create rolebindings shop-gateway",
	"create services shop-gateway",
	"create poddisruptionbudgets shop-gateway",
	"create deployments shop-gateway",
}

func TestCreatesEveryChild(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.expectWrites(f.mustSync(), append(allChildren, "patch gateways/status shop")...)
	if got := len(f.kube.Actions()); got != len(allChildren) {
		t.Errorf("there were %d requests for %d children", got, len(allChildren))
	}
	f.expectEvents("Normal Synced generation 1: applied ServiceAccount, Role, RoleBinding, Service, PodDisruptionBudget, Deployment")
	f.expectCondition("Accepted=True Accepted: every route is served")
	f.expectCondition("ResolvedRefs=True ResolvedRefs: everything that is named exists and can be used")
	f.expectCondition("Programmed=False NoReadyProxies: 0 of 2 proxies are ready")
	if got := f.gateway().Status.ObservedGeneration; got != 1 {
		t.Errorf("the status is of generation %d, want 1", got)
	}
	deployment := must.Get(f.kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}))(t)
	if owner := metav1.GetControllerOf(deployment); owner == nil || owner.UID != "shop-uid" || owner.Kind != "Gateway" {
		t.Errorf("the Deployment is controlled by %+v, want the Gateway", owner)
	}
}

// onNodes runs the proxies as a DaemonSet.
func onNodes(gateway *appv1.Gateway) { gateway.Spec.Pods.Kind = appv1.PodsKindDaemonSet }

// TestCreatesADaemonSet: it is in place of the Deployment, and of the PodDisruptionBudget, which is of no use for it.
func TestCreatesADaemonSet(t *testing.T) {
	f := newFixture(t, newGateway(onNodes), newService("api", 8080))
	writes := append(slices.Clone(allChildren[:4]), "create daemonsets shop-gateway")
	f.expectWrites(f.mustSync(), append(writes, "patch gateways/status shop")...)
	f.expectEvents("Normal Synced generation 1: applied ServiceAccount, Role, RoleBinding, Service, DaemonSet")
	f.expectWrites(f.mustSync())

	daemonSet := must.Get(f.kube.AppsV1().DaemonSets("web").Get(ctx, "shop-gateway", metav1.GetOptions{}))(t)
	daemonSet.Status = k8sappsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3, CurrentNumberScheduled: 1}
	must.Get(f.kube.AppsV1().DaemonSets("web").UpdateStatus(ctx, daemonSet, metav1.UpdateOptions{FieldManager: "controller-manager"}))(t)
	f.expectWrites(f.mustSync(), "patch gateways/status shop")
	f.expectCondition("Programmed=False NoReadyProxies: 0 of 3 proxies are ready; DaemonSet shop-gateway: 1 of 3 nodes have a pod: its events say why")
	if got := f.gateway().Status.Replicas; got != 1 {
		t.Errorf("status.replicas is %d, want 1", got)
	}
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Pods.NodeSelector = map[string]string{"edge": "true"} })
	f.expectWrites(f.mustSync(), "patch daemonsets shop-gateway", "patch gateways/status shop")
}

func TestSteadyStateWritesNothing(t *testing.T) {
	for _, mods := range [][]func(*appv1.Gateway){nil, {onNodes}} {
		f := newFixture(t, newGateway(mods...), newService("api", 8080))
		f.settle()
		for range 3 { // resyncs
			f.now = f.now.Add(time.Minute)
			f.expectWrites(f.mustSync())
		}
		f.expectEvents()
	}
}

func TestStaleCachesCauseNoSecondWrite(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.settle()
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Replicas = new(int32(3)) })
	f.expectWrites(f.mustSync(), "patch deployments shop-gateway", "patch gateways/status shop")
	f.expectEvents("Normal Synced generation 2: applied Deployment")

	writes, err := f.sync() // before the informers have seen what was just written
	must.Do(t, err)
	f.expectWrites(writes)
	f.expectEvents()
}

func TestFirstSyncOfAGeneration(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.settle()
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Routes[0].Hostnames = []appv1.Hostname{"shop.example.com"} })
	f.expectWrites(f.mustSync(), "patch gateways/status shop")
	f.expectEvents("Normal Synced generation 2: nothing to apply but the status")
}

func TestSpecReachesTheService(t *testing.T) {
	f := newFixture(t, newGateway(balanced, func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, appv1.Listener{Name: "alt", Port: 8080, Protocol: appv1.ProtocolHTTP})
	}), newService("api", 8080))
	f.settle()
	f.edit(func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = gateway.Spec.Listeners[:1]
		gateway.Spec.Service = appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}
	})
	f.expectWrites(f.mustSync(), "patch services shop-gateway", "patch gateways/status shop")
	service := must.Get(f.kube.CoreV1().Services("web").Get(ctx, "shop-gateway", metav1.GetOptions{}))(t)
	if len(service.Annotations) != 0 || len(service.Spec.Ports) != 1 || service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("annotations %v, ports %v, type %s are not what the spec says now",
			service.Annotations, service.Spec.Ports, service.Spec.Type)
	}
}

// TestARenamedListener: the Service stays as it is, and connections to it go on.
func TestARenamedListener(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.settle()
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Listeners[0].Name = "renamed" })
	f.expectWrites(f.mustSync(), "patch gateways/status shop")
}

func TestDriftIsRepaired(t *testing.T) {
	kubectl := metav1.PatchOptions{FieldManager: "kubectl"}
	drifts := map[string]struct {
		drift func(f *fixture) error
		want  []string
	}{
		"a field is changed": {func(f *fixture) error {
			_, err := f.kube.AppsV1().Deployments("web").Patch(ctx, "shop-gateway", types.MergePatchType,
				[]byte(`{"spec":{"replicas":9}}`), kubectl)
			return err
		}, []string{"patch deployments shop-gateway"}},
		"our label is taken off": {func(f *fixture) error {
			_, err := f.kube.AppsV1().Deployments("web").Patch(ctx, "shop-gateway", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"app.example.com/gateway":null}}}`), kubectl)
			return err
		}, []string{"create deployments shop-gateway", "patch deployments shop-gateway"}}, // not in the cache, it is taken for missing
		"our label is taken off a Service": {func(f *fixture) error {
			_, err := f.kube.CoreV1().Services("web").Patch(ctx, "shop-gateway", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"app.example.com/gateway":null}}}`), kubectl)
			return err
		}, []string{"patch services shop-gateway"}},
		"permissions are added": {func(f *fixture) error {
			_, err := f.kube.RbacV1().Roles("web").Patch(ctx, "shop-gateway", types.JSONPatchType,
				[]byte(`[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}}]`), kubectl)
			return err
		}, []string{"patch roles shop-gateway"}},
		"a child is deleted": {func(f *fixture) error {
			return f.kube.PolicyV1().PodDisruptionBudgets("web").Delete(ctx, "shop-gateway", metav1.DeleteOptions{})
		}, []string{"create poddisruptionbudgets shop-gateway"}},
		"someone adds a field of their own": {func(f *fixture) error {
			_, err := f.kube.AppsV1().Deployments("web").Patch(ctx, "shop-gateway", types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"note":"theirs"}},"spec":{"template":{"metadata":{"annotations":{"restarted":"now"}}}}}`),
				kubectl)
			return err
		}, nil},
	}
	for name, test := range drifts {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newGateway(), newService("api", 8080))
			f.settle()
			must.Do(t, test.drift(f))
			f.expectWrites(f.mustSync(), test.want...)
			f.expectWrites(f.mustSync())
		})
	}
}

// TestOutdatedWrites: what was computed from an object that has changed meanwhile is refused, and done again without a
// word.
func TestOutdatedWrites(t *testing.T) {
	uids := map[string]string{"services": `"uid":"service-uid"`, "gateways": `"uid":"shop-uid"`}
	for resource, clients := range map[string]func(f *fixture) *clienttesting.Fake{
		"services": func(f *fixture) *clienttesting.Fake { return &f.kube.Fake },
		"gateways": func(f *fixture) *clienttesting.Fake { return &f.gateways.Fake },
	} {
		t.Run(resource, func(t *testing.T) {
			f := newFixture(t, newGateway(balanced), newService("api", 8080))
			f.settle()
			service, err := f.kube.CoreV1().Services("web").Get(ctx, "shop-gateway", metav1.GetOptions{})
			must.Do(t, err)
			service.UID = "service-uid"
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			must.Get(f.kube.CoreV1().Services("web").Update(ctx, service, metav1.UpdateOptions{}))(t)
			f.settle()
			conflicts := 0
			clients(f).PrependReactor("patch", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch := string(action.(clienttesting.PatchAction).GetPatch())
				if !strings.Contains(patch, `"resourceVersion":"`) || strings.Contains(patch, `"resourceVersion":""`) {
					t.Error("the write does not say what it was computed from")
				}
				if !strings.Contains(patch, uids[resource]) {
					t.Errorf("without %s, the write would create what was deleted: %s", uids[resource], patch)
				}
				conflicts++
				return conflicts == 1, nil, apierrors.NewConflict(schema.GroupResource{Resource: resource}, "shop", errors.New("it was modified"))
			})
			f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Listeners[0].Port++ })
			f.catchUp()
			_, err = f.sync()
			if !children.OnlyOutdated(err) {
				t.Errorf("got %v, want %v and nothing else", err, children.ErrOutdated)
			}
			if len(f.gateway().Status.Addresses) == 0 {
				t.Error("the status has lost its address to a child that was not written")
			}
			f.mustSync()
			events := f.events()
			for _, event := range events {
				if !strings.HasPrefix(event, "Normal Synced") {
					t.Errorf("there is an event: %s", event)
				}
			}
			if !strings.Contains(strings.Join(events, "\n"), "applied Service") {
				t.Errorf("no event says what was applied: %q", events)
			}
		})
	}
}

func TestForeignObjectsAreNeverTouched(t *testing.T) {
	foreign := metav1.ObjectMeta{Namespace: "web", Name: "shop-gateway", Annotations: map[string]string{"of": "someone else"}}
	kinds := map[string]struct {
		object   runtime.Object
		resource string
	}{
		"ServiceAccount":      {&corev1.ServiceAccount{ObjectMeta: foreign}, "serviceaccounts"},
		"Role":                {&rbacv1.Role{ObjectMeta: foreign}, "roles"},
		"RoleBinding":         {&rbacv1.RoleBinding{ObjectMeta: foreign}, "rolebindings"},
		"Service":             {&corev1.Service{ObjectMeta: foreign}, "services"},
		"PodDisruptionBudget": {&policyv1.PodDisruptionBudget{ObjectMeta: foreign}, "poddisruptionbudgets"},
		"Deployment":          {&k8sappsv1.Deployment{ObjectMeta: foreign}, "deployments"},
	}
	for kind, test := range kinds {
		for variant, mod := range map[string]func(metav1.Object){
			"": func(metav1.Object) {},
			" that carries our label": func(object metav1.Object) {
				object.SetLabels(map[string]string{"app.example.com/gateway": "shop"})
			},
			" of another Gateway": func(object metav1.Object) {
				object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "app.example.com/v1", Kind: "Gateway", Name: "other", UID: "other", Controller: new(true)}})
			},
			" of the Gateway API's Gateway of that name": func(object metav1.Object) {
				object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: "shop", UID: "other", Controller: new(true)}})
			},
		} {
			t.Run(kind+variant, func(t *testing.T) {
				object := test.object.DeepCopyObject()
				accessor := must.Get(meta.Accessor(object))(t)
				mod(accessor)
				f := newFixture(t, newGateway(), newService("api", 8080), object)
				expectForeign(f, kind, test.resource)
			})
		}
	}
}

// TestAForeignServiceAccountOfARunningGateway: the ServiceAccount was replaced by someone else's. The Deployment is
// left as it is.
func TestAForeignServiceAccountOfARunningGateway(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.settle()
	deployment := must.Get(f.kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}))(t)
	deployment.Status.Replicas = 2
	must.Get(f.kube.AppsV1().Deployments("web").UpdateStatus(ctx, deployment, metav1.UpdateOptions{}))(t)
	must.Do(t, deleteChild(f, "serviceaccounts"))
	must.Do(t, f.kube.Tracker().Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop-gateway"}}))
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Replicas = new(int32(3)) })
	f.catchUp()
	writes, err := f.sync()
	if !errors.As(err, new(*children.NotOwnedError)) {
		t.Errorf("got the error %v, want that the ServiceAccount is someone else's", err)
	}
	f.expectWrites(writes, "create serviceaccounts shop-gateway", "patch gateways/status shop")
	if got := f.gateway().Status.Replicas; got != 2 {
		t.Errorf("status.replicas is %d, want the 2 that the Deployment has", got)
	}
}

// TestAForeignDeploymentIsNotCounted: its pods are not the Gateway's, whatever its label says.
func TestAForeignDeploymentIsNotCounted(t *testing.T) {
	foreign := metav1.ObjectMeta{Namespace: "web", Name: "shop-gateway", Labels: map[string]string{"app.example.com/gateway": "shop"}}
	f := newFixture(t, newGateway(), newService("api", 8080), &corev1.ServiceAccount{ObjectMeta: foreign},
		&k8sappsv1.Deployment{ObjectMeta: foreign, Status: k8sappsv1.DeploymentStatus{Replicas: 7}})
	f.catchUp()
	if _, err := f.sync(); !errors.As(err, new(*children.NotOwnedError)) {
		t.Errorf("got the error %v, want that the ServiceAccount is someone else's", err)
	}
	if got := f.gateway().Status.Replicas; got != 0 {
		t.Errorf("status.replicas is %d, want none of someone else's", got)
	}
}

// TestForeignObjectThatComesBetween: the object is made when the operator has already seen that there is none.
func TestForeignObjectThatComesBetween(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	foreign := &k8sappsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop-gateway"}}
	came := false
	f.kube.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !came {
			must.Do(t, f.kube.Tracker().Add(foreign))
		}
		came = true
		return false, nil, nil
	})
	expectForeign(f, "Deployment", "deployments")
}

// TestForeignObjectThatGoesAtOnce: what was in the way of a child is gone when the operator looks whose it is. That is
// told to nobody.
func TestForeignObjectThatGoesAtOnce(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	tries := 0
	f.kube.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		tries++
		return tries == 1, nil, apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "shop-gateway", errors.New("there is one"))
	})
	if _, err := f.sync(); !children.OnlyOutdated(err) {
		t.Errorf("got %v, want %v and nothing else", err, children.ErrOutdated)
	}
	f.expectWrites(f.mustSync(), "create deployments shop-gateway")
	for _, event := range f.events() {
		if !strings.HasPrefix(event, "Normal Synced") {
			t.Errorf("there is an event: %s", event)
		}
	}
}

// restOn names the children that wait for a child of some kind: they would use what is in its way.
var restOn = map[string][]string{
	"serviceaccounts": {"rolebindings", "deployments"},
	"roles":           {"rolebindings", "deployments"},
	"rolebindings":    {"deployments"},
}

// expectForeign syncs twice while an object of the kind is in the way, and then once without it.
func expectForeign(f *fixture, kind, resource string) {
	f.t.Helper()
	missing := "create " + resource + " shop-gateway"
	others := func(writes []string) []string { // a try to create it is refused
		return slices.DeleteFunc(slices.Clone(writes), func(write string) bool { return write == missing })
	}
	independent := slices.DeleteFunc(others(allChildren), func(write string) bool {
		return slices.Contains(restOn[resource], strings.Fields(write)[1])
	})
	message := kind + " web/shop-gateway exists and does not belong to Gateway shop: delete or rename one of them"
	writes, err := f.sync()
	if err == nil || err.Error() != message {
		f.t.Errorf("got the error %v, want %s", err, message)
	}
	f.expectWrites(others(writes), append(independent, "patch gateways/status shop")...)
	f.expectEvents("Warning ChildNotOwned " + message)
	f.expectCondition("Programmed=False ChildNotOwned: " + message)

	f.catchUp()
	writes, err = f.sync()
	if err == nil {
		f.t.Error("there is no error, so nothing would try again")
	}
	f.expectWrites(others(writes))
	f.expectEvents()
	if f.versions[resource+"/web/shop-gateway"] != 0 {
		f.t.Errorf("the %s was written", kind)
	}

	must.Do(f.t, deleteChild(f, resource))
	rest := slices.DeleteFunc(slices.Clone(allChildren), func(write string) bool { return slices.Contains(independent, write) })
	f.expectWrites(f.mustSync(), append(rest, "patch gateways/status shop")...)
	applied := map[int]string{1: kind, 2: kind + ", Deployment", 3: kind + ", RoleBinding, Deployment"}[len(rest)]
	f.expectEvents("Normal Synced generation 1: applied " + applied)
}

func deleteChild(f *fixture, resource string) error {
	const name = "shop-gateway"
	switch resource {
	case "serviceaccounts":
		return f.kube.CoreV1().ServiceAccounts("web").Delete(ctx, name, metav1.DeleteOptions{})
	case "roles":
		return f.kube.RbacV1().Roles("web").Delete(ctx, name, metav1.DeleteOptions{})
	case "rolebindings":
		return f.kube.RbacV1().RoleBindings("web").Delete(ctx, name, metav1.DeleteOptions{})
	case "services":
		return f.kube.CoreV1().Services("web").Delete(ctx, name, metav1.DeleteOptions{})
	case "poddisruptionbudgets":
		return f.kube.PolicyV1().PodDisruptionBudgets("web").Delete(ctx, name, metav1.DeleteOptions{})
	default:
		return f.kube.AppsV1().Deployments("web").Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// BenchmarkSteadyState is a sync that finds nothing to do: what a resync costs per Gateway.
func BenchmarkSteadyState(b *testing.B) {
	f := newFixture(b, newGateway(), newService("api", 8080), newSlice("a", "b"))
	f.settle()
	for b.Loop() {
		must.Do(b, f.controller.syncHandler(ctx, cache.NewObjectName("web", "shop")))
	}
	f.expectWrites(f.writes())
}

// TestATableTheOperatorDoesNotMake: the entries of a table are the product of what a spec lists. In a namespace,
// someone could ask for more of them than the operator of all namespaces has memory for.
func TestATableTheOperatorDoesNotMake(t *testing.T) {
	f := newFixture(t, newGateway(func(gateway *appv1.Gateway) {
		spec := &gateway.Spec
		spec.Listeners = nil
		for i := range 8 {
			spec.Listeners = append(spec.Listeners, appv1.Listener{Name: appv1.Name(fmt.Sprint("l", i)), Port: int32(1000 + i), Protocol: appv1.ProtocolHTTP})
		}
		route := &spec.Routes[0]
		for i := range 64 {
			route.Hostnames = append(route.Hostnames, appv1.Hostname(fmt.Sprint("h", i)))
			route.Rules[0].Matches = append(route.Rules[0].Matches, appv1.RouteMatch{Path: appv1.PathMatch{Value: fmt.Sprint("/", i)}})
		}
		for len(route.Rules) < 16 {
			route.Rules = append(route.Rules, route.Rules[0])
		}
	}), newService("api", 8080))
	f.settle()

	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f.expectWrites(f.mustSync())
	goruntime.ReadMemStats(&after)
	const enough = 64 << 20
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > enough {
		t.Errorf("a sync took %d MiB of memory in all, want %d at most", allocated>>20, enough>>20)
	}
}
