package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	appv1 "gateway/api/app/v1"
	appinformers "gateway/generated/app/informers/externalversions"
	"gateway/internal/must"
	"gateway/internal/operator/children"
	"gateway/internal/operator/safely"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// fixture is a Controller on a fake API server. Its informers do not run: the caches hold what catchUp copied into
// them, so it is the test that decides how far behind they are.
type fixture struct {
	*fakeServer
	inputs     Inputs
	controller *Controller
	// now is what the Controller takes for the time.
	now time.Time
	// later are the tasks that the Controller put off.
	later map[task]bool
}

// impatientQueue is a queue of a Controller that notes what is put off.
type impatientQueue struct {
	workqueue.TypedRateLimitingInterface[task]
	f *fixture
}

func (q *impatientQueue) AddAfter(task task, delay time.Duration) {
	q.f.later[task] = true
	q.TypedRateLimitingInterface.AddAfter(task, delay)
}

// newFixture returns a fixture whose API server holds the objects of the YAML documents, and whose caches know them.
func newFixture(tb testing.TB, documents string) *fixture {
	tb.Helper()
	f := &fixture{fakeServer: newServer(tb), now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	f.put(documents)
	own := appinformers.NewSharedInformerFactory(f.own, 0).App().V1()
	services := informers.NewSharedInformerFactory(f.kube, 0)
	f.inputs = Inputs{
		Gateways: own.Gateways(), Proxies: own.GatewayProxies().Informer(), Attachments: own.GatewayAttachments().Informer(),
		Configs: own.GatewayConfigs(), Filters: own.RouteFilters(), Policies: own.BackendPolicies(), Services: services,
		Endpoints:  services.Discovery().V1().EndpointSlices().Informer(),
		Namespaces: services.Core().V1().Namespaces().Informer(), Bindings: services.Rbac().V1().RoleBindings().Informer(),
		ClusterBindings: services.Rbac().V1().ClusterRoleBindings().Informer(),
		Imports:         informers.NewSharedInformerFactory(f.kube, 0).Core().V1().Services().Informer(), // the server has none
		MayWatchCluster: func(own *appv1.Gateway) bool { return own.Spec.Watch == appv1.WatchCluster },
	}
	for _, informer := range []cache.SharedIndexInformer{f.inputs.Proxies, f.inputs.Attachments, f.inputs.Endpoints} {
		must.Do(tb, informer.AddIndexers(cache.Indexers{children.IndexOwner: children.OwnerKeys}))
	}
	clients := Clients{Kube: f.kube, Gateways: f.own, Routes: f.routes}
	f.controller = must.Get(New(clients, f.inputs, func() time.Time { return f.now }))(tb)
	f.later = map[task]bool{}
	f.controller.queue = &impatientQueue{f.controller.queue, f}
	tb.Cleanup(f.controller.queue.ShutDown)
	tb.Cleanup(f.controller.writes.ShutDown)
	tb.Cleanup(f.controller.attacher.queue.ShutDown)
	for _, resource := range resourceOf {
		if f.controller.served[resource] = f.inputs.Imports; resource == proxypod.ResourceImports {
			continue
		}
		informer := must.Get(f.controller.factory.ForResource(groupVersionOf(resource).WithResource(resource)))(tb)
		f.controller.served[resource] = informer.Informer()
	}
	f.catchUp()
	return f
}

// informerOf returns the informer that fills a cache, nil if the cluster does not have the kind.
type informerOf func(f *fixture) cache.SharedIndexInformer

// kinds are the kinds of the objects that the Controller reads.
var kinds = map[schema.GroupVersionKind]informerOf{
	ownKind("Gateway"):           func(f *fixture) cache.SharedIndexInformer { return f.inputs.Gateways.Informer() },
	ownKind("GatewayProxy"):      func(f *fixture) cache.SharedIndexInformer { return f.inputs.Proxies },
	ownKind("GatewayAttachment"): func(f *fixture) cache.SharedIndexInformer { return f.inputs.Attachments },
	ownKind("GatewayConfig"):     func(f *fixture) cache.SharedIndexInformer { return f.inputs.Configs.Informer() },
	ownKind("RouteFilter"):       func(f *fixture) cache.SharedIndexInformer { return f.inputs.Filters.Informer() },
	ownKind("BackendPolicy"):     func(f *fixture) cache.SharedIndexInformer { return f.inputs.Policies.Informer() },
	coreKind("Namespace"):        func(f *fixture) cache.SharedIndexInformer { return f.inputs.Namespaces },
	coreKind("Service"): func(f *fixture) cache.SharedIndexInformer {
		return f.inputs.Services.Core().V1().Services().Informer()
	},
	endpointSlices:                func(f *fixture) cache.SharedIndexInformer { return f.inputs.Endpoints },
	roleBindings:                  func(f *fixture) cache.SharedIndexInformer { return f.inputs.Bindings },
	clusterRoleBindings:           func(f *fixture) cache.SharedIndexInformer { return f.inputs.ClusterBindings },
	routeKind("GatewayClass"):     served("gatewayclasses"),
	routeKind("Gateway"):          served("gateways"),
	routeKind("ListenerSet"):      served("listenersets"),
	routeKind("HTTPRoute"):        served("httproutes"),
	routeKind("GRPCRoute"):        served("grpcroutes"),
	routeKind("TLSRoute"):         served("tlsroutes"),
	routeKind("TCPRoute"):         served("tcproutes"),
	routeKind("UDPRoute"):         served("udproutes"),
	routeKind("BackendTLSPolicy"): served("backendtlspolicies"),
	routeKind("ReferenceGrant"):   served("referencegrants"),
	telemetryKind:                 served(resourceTelemetry),
}

// routeKind returns a kind of the Gateway API.
func routeKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: kind}
}

var (
	telemetryKind  = schema.GroupVersion(v1alpha1.GroupVersion).WithKind("XTelemetryPolicy")
	endpointSlices = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	roleBindings   = rbacv1.SchemeGroupVersion.WithKind("RoleBinding")

	clusterRoleBindings = rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")
)

func coreKind(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

func ownKind(kind string) schema.GroupVersionKind { return appv1.SchemeGroupVersion.WithKind(kind) }

func served(resource string) informerOf {
	return func(f *fixture) cache.SharedIndexInformer { return f.controller.informer(resource) }
}

// catchUp makes the caches hold what the API server holds, as informers would: an object that did not change stays
// the same one.
func (f *fixture) catchUp() {
	f.t.Helper()
	for kind := range kinds {
		f.catchUpKind(kind)
	}
	f.clearActions()
}

// catchUpKind makes one cache hold what the API server holds. The others stay behind.
func (f *fixture) catchUpKind(kind schema.GroupVersionKind) {
	f.t.Helper()
	informer := kinds[kind](f)
	if informer == nil { // the cluster does not have it
		return
	}
	indexer := informer.GetIndexer()
	gone := map[string]any{}
	for _, object := range indexer.List() {
		gone[cache.MetaObjectToName(object.(metav1.Object)).String()] = object
	}
	var all []any
	var events []func()
	for _, object := range f.list(kind) {
		if (kind == roleBindings || kind == clusterRoleBindings) && object.GetLabels()[LabelAttached] == "" {
			continue
		}
		stripped := must.Get(children.Strip(object))(f.t)
		old, known, _ := indexer.Get(object)
		delete(gone, cache.MetaObjectToName(object).String())
		if known && old.(metav1.Object).GetResourceVersion() == object.GetResourceVersion() {
			stripped = old
		} else {
			events = append(events, func() { f.controller.changed(nameOfKind(kind), old, stripped) })
		}
		all = append(all, stripped)
	}
	for _, old := range gone {
		events = append(events, func() { f.controller.changed(nameOfKind(kind), old, nil) })
	}
	must.Do(f.t, indexer.Replace(all, ""))
	for _, event := range events {
		event()
	}
}

// nameOfKind returns what the Controller calls a kind.
func nameOfKind(kind schema.GroupVersionKind) string {
	switch kind {
	case ownKind("Gateway"):
		return source.KindOwn
	case ownKind("GatewayProxy"), endpointSlices:
		return kindProxies
	}
	return kind.Kind
}

// sync calls the Controller once, with the caches as they are, and returns what it wrote. What it writes with a delay
// is written, too.
func (f *fixture) sync() ([]string, error) {
	f.t.Helper()
	f.clearActions()
	err := f.syncOnce(context.Background())
	for key := range f.controller.pending {
		f.controller.writes.Add(key)
	}
	for f.controller.writes.Len() > 0 {
		f.controller.processNextWrite(context.Background())
	}
	return f.writes(), err
}

// syncOnce calls the Controller once, for all that changed and that was put off.
func (f *fixture) syncOnce(ctx context.Context) error {
	tasks := slices.Collect(maps.Keys(f.later))
	clear(f.later)
	for f.controller.queue.Len() > 0 {
		next, _ := f.controller.queue.Get()
		f.controller.queue.Done(next)
		tasks = append(tasks, next)
	}
	err := safely.Do(func() error { return f.controller.sync(ctx, tasks) })
	if err != nil {
		f.later[rebuild] = true
	}
	return errors.Join(err, f.attach(ctx))
}

// attach attaches all places once: the waiting ones, and those that were put off.
func (f *fixture) attach(ctx context.Context) error {
	a := f.controller.attacher
	for p := range a.wanted {
		a.queue.Add(p)
	}
	var errs []error
	for n := a.queue.Len(); n > 0; n-- {
		_, err := a.next(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mustSync lets the caches catch up and calls the Controller once; that must succeed. It returns what was written.
func (f *fixture) mustSync() []string {
	f.t.Helper()
	f.catchUp()
	writes, err := f.sync()
	if err != nil {
		f.t.Fatalf("failed to sync: %v", err)
	}
	return writes
}

// settle syncs until there is nothing to write.
func (f *fixture) settle() {
	f.t.Helper()
	for range 6 {
		if len(f.mustSync()) == 0 {
			return
		}
	}
	f.t.Fatal("six syncs in a row had something to write")
}

// newSettled is newFixture, and the operator has made everything.
func newSettled(tb testing.TB, documents string) *fixture {
	tb.Helper()
	f := newFixture(tb, documents)
	f.settle()
	return f
}

func (f *fixture) clearActions() {
	f.kube.ClearActions()
	f.own.ClearActions()
	f.routes.ClearActions()
}

// writes are the requests since the last sync began that ask to change something, sorted: "verb resource name", with
// the subresource and the namespace. Our own Gateways are "own gateways".
func (f *fixture) writes() []string {
	var writes []string
	for _, action := range slices.Concat(f.kube.Actions(), f.own.Actions(), f.routes.Actions()) {
		if slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			continue
		}
		what := action.GetResource().Resource
		if action.GetResource().Group == appv1.GroupName {
			what = "own " + what
		}
		if action.GetSubresource() != "" {
			what += "/" + action.GetSubresource()
		}
		r := must.Get(requestOf(action))(f.t)
		writes = append(writes, action.GetVerb()+" "+what+" "+strings.TrimPrefix(action.GetNamespace()+"/"+r.name, "/"))
	}
	slices.Sort(writes)
	return writes
}

func (f *fixture) expectWrites(got []string, want ...string) {
	f.t.Helper()
	if !slices.Equal(got, want) {
		f.t.Errorf("wrote\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// fail has the API server answer writes with an error: "patch", "rolebindings".
func (f *fixture) fail(verb, resource string, err error) {
	answer := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
	for fake := range f.trackers() {
		fake.PrependReactor(verb, resource, answer)
	}
}

// ownGateway returns a Gateway of our own as the API server has it, nil if there is none.
func (f *fixture) ownGateway(namespace, name string) *appv1.Gateway {
	f.t.Helper()
	for _, object := range f.list(ownKind("Gateway")) {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return object.(*appv1.Gateway)
		}
	}
	return nil
}

// programShop is program for web/shop, and the operator has seen that.
func (f *fixture) programShop() {
	f.t.Helper()
	f.program("web", "shop")
	f.settle()
}

// program does for a Gateway of our own what the operator and an agent do: it is Programmed, and its only proxy runs
// all there is by now.
func (f *fixture) program(namespace, name string) {
	f.t.Helper()
	own := f.ownGateway(namespace, name)
	if own == nil {
		f.t.Fatalf("there is no Gateway %s/%s of our own", namespace, name)
	}
	own.Status.Addresses = []appv1.GatewayAddress{{Type: "IPAddress", Value: "192.0.2.1"}}
	own.Status.Conditions = []metav1.Condition{{
		Type: appv1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "Programmed",
		ObservedGeneration: own.Generation, LastTransitionTime: metav1.NewTime(f.now),
	}}
	f.putObject(ownKind("Gateway"), own)
	report := &appv1.GatewayProxy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-pod", Labels: proxypod.SelectorLabels(name),
		},
		Status: appv1.GatewayProxyStatus{
			Gateway: appv1.ProxiedGateway{Name: name, UID: own.UID}, ObservedGeneration: own.Generation,
			ResourceVersion: fmt.Sprint(f.version), Watch: appv1.WatchNamespaces,
			Resources: []appv1.ProxiedResource{{
				Resource: proxypod.ResourceAttachments, Namespace: namespace, ResourceVersion: fmt.Sprint(f.version),
			}},
		},
	}
	f.putObject(ownKind("GatewayProxy"), report)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-gateway-1", Labels: proxypod.SelectorLabels(name),
		},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"192.0.2.2"}, TargetRef: podRef(report.Name),
		}},
	}
	slice.Labels[discoveryv1.LabelServiceName] = proxypod.ChildName(name)
	f.putObject(endpointSlices, slice)
}

// podRef is what the endpoint of a pod refers to.
func podRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Name: name}
}

// conditions returns the conditions of an object as the API server has them: "[PART ]Type=Status Reason[: message]".
// The part is "parents[0]", "ancestors[0]" or "listeners[0]".
func (f *fixture) conditions(kind schema.GroupVersionKind, namespace, name string) []string {
	f.t.Helper()
	for _, object := range f.list(kind) {
		if object.GetNamespace() != namespace || object.GetName() != name {
			continue
		}
		content := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(object))(f.t)
		lines := conditionsIn(content, "", "status", "conditions")
		for _, part := range []string{"parents", "ancestors", "listeners"} {
			parts, _, _ := unstructured.NestedSlice(content, "status", part)
			for i := range parts {
				lines = append(lines, conditionsIn(parts[i].(map[string]any), fmt.Sprintf("%s[%d] ", part, i), "conditions")...)
			}
		}
		return lines
	}
	f.t.Fatalf("there is no %s %s/%s", kind.Kind, namespace, name)
	return nil
}

func conditionsIn(content map[string]any, prefix string, fields ...string) []string {
	all, _, _ := unstructured.NestedSlice(content, fields...)
	var lines []string
	for _, one := range all {
		var c metav1.Condition
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(one.(map[string]any), &c)
		line := fmt.Sprintf("%s%s=%s %s: %s", prefix, c.Type, c.Status, c.Reason, c.Message)
		lines = append(lines, strings.TrimSuffix(line, ": "))
	}
	return lines
}

// expectConditions checks that an object has conditions, in the form that conditions returns.
func (f *fixture) expectConditions(kind schema.GroupVersionKind, namespace, name string, want ...string) {
	f.t.Helper()
	got := f.conditions(kind, namespace, name)
	for _, line := range want {
		if !slices.Contains(got, line) {
			f.t.Errorf("%s %s/%s has\n  %s\nwant\n  %s", kind.Kind, namespace, name, strings.Join(got, "\n  "), line)
		}
	}
}
